#include "passes/gradient/interpret_gradients.h"

#include <algorithm>

namespace rnnc {
namespace {

using Arrays = std::vector<std::vector<double>>;

/// Moves each of `values`, named by `ends`, to the place of the declaration of its name.
template <typename Decl, typename End>
Arrays by_declaration(const std::vector<Decl>& decls, const std::vector<End>& ends,
                      Arrays& values) {
  Arrays result(decls.size());
  for (size_t i = 0; i < ends.size(); ++i) {
    const auto decl = std::ranges::find(decls, ends[i].name, &Decl::name);
    if (decl == decls.end()) continue;
    result[static_cast<size_t>(decl - decls.begin())] = std::move(values[i]);
  }
  return result;
}

}  // namespace

Gradients interpret_gradients(const Graph& graph, const Derivative& derivative,
                              const GradientArgs& args) {
  InterpreterResult forward = interpret(derivative.forward, args.forward);
  InterpreterArgs backward = args.forward;
  backward.inputs.insert(backward.inputs.end(), args.output_gradients.begin(),
                         args.output_gradients.end());
  if (derivative.takes_outputs) {
    backward.inputs.insert(backward.inputs.end(), forward.outputs.begin(),
                           forward.outputs.begin() + static_cast<ptrdiff_t>(graph.outputs.size()));
  }
  const auto residuals = forward.outputs.begin() + static_cast<ptrdiff_t>(graph.outputs.size());
  std::move(residuals, forward.outputs.end(), std::back_inserter(backward.inputs));
  backward.initial_states.clear();
  for (const uint32_t state : derivative.adjoint_of) {
    backward.initial_states.push_back(args.final_state_gradients.empty()
                                          ? std::vector<double>()
                                          : args.final_state_gradients[state]);
  }
  InterpreterResult result = interpret(derivative.backward, backward);
  Gradients gradients;
  gradients.inputs = by_declaration(graph.inputs, derivative.backward.outputs, result.outputs);
  // The names of params and states are apart: each result goes to one of the two.
  Arrays copies = result.results;
  gradients.params = by_declaration(graph.params, derivative.backward.results, result.results);
  gradients.initial_states = by_declaration(graph.states, derivative.backward.results, copies);
  return gradients;
}

}  // namespace rnnc
