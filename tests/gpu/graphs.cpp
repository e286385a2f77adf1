#include "tests/gpu/graphs.h"

#include <cmath>

#include "tests/support/reference/deterministic.h"

namespace rnnc::test {
namespace {

NodeId add_param(Graph& graph, const std::string& name, Shape shape) {
  graph.params.push_back({.name = name, .type = {.shape = std::move(shape)}, .location = {}});
  return graph.param(static_cast<uint32_t>(graph.params.size() - 1));
}

std::vector<double> values_of(const std::string& name, const Shape& shape, int64_t rows) {
  const double scale =
      shape.size() == 2 ? 1 / std::sqrt(static_cast<double>(*shape[1].constant())) : 1;
  return deterministic_values(name, element_count(shape) * rows, scale, DType::f32);
}

}  // namespace

NodeId add_input(Graph& graph, const std::string& name, Shape shape) {
  graph.inputs.push_back({.name = name, .type = {.shape = std::move(shape)}, .location = {}});
  return graph.input(static_cast<uint32_t>(graph.inputs.size() - 1));
}

void add_output(Graph& graph, const std::string& name, NodeId value) {
  graph.outputs.push_back({.name = name, .value = value, .location = {}});
}

Graph lstm_graph(int64_t input_size, int64_t hidden_size) {
  Graph graph;
  graph.name = "LSTM";
  const Dim input(input_size);
  const Dim hidden(hidden_size);
  const NodeId x = add_input(graph, "x", {input});
  graph.states.push_back({.name = "h", .type = {.shape = {hidden}}, .location = {}});
  graph.states.push_back({.name = "c", .type = {.shape = {hidden}}, .location = {}});
  const NodeId h = graph.state(0);
  const NodeId c = graph.state(1);
  const auto gate = [&](const std::string& name, Op activation) {
    const NodeId from_input =
        graph.apply(Op::MatMul, {add_param(graph, "W_" + name, {hidden, input}), x});
    const NodeId from_state =
        graph.apply(Op::MatMul, {add_param(graph, "R_" + name, {hidden, hidden}), h});
    const NodeId bias = add_param(graph, "b_" + name, {hidden});
    const NodeId sum = graph.apply(Op::Add, {from_input, from_state});
    return graph.apply(activation, {graph.apply(Op::Add, {sum, bias})});
  };
  const NodeId i = gate("i", Op::Sigmoid);
  const NodeId f = gate("f", Op::Sigmoid);
  const NodeId g = gate("g", Op::Tanh);
  const NodeId o = gate("o", Op::Sigmoid);
  const NodeId kept = graph.apply(Op::Mul, {f, c});
  const NodeId next_c = graph.apply(Op::Add, {kept, graph.apply(Op::Mul, {i, g})});
  const NodeId next_h = graph.apply(Op::Mul, {o, graph.apply(Op::Tanh, {next_c})});
  const NodeId zero = graph.constant(0);
  graph.states[0].init = zero;
  graph.states[0].next = next_h;
  graph.states[1].init = zero;
  graph.states[1].next = next_c;
  add_output(graph, "h", next_h);
  return graph;
}

InterpreterArgs arguments_for(const Graph& graph, int64_t steps, int64_t batch,
                              bool with_initial_states) {
  InterpreterArgs args;
  args.steps = steps;
  args.batch = batch;
  for (const InputDecl& input : graph.inputs) {
    args.inputs.push_back(values_of(input.name, input.type.shape, steps * batch));
  }
  for (const ParamDecl& param : graph.params) {
    args.params.push_back(values_of(param.name, param.type.shape, 1));
  }
  for (const StateDecl& state : graph.states) {
    if (!with_initial_states) break;
    args.initial_states.push_back(values_of(state.name + "0", state.type.shape, batch));
  }
  return args;
}

}  // namespace rnnc::test
