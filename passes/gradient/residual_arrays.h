/// Residuals that turns of a loop have given go from the forward half to the backward one as one
/// array, so that what is behind them can be a loop again (passes/reroll/reroll.h).
///
///     output saved@7 = %7 : [V]
///     output saved@12 = %12 : [V]    →    %40 = stack %7, %12, … : [64, V]
///     …                                   output saved@7 = %40
#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "ir/graph/graph.h"

namespace rnnc {

struct ResidualArrays {
  struct Place {
    size_t array = 0;
    size_t element = 0;
  };
  std::vector<std::vector<NodeId>> values;  // by array, in its order
  std::map<NodeId, Place> places;           // of all of them
};

/// Of those `residuals` of one form that were written at one place of the text, if they are many:
/// as the rows lie that they are made of. Of those that are `reversed` none.
ResidualArrays find_residual_arrays(const Graph& graph, const std::vector<bool>& residuals,
                                    const std::vector<bool>& reversed);

}  // namespace rnnc
