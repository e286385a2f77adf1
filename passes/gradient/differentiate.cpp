// 1. Find which values have an adjoint: those between what is wanted and an output or a state
//    (passes/gradient/step_facts.h).
// 2. Walk through the nodes from the last to the first. A node's adjoint is the sum of what its uses
//    have contributed; outputs begin with their gradients, next states with the adjoint that comes
//    from the step after. The op's rule (passes/gradient/adjoints.h) passes it on to its operands.
//    What a step contributes to an invariant goes there as a total over steps and batch.
// 3. The sum over a state's reads is the next value of its adjoint. Its last value is the gradient
//    of the initial state: of the given one, or of what the declared one is made of.
// 4. What was made is named after the lines of the text that it belongs to.
//
// The walk runs twice: once to learn which values of the forward half it asks for, and, when it is
// decided which of these are saved (passes/gradient/residuals.h), once more with copies of what
// computes the others anew.
#include "passes/gradient/differentiate.h"

#include <algorithm>
#include <map>
#include <optional>

#include "passes/gradient/adjoint_sum.h"
#include "passes/gradient/adjoints.h"
#include "passes/gradient/masked_reads.h"
#include "passes/gradient/residual_arrays.h"
#include "passes/gradient/step_facts.h"
#include "passes/gradient/zero_gradients.h"
#include "passes/graph/rebuild.h"
#include "passes/graph/stop_gradients.h"

namespace rnnc {
namespace {

class Walk {
 public:
  /// Without `saved` every value that is asked for counts as saved.
  Walk(const Graph& forward, const DifferentiateOptions& options, const StepFacts& facts,
       const std::vector<bool>* saved, const ResidualArrays& arrays = {})
      : forward_(forward),
        options_(options),
        facts_(facts),
        saved_(saved),
        arrays_(arrays),
        array_inputs_(arrays.values.size(), kNoNode),
        copies_(forward.nodes.size(), kNoNode),
        sums_(forward.nodes.size()),
        needed_(forward.nodes.size(), false),
        reads_(forward.states.size()),
        adjoint_states_(forward.states.size()),
        of_params_(forward.params.size()),
        of_inputs_(forward.inputs.size()),
        of_initial_(forward.states.size()) {}

  void run() {
    declare();
    begin();
    for (NodeId id = static_cast<NodeId>(forward_.nodes.size()); id-- > 0;) visit(id);
    end();
    name_adjoints();
  }

  const std::vector<bool>& needed() const { return needed_; }
  /// Which values of the forward half totals of products take as they are.
  std::vector<bool> multiplied() const {
    std::vector<bool> taken(backward_.nodes.size(), false);
    for (const Node& node : backward_.nodes) {
      if (node.op != Op::Total || node.operands.size() < 2) continue;
      for (const NodeId operand : node.operands) taken[operand] = true;
    }
    std::vector<bool> multiplied;
    for (const NodeId copy : copies_) multiplied.push_back(copy != kNoNode && taken[copy]);
    return multiplied;
  }
  /// Whether the backward half has a value, by whatever way.
  std::vector<bool> used() const {
    std::vector<bool> used;
    for (const NodeId copy : copies_) used.push_back(copy != kNoNode);
    return used;
  }
  /// Ops that pass on nothing of an adjoint, in the order of their ids.
  std::vector<NodeId> zero_gradients() const {
    return {zero_gradients_.rbegin(), zero_gradients_.rend()};
  }
  /// The values that are saved, in the order of the backward half's last inputs; of an array the
  /// first.
  const std::vector<NodeId>& residuals() const { return residuals_; }
  const std::vector<uint32_t>& adjoint_of() const { return adjoint_of_; }
  Graph take() { return std::move(backward_); }

 private:
  void declare() {
    backward_.name = forward_.name;
    backward_.descending = !forward_.descending;
    backward_.inputs = forward_.inputs;
    backward_.params = forward_.params;
    for (const OutputDecl& output : forward_.outputs) {
      backward_.inputs.push_back(
          {output.name + "@gradient", forward_[output.value].type, output.location});
    }
    for (const OutputDecl& output : forward_.outputs) {
      if (!options_.outputs) break;
      backward_.inputs.push_back(
          {output.name + "@output", forward_[output.value].type, output.location});
    }
    for (uint32_t s = 0; s < forward_.states.size(); ++s) {
      if (!facts_.active_states[s]) continue;
      const StateDecl& state = forward_.states[s];
      adjoint_states_[s] = static_cast<uint32_t>(backward_.states.size());
      adjoint_of_.push_back(s);
      StateDecl& adjoint = backward_.states.emplace_back();
      adjoint.name = state.name + "@adjoint";
      adjoint.type = state.type;
      adjoint.init = backward_.constant(0, state.location);
      adjoint.reversed = state.reversed;
      adjoint.location = state.location;
    }
  }

  /// What outputs, next states and initial values contribute.
  void begin() {
    for (uint32_t o = 0; o < forward_.outputs.size(); ++o) {
      const OutputDecl& output = forward_.outputs[o];
      if (!facts_.active[output.value]) continue;
      const auto decl = static_cast<uint32_t>(forward_.inputs.size() + o);
      add(output.value, backward_.input(decl, 0, output.location), /*reversed=*/false);
    }
    for (uint32_t s = 0; s < forward_.states.size(); ++s) {
      if (!facts_.active_states[s]) continue;
      const StateDecl& state = forward_.states[s];
      const NodeId later = backward_.state(*adjoint_states_[s], 1, state.location);
      if (forward_[state.next].op == Op::State) {
        // The state that it takes over was kept past the end before simplification.
        if (facts_.active[state.next]) sums_[state.next].unmasked.push_back(later);
      } else if (facts_.active[state.next]) {
        add(state.next, later, state.reversed);
      }
      begin_initial(s);
    }
  }

  /// The last value of a state's adjoint goes to where its initial value comes from.
  void begin_initial(uint32_t s) {
    const StateDecl& state = forward_.states[s];
    std::optional<uint32_t> origin = s;
    while (origin && !options_.given[*origin]) origin = forward_.states[*origin].delay_of;
    const NodeId last = backward_.final_state(*adjoint_states_[s], state.location);
    if (origin) {
      if (options_.initial_states[*origin]) of_initial_[*origin].push_back(last);
    } else if (facts_.active[state.init]) {
      const Type& type = forward_[state.init].type;
      const NodeId sum = sum_to(backward_, last, type, /*by_rows=*/true, state.location);
      sums_[state.init].after.push_back(backward_.total(sum, state.location));
    }
  }

  void visit(NodeId id) {
    if (!facts_.active[id] || sums_[id].empty()) return;
    const Node& node = forward_[id];
    if (has_zero_gradient(node.op)) zero_gradients_.push_back(id);
    const NodeId adjoint = facts_.varies[id] ? step_adjoint(id) : after_adjoint(id);
    adjoints_.emplace_back(adjoint, id);
    switch (node.op) {
      case Op::Param:
        of_params_[node.decl].push_back(adjoint);
        return;
      case Op::Input:
        of_inputs_[node.decl].push_back(adjoint);
        return;
      case Op::State:
        RNNC_CHECK(node.delay == 1, "delays are lowered before differentiation");
        reads_[node.decl].push_back(adjoint);
        return;
      default:
        break;
    }
    add_adjoints(
        {.forward = forward_,
         .backward = backward_,
         .node = id,
         .adjoint = adjoint,
         .after = !facts_.varies[id],
         .wanted = [&](size_t i) -> bool { return facts_.active[node.operands[i]]; },
         .value = [&](NodeId value) { return copy(value); },
         .add = [&](size_t i, NodeId value) { add_to_operand(id, i, value); },
         .add_piece =
             [&](size_t i, int64_t begin, int64_t end, NodeId value) {
               if (!facts_.active[node.operands[i]]) return;
               sums_[node.operands[i]].pieces.push_back({begin, end, value});
             },
         .add_outer =
             [&](size_t i, NodeId left, NodeId right) {
               const bool reversed = facts_.reversed(id);
               const NodeId sum =
                   backward_.total(masked(left, reversed), masked(right, reversed),
                                   forward_[node.operands[i]].type.shape, node.location);
               sums_[node.operands[i]].after.push_back(sum);
             },
         .add_rows = [&](size_t i,
                         NodeId integer) { add_rows(node.operands[i], id, adjoint, integer); },
         .invariant = [&](size_t i) -> bool { return !facts_.varies[node.operands[i]]; }});
  }

  /// Of a table, by node `id` that takes its rows. Integers are read as the caller has them: where
  /// the node runs in reverse, its adjoint is turned around.
  void add_rows(NodeId table, NodeId id, NodeId adjoint, NodeId integer) {
    const SourceLocation location = forward_[id].location;
    NodeId rows = masked(adjoint, facts_.reversed(id));
    if (facts_.reversed(id)) rows = backward_.apply(Op::Reverse, {rows}, location);
    while (forward_[integer].op == Op::Reverse) integer = forward_[integer].operands[0];
    const Shape& shape = forward_[table].type.shape;
    sums_[table].after.push_back(backward_.total(copy(integer), rows, shape, location));
  }

  void add_to_operand(NodeId id, size_t operand, NodeId value) {
    const Node& node = forward_[id];
    const NodeId target = node.operands[operand];
    if (!facts_.varies[id]) {
      sums_[target].after.push_back(value);
    } else if (keeps_past_end(node, operand)) {
      sums_[target].unmasked.push_back(value);
    } else {
      // What a Reverse passes on runs as its operand does.
      const bool turns = node.op == Op::Reverse;
      add(target, value, facts_.reversed(id) != turns);
    }
  }

  /// Whether this is how a state stays as it was past its sequence's end.
  bool keeps_past_end(const Node& node, size_t operand) const {
    return node.op == Op::Where && operand == 2 && forward_[node.operands[0]].op == Op::Valid &&
           forward_[node.operands[2]].op == Op::State;
  }

  void add(NodeId target, NodeId value, bool reversed) {
    (reversed ? sums_[target].reversed : sums_[target].values).push_back(value);
  }

  /// Of a value that varies over steps.
  NodeId step_adjoint(NodeId id) {
    const Node& node = forward_[id];
    AdjointSum& sum = sums_[id];
    std::vector<NodeId> values = facts_.reversed(id) ? sum.reversed : sum.values;
    for (NodeId piece : join_pieces(backward_, sum.pieces, node.type, node.location)) {
      values.push_back(piece);
    }
    // What steps wait for comes last: sums of all else need no step.
    std::ranges::stable_partition(values, [this](NodeId value) { return !is_carried(value); });
    NodeId adjoint = add_all(backward_, values, node.type, node.location);
    if (adjoint != kNoNode && (node.op == Op::State || node.op == Op::Input)) {
      adjoint = masked(adjoint, facts_.reversed(id));
    }
    if (sum.unmasked.empty()) return adjoint;
    values = sum.unmasked;
    if (adjoint != kNoNode) values.insert(values.begin(), adjoint);
    return add_all(backward_, values, node.type, node.location);
  }

  /// Whether it is what the step before has left, masked or not.
  bool is_carried(NodeId value) const {
    const Node& node = backward_[value];
    if (node.op != Op::Where) return node.op == Op::State;
    return std::ranges::any_of(
        node.operands, [this](NodeId operand) { return backward_[operand].op == Op::State; });
  }

  /// Of an invariant.
  NodeId after_adjoint(NodeId id) {
    const Node& node = forward_[id];
    AdjointSum& sum = sums_[id];
    std::vector<NodeId> values;
    for (const bool reversed : {false, true}) {
      const NodeId step =
          add_all(backward_, reversed ? sum.reversed : sum.values, node.type, node.location);
      if (step != kNoNode) {
        values.push_back(backward_.total(masked(step, reversed), node.location));
      }
    }
    values.insert(values.end(), sum.after.begin(), sum.after.end());
    for (NodeId piece : join_pieces(backward_, sum.pieces, node.type, node.location)) {
      values.push_back(piece);
    }
    return add_all(backward_, values, node.type, node.location);
  }

  /// In a Graph with lengths: zero past a sequence's end, whatever `value` is there.
  NodeId masked(NodeId value, bool reversed) {
    if (!facts_.lengths) return value;
    const NodeId valid = backward_.valid(reversed);
    return backward_.apply(Op::Where, {valid, value, backward_.constant(0)});
  }

  /// A value of the forward half: a leaf, a residual, or computed anew.
  NodeId copy(NodeId id) {
    if (copies_[id] != kNoNode) return copies_[id];
    const Node& node = forward_[id];
    const bool is_leaf = node.op == Op::Input || node.op == Op::Valid || node.op == Op::Reset;
    NodeId result = kNoNode;
    if (node.op == Op::State && facts_.outputs[node.decl]) {
      needed_[id] = true;
      result = earlier_output(*facts_.outputs[node.decl], node.location);
    } else if (node.op == Op::State && facts_.follows[node.decl]) {
      const NodeId next = copy(forward_.states[node.decl].next);
      result = backward_.apply(Op::Earlier, {next}, node.location);
    } else if (facts_.varies[id] && !is_leaf) {
      needed_[id] = true;
      if (saved_ == nullptr || (*saved_)[id]) result = residual(id);
    }
    if (result == kNoNode && node.op == Op::StopGradient) result = copy(node.operands[0]);
    if (result == kNoNode) {
      RNNC_CHECK(node.op != Op::State, "states are never computed anew");
      Node made = node;
      for (NodeId& operand : made.operands) operand = copy(operand);
      result = append_node(backward_, std::move(made));
    }
    copies_[id] = result;
    return result;
  }

  NodeId earlier_output(uint32_t output, SourceLocation location) {
    const size_t decl = forward_.inputs.size() + forward_.outputs.size() + output;
    const NodeId input = backward_.input(static_cast<uint32_t>(decl), 0, location);
    return backward_.apply(Op::Earlier, {input}, location);
  }

  NodeId residual(NodeId id) {
    const Node& node = forward_[id];
    if (const auto found = arrays_.places.find(id); found != arrays_.places.end()) {
      const auto& [array, element] = found->second;
      const std::vector<NodeId>& values = arrays_.values[array];
      if (array_inputs_[array] == kNoNode) {
        Type type = node.type;
        type.shape.insert(type.shape.begin(), std::ssize(values));
        array_inputs_[array] = residual_input(values[0], type);
      }
      return backward_.index(array_inputs_[array], static_cast<int64_t>(element), node.location);
    }
    const NodeId input = residual_input(id, node.type);
    return facts_.reversed(id) ? backward_.apply(Op::Reverse, {input}, node.location) : input;
  }

  NodeId residual_input(NodeId first, const Type& type) {
    const SourceLocation location = forward_[first].location;
    const auto decl = static_cast<uint32_t>(backward_.inputs.size());
    backward_.inputs.push_back({residual_name(first), type, location});
    residuals_.push_back(first);
    return backward_.input(decl, 0, location);
  }

  void end() {
    for (size_t a = 0; a < adjoint_of_.size(); ++a) {
      StateDecl& adjoint = backward_.states[a];
      adjoint.next = sum_or_zero(reads_[adjoint_of_[a]], adjoint.type, adjoint.location);
    }
    for (size_t i = 0; i < forward_.inputs.size(); ++i) {
      if (!options_.inputs[i]) continue;
      const InputDecl& input = forward_.inputs[i];
      const NodeId value = sum_or_zero(of_inputs_[i], input.type, input.location);
      backward_.outputs.push_back({input.name, value, input.location});
    }
    for (size_t p = 0; p < forward_.params.size(); ++p) {
      if (!options_.params[p]) continue;
      const ParamDecl& param = forward_.params[p];
      const NodeId value = sum_or_zero(of_params_[p], param.type, param.location);
      backward_.results.push_back({param.name, value, param.location});
    }
    for (size_t s = 0; s < forward_.states.size(); ++s) {
      if (!options_.initial_states[s] || !options_.given[s]) continue;
      const StateDecl& state = forward_.states[s];
      const NodeId value = sum_or_zero(of_initial_[s], state.type, state.location);
      backward_.results.push_back({state.name, value, state.location});
    }
  }

  /// The adjoint of what a line gives has the name of that with "@adjoint", as those of states do;
  /// what is made on the way to the next adjoint is a part of that line.
  void name_adjoints() {
    const auto count = static_cast<uint32_t>(forward_.equations.size());
    backward_.sources = forward_.sources;
    backward_.equations = forward_.equations;
    for (const EquationDecl& equation : forward_.equations) {
      backward_.equations.push_back({adjoint_name(equation.name), equation.location});
    }
    for (const auto& [name, place] : forward_.equations) {
      // An empty place, so that no part counts as the whole.
      backward_.equations.push_back({adjoint_name(name), {place.file, place.begin, place.begin}});
    }
    std::vector<bool> is_named(backward_.nodes.size(), false);
    for (const NodeId copy : copies_) {
      if (copy != kNoNode) is_named[copy] = true;
    }
    for (const auto& [adjoint, of] : adjoints_) {
      if (adjoint == kNoNode || is_named[adjoint]) continue;
      is_named[adjoint] = true;
      SourceLocation& location = backward_.nodes[adjoint].location;
      location = forward_[of].location;
      if (location.equation > 0) location.equation += count;
    }
    for (NodeId id = 0; id < backward_.nodes.size(); ++id) {
      uint32_t& equation = backward_.nodes[id].location.equation;
      if (!is_named[id] && equation > 0) equation += 2 * count;
    }
  }

  /// "i@adjoint", of a state "h@adjoint[t]".
  static std::string adjoint_name(const std::string& name) {
    constexpr std::string_view kOfStep = "[t]";
    const size_t end = name.size() - (name.ends_with(kOfStep) ? kOfStep.size() : 0);
    return name.substr(0, end) + "@adjoint" + name.substr(end);
  }

  NodeId sum_or_zero(const std::vector<NodeId>& values, const Type& type, SourceLocation location) {
    if (!values.empty()) return add_all(backward_, values, type, location);
    const NodeId zero = backward_.constant(0, location);
    return type.is_scalar() ? zero : backward_.broadcast(zero, type.shape, location);
  }

  const Graph& forward_;
  const DifferentiateOptions& options_;
  const StepFacts& facts_;
  const std::vector<bool>* saved_;
  const ResidualArrays arrays_;
  std::vector<NodeId> array_inputs_;  // per array
  Graph backward_;
  std::vector<NodeId> copies_;                       // per value of the forward half
  std::vector<std::pair<NodeId, NodeId>> adjoints_;  // and what they are adjoints of
  std::vector<AdjointSum> sums_;
  std::vector<bool> needed_;
  std::vector<NodeId> residuals_;
  std::vector<NodeId> zero_gradients_;
  std::vector<std::vector<NodeId>> reads_;               // per state, the adjoints of its reads
  std::vector<std::optional<uint32_t>> adjoint_states_;  // per state, its adjoint's number
  std::vector<uint32_t> adjoint_of_;
  std::vector<std::vector<NodeId>> of_params_, of_inputs_, of_initial_;
};

/// The forward half: with the residuals as further outputs, and without stops.
Graph with_residuals(Graph graph, const std::vector<NodeId>& residuals,
                     const ResidualArrays& arrays, const StepFacts& facts) {
  const MaskedReads masked(graph);
  for (const NodeId id : residuals) {
    const SourceLocation location = graph[id].location;
    NodeId value = masked.saved(graph, id);
    if (facts.reversed(id)) value = graph.apply(Op::Reverse, {value}, location);
    if (const auto found = arrays.places.find(id); found != arrays.places.end()) {
      std::vector<NodeId> values = arrays.values[found->second.array];
      for (NodeId& one : values) one = masked.saved(graph, one);
      value = graph.apply(Op::Stack, std::move(values), location);
    }
    graph.outputs.push_back({residual_name(id), value, location});
  }
  run_pass_through_stops(graph);
  return graph;
}

/// In which array each saved value is.
void say_arrays(std::vector<ResidualDecision>& decisions, const ResidualArrays& arrays) {
  for (ResidualDecision& decision : decisions) {
    if (!decision.is_saved()) continue;
    const auto found = arrays.places.find(decision.value);
    const bool alone = found == arrays.places.end();
    decision.array = alone ? decision.value : arrays.values[found->second.array][0];
  }
}

}  // namespace

std::string residual_name(NodeId id) {
  return fmt::format("saved@{}", id);
}

DifferentiateOptions DifferentiateOptions::all(const Graph& graph, std::vector<bool> given) {
  DifferentiateOptions options;
  options.params.assign(graph.params.size(), true);
  for (const InputDecl& input : graph.inputs) options.inputs.push_back(!input.integer);
  options.initial_states.assign(graph.states.size(), true);
  options.given = std::move(given);
  options.given.resize(graph.states.size(), false);
  return options;
}

Derivative differentiate(const Graph& graph, const DifferentiateOptions& options) {
  RNNC_CHECK(graph.dims.empty(), "dims are bound before differentiation");
  RNNC_CHECK(graph.results.empty(), "a Graph with results is not differentiated");
  StepFacts facts(graph, options);
  Walk dry(graph, options, facts, nullptr);
  dry.run();
  facts.let_follow(graph, dry.needed(), dry.multiplied());
  const std::vector<bool> followed = facts.followed(graph);
  std::vector<bool> given = facts.read_later(graph);
  for (NodeId id = 0; id < graph.nodes.size(); ++id) given[id] = given[id] || followed[id];
  std::vector<bool> saved =
      choose_residuals(graph, facts.varies, given, dry.needed(), options.residuals, options.costs);
  std::vector<bool> reversed;
  for (NodeId id = 0; id < graph.nodes.size(); ++id) {
    saved[id] = followed[id] || (saved[id] && !given[id]);
    reversed.push_back(facts.reversed(id));
  }
  const ResidualArrays arrays = find_residual_arrays(graph, saved, reversed);
  Walk walk(graph, options, facts, &saved, arrays);
  walk.run();
  Derivative result;
  result.forward = with_residuals(graph, walk.residuals(), arrays, facts);
  result.adjoint_of = walk.adjoint_of();
  result.takes_outputs = options.outputs;
  result.residuals = walk.residuals().size();
  if (options.decisions) {
    result.decisions = explain_residuals(graph, facts.varies, given, dry.needed(), walk.used(),
                                         saved, options.residuals, options.costs);
    say_arrays(result.decisions, arrays);
  }
  result.zero_gradients = walk.zero_gradients();
  result.backward = walk.take();
  return result;
}

}  // namespace rnnc
