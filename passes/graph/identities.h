/// Replaces arithmetic by simpler arithmetic that gives the same for every value there is, NaN,
/// infinity and -0 included, to the bit.
///
///     %1 = const 1 : []
///     %2 = mul %0, %1 : [H]      →      output y = %0
///     output y = %2
///
/// - Nothing done:   x * 1,  x / 1,  x - 0,  x + -0,  pow(x, 1),  -(-x),  relu(relu(x)),
///                   min(x, x),  max(x, x),  where(c, x, x), where of a constant condition
/// - Signs:          x * -1 and x / -1 are -x;  -x * -y is x * y;  x + -y is x - y;  x - -y is
///                   x + y;  |-x| and ||x|| are |x|
/// - Cheaper:        pow(x, 2) is x * x, to rounding;  x / c is x * (1 / c) if c is a power of two
///
/// Not x * 0, which is not 0 for every x; not x - x; not x + 0, which is 0 and not -0 for -0.
#pragma once

#include "ir/graph/graph.h"

namespace rnnc {

/// Needs a verified Graph. Leaves unused nodes to `dead_code`. True if something was simplified.
bool run_identities(Graph& graph);

}  // namespace rnnc
