/// Reverse-mode differentiation of a Graph through time.
///
/// For outputs y and final states, let L be any function of them. Given the gradients of L by each,
/// the backward half computes those by params, inputs and initial states (backpropagation through
/// time: Werbos, 1990). Differentiating a recurrence gives a recurrence: state h has a state
/// `h@adjoint` that runs the other way.
///
///     %0 = state h @ 1 : [H]              graph … descending
///     %1 = param R : [H, H]                 state h@adjoint: [H]
///     %2 = matmul %1, %0 : [H]              %0 = state h@adjoint @ 1 : [H]
///     next h = %2                           %1 = input h@gradient : [H]
///     output h = %2                   →     %2 = add %0, %1 : [H]
///                                           %3 = param R : [H, H]
///                                           %4 = matmul %2, %3 : [H]
///                                           %5 = input saved@0 : [H]
///                                           %6 = total %2, %5 : [H, H]
///                                           next h@adjoint = %4
///                                           result R = %6
///
/// Every op's adjoint is a linear function of its result's adjoint. That of `where` is a `where`,
/// so that what was not chosen contributes nothing, not even if its derivative is infinite. In a
/// Graph with lengths, what stands past a sequence's end reaches no gradient, NaN included.
#pragma once

#include <string>
#include <vector>

#include "ir/graph/graph.h"
#include "passes/gradient/residual_decisions.h"

namespace rnnc {

/// Lists are per declaration of the Graph. What is not wanted costs nothing.
struct DifferentiateOptions {
  std::vector<bool> params;          // gradients that are wanted
  std::vector<bool> inputs;          // likewise
  std::vector<bool> initial_states;  // likewise, of states that are `given`
  /// States whose initial value the caller gives. The others begin as declared, and what their
  /// declared values are made of gets the gradient.
  std::vector<bool> given;
  ResidualChoice residuals = ResidualChoice::Auto;
  ResidualCosts costs = {};
  /// The backward half is given the outputs too: a state's earlier value that is an output's is read
  /// from there instead of saved, where the state begins with zero and there are no lengths.
  bool outputs = false;
  /// Calls are pieces of sequences, and states begin with what the piece before has left.
  bool in_pieces = false;
  /// Derivative::decisions are wanted, which may take time that grows with the square of the Graph.
  bool decisions = false;

  /// All params and inputs, and the initial values of the states that are given.
  static DifferentiateOptions all(const Graph& graph, std::vector<bool> given);
};

/// The two halves. What of the caller's arrays goes where:
///
///     forward.outputs    the Graph's outputs, then residuals
///     backward.inputs    the Graph's inputs, the gradients of its outputs, with
///                        DifferentiateOptions::outputs its outputs, then residuals
///     backward.params    the Graph's params
///     backward.states    per state in `adjoint_of`: begins with the final state's gradient
///     backward.outputs   gradients of the wanted inputs, by the inputs' names
///     backward.results   gradients of the wanted params, then of the wanted initial states, by
///                        their names
struct Derivative {
  Graph forward;
  Graph backward;
  std::vector<uint32_t> adjoint_of;  // per state of `backward`, the Graph's state
  bool takes_outputs = false;        // as asked for
  size_t residuals = 0;              // how many there are
  /// Of the Graph's nodes: how the backward half has them, if asked for, and through which ops
  /// nothing passes that a gradient asks for (passes/gradient/zero_gradients.h).
  std::vector<ResidualDecision> decisions;
  std::vector<NodeId> zero_gradients;
};

/// What a residual is called among the outputs and inputs of the halves.
std::string residual_name(NodeId id);

/// `graph` is lowered (passes/graph/pipeline.h) and has no symbolic dims left.
Derivative differentiate(const Graph& graph, const DifferentiateOptions& options);

}  // namespace rnnc
