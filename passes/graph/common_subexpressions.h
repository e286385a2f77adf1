/// Makes equal values one value.
///
///     %2 = add %0, %1 : [H]             %2 = add %0, %1 : [H]
///     %3 = add %1, %0 : [H]      →      %3 = add %1, %0 : [H]   (now unused)
///     %4 = mul %2, %3 : [H]             %4 = mul %2, %2 : [H]
///
/// Needs a verified Graph. Leaves the unused nodes to `dead_code`. Constants are equal if their
/// bits are, so -0 stays apart from 0.
#pragma once

#include "ir/graph/graph.h"

namespace rnnc {

/// True if some use was redirected.
bool run_common_subexpressions(Graph& graph);

}  // namespace rnnc
