/// What a forward half saves of a history's entry is only of use where no reset hides it: all that
/// is made of it is masked. Saved with that mask, it leaves the history free to lie still
/// (passes/graph/histories.h).
///
///     %8 = index %3 at 0 : [H]                %8 = index %3 at 0 : [H]
///     %9 = matmul %1, %8 : [H]                …
///     %10 = where %7, %4, %9 : [H]     →      %20 = where %7, %0, %8 : [H]
///     output saved@8 = %8                     output saved@8 = %20
#pragma once

#include <array>
#include <vector>

#include "ir/graph/graph.h"

namespace rnnc {

class MaskedReads {
 public:
  /// Looks at all that uses a value; the Graph's other outputs, if it has any, are uses.
  explicit MaskedReads(const Graph& graph);

  /// What to save in the stead of a value of that Graph, to which nodes may be appended.
  NodeId saved(Graph& graph, NodeId id) const;

 private:
  /// By direction, per node: 0, or within how many steps of a reset nothing depends on it.
  std::array<std::vector<int64_t>, 2> hidden_;
};

}  // namespace rnnc
