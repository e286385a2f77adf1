/// Residuals that turns of a loop have given go from the forward half to the backward one as one
/// array, so that what is behind them can be a loop again (passes/plan/reroll.h).
///
///     output saved@7 = %7 : [V]
///     output saved@12 = %12 : [V]    →    %40 = stack %7, %12, … : [64, V]
///     …                                   output saved@7 = %40
#pragma once

#include <vector>

#include "ir/graph/graph.h"

namespace rnnc {

/// Each with the values of one array in its order: those of `residuals` of one form that were
/// written at one place of the text, if they are many. Of those that are `reversed` none.
std::vector<std::vector<NodeId>> find_residual_arrays(const Graph& graph,
                                                      const std::vector<bool>& residuals,
                                                      const std::vector<bool>& reversed);

}  // namespace rnnc
