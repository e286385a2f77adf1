/// Values that kernels of several stages use are made anew where that moves fewer bytes: cheap work
/// on what is in memory in any case, or takes one number per row beside it.
///
///     sequence: kernel { m = mean(x); d = x - m;          sequence: kernel { m = mean(x); … x - m … }
///                        … d … }                     →
///     step h:   kernel { … d … }                          step h:   kernel { … x - m … }
///
/// Layer norm's backward half has two such vectors of each that it normalizes, in f32, where the
/// forward half has saved that in 16 bits.
#pragma once

#include <optional>

#include "passes/schedule/schedule.h"

namespace rnnc {

/// The graph with these values once more for each stage that makes them itself.
struct Rematerialized {
  Graph graph;
  Homes homes;                  // of the new nodes
  std::vector<NodeId> numbers;  // of all nodes, in the graph as it was
};

/// Nothing, if no value is worth it. `schedule` is of the graph, with arrays of `dtype`.
std::optional<Rematerialized> rematerialize(const Graph& graph, const Dependence& dependence,
                                            const Schedule& schedule, DType dtype);

}  // namespace rnnc
