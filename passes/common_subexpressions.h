/// Makes equal values one value.
///
///     %1 = tanh %0 : [H]                %1 = tanh %0 : [H]
///     %2 = tanh %0 : [H]         →      %2 = tanh %0 : [H]      (now unused)
///     %3 = add %1, %2 : [H]             %3 = add %1, %1 : [H]
///
/// Needs a verified Graph. Leaves the unused nodes to `dead_code`. Constants are equal if their
/// bits are, so -0 stays apart from 0.
#pragma once

#include "ir/graph.h"

namespace rnnc {

/// True if some use was redirected.
bool run_common_subexpressions(Graph& graph);

}  // namespace rnnc
