#include <algorithm>
#include <random>

#include "tests/support/cells/random_graph.h"
#include "tests/support/cells/random_numbers.h"

namespace rnnc {
namespace {

std::vector<double> random_values(Random& random, const Type& type, int64_t rows) {
  std::vector<double> values(static_cast<size_t>(rows * element_count(type.shape)));
  for (double& value : values) value = random.value(type.rank() >= 2 ? kMatrixLimit : 1);
  return values;
}

/// Of rows that every table has which they name.
std::vector<double> random_integers(Random& random, const Graph& graph, uint32_t input,
                                    int64_t count) {
  int64_t below = 4;
  for (const NodeId table : tables_of(graph, input)) {
    below = std::min(below, *graph[table].type.shape[0].constant());
  }
  std::vector<double> values(static_cast<size_t>(count));
  for (double& value : values) value = static_cast<double>(random.between(0, below - 1));
  return values;
}

double rounding_of(DType dtype) {
  switch (dtype) {
    case DType::bf16:
      return 0x1p-8;
    case DType::f16:
      return 0x1p-11;
    case DType::f64:
      return 0x1p-53;
    default:
      return 0x1p-24;
  }
}

}  // namespace

InterpreterArgs random_args(const Graph& graph, int64_t steps, int64_t batch, uint64_t seed,
                            bool with_initial_states) {
  Random random(seed);
  InterpreterArgs args;
  args.steps = steps;
  args.batch = batch;
  for (uint32_t i = 0; i < graph.inputs.size(); ++i) {
    args.inputs.push_back(graph.inputs[i].integer
                              ? random_integers(random, graph, i, steps * batch)
                              : random_values(random, graph.inputs[i].type, steps * batch));
  }
  for (const ParamDecl& param : graph.params) {
    args.params.push_back(random_values(random, param.type, 1));
  }
  for (const StateDecl& state : graph.states) {
    if (with_initial_states) {
      args.initial_states.push_back(random_values(random, state.type, batch));
    }
  }
  return args;
}

InterpreterArgs moved_by_rounding(const Graph& graph, InterpreterArgs args, DType dtype) {
  const double relative = rounding_of(dtype);
  std::mt19937 generator(1);
  const auto move = [&](std::vector<double>& array) {
    for (double& value : array) value *= generator() % 2 == 0 ? 1 + relative : 1 - relative;
  };
  for (size_t i = 0; i < args.inputs.size(); ++i) {
    if (!graph.inputs[i].integer) move(args.inputs[i]);
  }
  std::ranges::for_each(args.params, move);
  std::ranges::for_each(args.initial_states, move);
  return args;
}

}  // namespace rnnc
