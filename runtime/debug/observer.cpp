#include "runtime/debug/observer.h"

#include <fmt/format.h>

#include "ir/graph/sweeps.h"
#include "runtime/program/run.h"

namespace rnnc::debug {
namespace {

/// In place of its outputs: the values, turned to run forward. No text has such names.
Graph with_outputs(const Graph& graph, std::span<const NodeId> values) {
  Graph observed = graph;
  const std::vector<Direction> directions = find_directions(graph);
  observed.outputs.clear();
  for (size_t i = 0; i < values.size(); ++i) {
    const bool reversed = directions[values[i]] == Direction::Reversed;
    const SourceLocation location = graph[values[i]].location;
    const NodeId value = reversed ? observed.apply(Op::Reverse, {values[i]}, location) : values[i];
    observed.outputs.push_back({fmt::format("watched@{}", i), value, location});
  }
  return observed;
}

}  // namespace

Result<std::vector<Sequence>> Observer::observe(std::span<const NodeId> values) const {
  std::vector<Sequence> sequences;
  if (values.empty()) return sequences;
  Result<Program> program = Program::compile(with_outputs(graph_, values), options_);
  if (!program) return tl::unexpected(program.error());
  Result<RunResult> result = Runner(*program).run(args_);
  if (!result) return tl::unexpected(result.error());
  for (NamedArray& output : result->outputs) {
    const std::vector<int64_t>& shape = output.array.shape;
    Sequence sequence{.steps = static_cast<size_t>(shape[0]),
                      .batch = static_cast<size_t>(shape[1]),
                      .width = 1,
                      .elements = output.array.to_doubles()};
    for (size_t axis = 2; axis < shape.size(); ++axis) {
      sequence.width *= static_cast<size_t>(shape[axis]);
    }
    output.array.data = {};
    sequences.push_back(std::move(sequence));
  }
  return sequences;
}

}  // namespace rnnc::debug
