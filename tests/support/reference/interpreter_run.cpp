#include "tests/support/reference/interpreter_run.h"

#include <algorithm>

#include "tests/support/reference/sequence_oracle.h"

namespace rnnc::test {
namespace {

const Array* find(const std::vector<NamedArray>& arrays, const std::string& name) {
  const auto found = std::ranges::find(arrays, name, &NamedArray::name);
  return found == arrays.end() ? nullptr : &found->array;
}

std::vector<double> values_of(const std::vector<NamedArray>& arrays, const std::string& name) {
  const Array* array = find(arrays, name);
  RNNC_CHECK(array != nullptr, "no array {}", name);
  return array->to_doubles();
}

InterpreterResult interpret_any(const Graph& graph, const InterpreterArgs& in,
                                const RunArgs& args) {
  if (!args.lengths && !args.reset) return interpret(graph, in);
  std::vector<uint8_t> resets;
  if (args.reset) {
    for (const double value : args.reset->to_doubles()) resets.push_back(value != 0 ? 1 : 0);
  }
  return interpret_sequences(graph, in, args.lengths.value_or(std::vector<int64_t>()), resets);
}

NamedArray named(const std::string& name, const Type& type, std::vector<int64_t> leading,
                 const std::vector<double>& values) {
  for (const Dim& dim : type.shape) leading.push_back(dim.constant().value());
  return {name, Array::from_doubles(values, std::move(leading), DType::f64)};
}

}  // namespace

InterpreterArgs interpreter_args(const Graph& graph, const RunArgs& args) {
  InterpreterArgs in;
  const std::vector<int64_t>& sequence = args.inputs.at(0).array.shape;
  in.steps = sequence.at(0);
  in.batch = sequence.at(1);
  for (const InputDecl& input : graph.inputs) {
    in.inputs.push_back(values_of(args.inputs, input.name));
  }
  for (const ParamDecl& param : graph.params) {
    in.params.push_back(values_of(args.params, param.name));
  }
  for (const StateDecl& state : graph.states) {
    const Array* given = find(args.initial_states, state.name);
    in.initial_states.push_back(given == nullptr ? std::vector<double>{} : given->to_doubles());
  }
  return in;
}

RunResult interpret_run(const Graph& graph, const RunArgs& args) {
  const InterpreterArgs in = interpreter_args(graph, args);
  const InterpreterResult out = interpret_any(graph, in, args);
  RunResult result;
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    result.outputs.push_back(named(graph.outputs[i].name, graph[graph.outputs[i].value].type,
                                   {in.steps, in.batch}, out.outputs[i]));
  }
  for (size_t i = 0; i < graph.states.size(); ++i) {
    result.final_states.push_back(
        named(graph.states[i].name, graph.states[i].type, {in.batch}, out.final_states[i]));
  }
  return result;
}

RunArgs named_args(const Graph& graph, const InterpreterArgs& args,
                   const std::vector<int64_t>& lengths, const std::vector<uint8_t>& resets) {
  RunArgs result;
  for (size_t i = 0; i < args.inputs.size(); ++i) {
    result.inputs.push_back(named(graph.inputs[i].name, graph.inputs[i].type,
                                  {args.steps, args.batch}, args.inputs[i]));
  }
  for (size_t i = 0; i < args.params.size(); ++i) {
    result.params.push_back(named(graph.params[i].name, graph.params[i].type, {}, args.params[i]));
  }
  for (size_t i = 0; i < args.initial_states.size(); ++i) {
    if (args.initial_states[i].empty()) continue;
    result.initial_states.push_back(
        named(graph.states[i].name, graph.states[i].type, {args.batch}, args.initial_states[i]));
  }
  if (!lengths.empty()) result.lengths = lengths;
  if (!resets.empty()) {
    result.reset =
        Array::from_doubles({resets.begin(), resets.end()}, {args.steps, args.batch}, DType::f32);
  }
  return result;
}

}  // namespace rnnc::test
