#include "ir/graph/verify.h"

#include <algorithm>
#include <set>

#include "ir/base/name.h"
#include "ir/base/status.h"
#include "ir/graph/sweeps.h"

namespace rnnc {
namespace {

constexpr size_t kMaxRank = 4;  // an array of block-diagonal params

// Each function checks one part and returns the first thing wrong with it.

Status check_name(std::string_view kind, std::string_view name, std::set<std::string_view>& seen) {
  if (!is_name(name)) return fail("{} `{}`: not a name", kind, name);
  if (!seen.insert(name).second) return fail("{} `{}`: the name is taken", kind, name);
  return {};
}

Status check_symbols(const Graph& graph, const Dim& dim) {
  for (const std::string& symbol : dim.symbols()) {
    if (std::ranges::find(graph.dims, symbol, &DimDecl::name) == graph.dims.end()) {
      return fail("dim `{}` is not declared", symbol);
    }
  }
  return {};
}

Status check_shape(const Graph& graph, const Shape& shape) {
  if (shape.size() > kMaxRank) return fail("{} has more than {} axes", to_string(shape), kMaxRank);
  for (const Dim& dim : shape) {
    if (Status known = check_symbols(graph, dim); !known) {
      return fail("{}: {}", to_string(shape), known.error().message);
    }
    if (dim.symbols().empty() && dim.constant().value_or(-1) < 0) {
      return fail("{}: `{}` is no size", to_string(shape), dim.to_string());
    }
  }
  return {};
}

/// Names and shapes of inputs, params or states.
template <typename Decl>
Status check_declarations(const Graph& graph, std::string_view kind, const std::vector<Decl>& decls,
                          std::set<std::string_view>& seen) {
  for (const Decl& decl : decls) {
    if (Status named = check_name(kind, decl.name, seen); !named) return named;
    if (Status shape = check_shape(graph, decl.type.shape); !shape) {
      return fail("{} `{}`: {}", kind, decl.name, shape.error().message);
    }
  }
  return {};
}

Status check_header(const Graph& graph) {
  std::set<std::string_view> ignored;
  if (Status named = check_name("graph", graph.name, ignored); !named) return named;
  std::set<std::string_view> dims;
  for (const DimDecl& dim : graph.dims) {
    if (Status named = check_name("dim", dim.name, dims); !named) return named;
    if (dim.fixed && !dim.default_value) return fail("dim `{}` is fixed without a value", dim.name);
  }
  std::set<std::string_view> seen;
  if (Status inputs = check_declarations(graph, "input", graph.inputs, seen); !inputs) {
    return inputs;
  }
  if (Status params = check_declarations(graph, "param", graph.params, seen); !params) {
    return params;
  }
  for (const InputDecl& input : graph.inputs) {
    if (input.integer && !input.type.is_scalar()) {
      return fail("input `{}`: an integer is a scalar", input.name);
    }
  }
  return check_declarations(graph, "state", graph.states, seen);
}

template <typename Decl>
Status check_leaf(const Node& node, std::string_view kind, const std::vector<Decl>& decls) {
  if (node.decl >= decls.size()) return fail("there is no {} number {}", kind, node.decl);
  const Decl& decl = decls[node.decl];
  if (node.type != decl.type) {
    return fail("its shape is {}, but {} `{}` is {}", to_string(node.type.shape), kind, decl.name,
                to_string(decl.type.shape));
  }
  return {};
}

Status check_operation(const Graph& graph, NodeId id) {
  const Node& node = graph[id];
  std::vector<Type> types;
  for (const NodeId operand : node.operands) types.push_back(graph[operand].type);
  const std::optional<Type> type = infer_type(node.op, types);
  if (!type) {
    std::vector<std::string> shapes;
    for (const Type& operand : types) shapes.push_back(to_string(operand.shape));
    return fail("does not take operands of shapes {}", fmt::join(shapes, ", "));
  }
  if (*type != node.type) {
    return fail("its shape is {}, not {}", to_string(type->shape), to_string(node.type.shape));
  }
  return {};
}

/// Slice and Index: their shapes, and their positions as far as these are known.
Status check_part(const Graph& graph, const Node& node) {
  Shape shape = graph[node.operands[0]].type.shape;
  if (shape.empty()) return fail("does not take operands of shapes []");
  const Dim size = shape[0];
  const bool slice = node.op == Op::Slice;
  const Dim end = slice ? node.end : node.begin + 1;
  if (slice) {
    shape[0] = end - node.begin;
  } else {
    shape.erase(shape.begin());
  }
  if (shape != node.type.shape) {
    return fail("its shape is {}, not {}", to_string(shape), to_string(node.type.shape));
  }
  const auto negative = [](const Dim& dim) { return dim.constant().value_or(0) < 0; };
  if (negative(node.begin) || negative(end - node.begin) || negative(size - end)) {
    return fail("from {} to {} is outside 0 to {}", node.begin.to_string(), end.to_string(),
                size.to_string());
  }
  for (const Dim& position : {node.begin, end}) {
    if (Status known = check_symbols(graph, position); !known) return known;
  }
  return {};
}

/// A sum's shape is that of what it adds up: a value, an outer product of vectors, or the rows of
/// a table.
Status check_total(const Graph& graph, const Node& node) {
  const Shape& shape = node.type.shape;
  std::vector<Shape> operands;
  for (const NodeId operand : node.operands) operands.push_back(graph[operand].type.shape);
  if (operands.size() == 1 && operands[0] == shape) return {};
  if (operands.size() == 2 && is_integer(graph, node.operands[0])) {
    const bool rows = operands[0].empty() && !shape.empty() && shape.size() <= 2 &&
                      operands[1] == Shape(shape.begin() + 1, shape.end());
    if (rows) return {};
  } else if (operands.size() == 2 && shape.size() == 2) {
    if (operands[0] == Shape{shape[0]} && operands[1] == Shape{shape[1]}) return {};
  }
  if (operands.size() == 2 && shape.size() == 3) {
    const Shape left = {shape[0] * shape[1]};
    const Shape right = {shape[0] * shape[2]};
    if (operands[0] == left && operands[1] == right) return {};
  }
  std::vector<std::string> shapes;
  for (const Shape& operand : operands) shapes.push_back(to_string(operand));
  return fail("its shape is {}, its operands' {}", to_string(shape), fmt::join(shapes, ", "));
}

/// Ops whose type their operands alone do not tell.
Status check_attributes(const Graph& graph, const Node& node) {
  const Shape& shape = node.type.shape;
  switch (node.op) {
    case Op::Constant:
      if (!shape.empty()) return fail("a constant is a scalar");
      return {};
    case Op::Valid:
    case Op::Reset:
      if (!shape.empty()) return fail("a mask is a scalar");
      if (node.decl > 1) return fail("there is no direction {}", node.decl);
      if (node.op == Op::Valid && node.delay > 0) return fail("is of its own step alone");
      return {};
    case Op::Vector:
      if (shape != Shape{static_cast<int64_t>(node.values.size())}) {
        return fail("its shape is [{}], not {}", node.values.size(), to_string(shape));
      }
      return {};
    case Op::Range:
      if (shape.size() != 1) return fail("a range is a vector");
      return {};
    case Op::Eye:
      if (shape.size() != 2 || shape[0] != shape[1]) {
        return fail("{} is no square matrix", to_string(shape));
      }
      return {};
    case Op::Total:
      return check_total(graph, node);
    case Op::Broadcast:
      if (const Shape& operand = graph[node.operands[0]].type.shape; !operand.empty()) {
        return fail("does not take operands of shapes {}", to_string(operand));
      }
      return {};
    default:
      return check_part(graph, node);
  }
}

Status check_arity(const Node& node) {
  const int arity = info(node.op).arity;
  const size_t count = node.operands.size();
  if (arity == kAnyArity) {
    return count > 0 ? Status() : Status(fail("takes one operand or more, has none"));
  }
  if (count == static_cast<size_t>(arity)) return {};
  return fail("takes {} operands, has {}", arity, count);
}

/// Integers are operands where they are asked for, and nowhere else.
Status check_integers(const Graph& graph, const Node& node) {
  for (size_t i = 0; i < node.operands.size(); ++i) {
    const bool integer = is_integer(graph, node.operands[i]);
    const bool wanted = (node.op == Op::Rows && i == 1) || node.op == Op::Real;
    const bool allowed = wanted || node.op == Op::Reverse ||
                         (node.op == Op::Total && i == 0 && node.operands.size() == 2);
    if (wanted && !integer) return fail("operand %{} is no integer", node.operands[i]);
    if (integer && !allowed) return fail("operand %{} is an integer", node.operands[i]);
  }
  return {};
}

Status check_node(const Graph& graph, NodeId id) {
  const Node& node = graph[id];
  if (Status arity = check_arity(node); !arity) return arity;
  for (const NodeId operand : node.operands) {
    if (operand >= id) return fail("operand %{} does not come before it", operand);
  }
  if (Status integers = check_integers(graph, node); !integers) return integers;
  if (Status shape = check_shape(graph, node.type.shape); !shape) return shape;
  switch (node.op) {
    case Op::Input:
      if (is_integer(graph, id) && node.delay != 0) return fail("integers are of their own step");
      return check_leaf(node, "input", graph.inputs);
    case Op::Param:
      return check_leaf(node, "param", graph.params);
    case Op::State:
      if (node.delay == 0) return fail("a state is read with a delay of at least 1");
      return check_leaf(node, "state", graph.states);
    case Op::Final:
      return check_leaf(node, "state", graph.states);
    case Op::Earlier:
      if (graph[node.operands[0]].op != Op::Input || graph[node.operands[0]].delay != 0) {
        return fail("takes an input itself");
      }
      return check_operation(graph, id);
    case Op::Total:
    case Op::Constant:
    case Op::Vector:
    case Op::Range:
    case Op::Eye:
    case Op::Valid:
    case Op::Reset:
    case Op::Broadcast:
    case Op::Slice:
    case Op::Index:
      return check_attributes(graph, node);
    default:
      return check_operation(graph, id);
  }
}

std::string_view spelling(Direction direction) {
  return direction == Direction::Reversed ? "in reverse" : "forward";
}

/// What only the whole graph tells: which way values run, and that some order of steps computes
/// them.
Status check_directions(const Graph& graph, const std::vector<Direction>& directions) {
  const auto runs = [&](NodeId id, Direction wanted) {
    return directions[id] == wanted || directions[id] == Direction::Invariant;
  };
  const auto mixed = std::ranges::find(directions, Direction::Mixed);
  if (mixed != directions.end()) {
    const auto id = static_cast<NodeId>(mixed - directions.begin());
    return fail("%{} = {}: some operands run forward, some in reverse", id,
                info(graph[id].op).name);
  }
  for (const StateDecl& state : graph.states) {
    const Direction wanted = state.reversed ? Direction::Reversed : Direction::Forward;
    if (!runs(state.next, wanted)) {
      return fail("state `{}` runs {}, its next %{} {}", state.name, spelling(wanted), state.next,
                  spelling(directions[state.next]));
    }
  }
  for (const OutputDecl& output : graph.outputs) {
    if (!runs(output.value, Direction::Forward)) {
      return fail("output `{}` runs forward, its value %{} in reverse", output.name, output.value);
    }
  }
  if (!find_sweeps(graph)) return fail("a recurrence passes through a `reverse`");
  return {};
}

/// Whether values of `type` are several of type `entry` along a first axis.
bool is_history_of(const Type& type, const Type& entry) {
  return type.rank() == entry.rank() + 1 &&
         Shape(type.shape.begin() + 1, type.shape.end()) == entry.shape;
}

/// A state's earlier value, or several of them, are of its type and run as it does.
Status check_delay_of(const Graph& graph, const StateDecl& state) {
  const StateDecl* of = &state;
  for (size_t hops = 0; of->delay_of; ++hops) {
    if (*of->delay_of >= graph.states.size()) {
      return fail("state `{}` is a delay of state number {}, which there is not", of->name,
                  *of->delay_of);
    }
    of = &graph.states[*of->delay_of];
    if (hops == graph.states.size()) return fail("state `{}` is a delay of itself", state.name);
  }
  if (of->type != state.type && !is_history_of(state.type, of->type)) {
    return fail("state `{}` is {}, state `{}` that it is a delay of is {}", state.name,
                to_string(state.type.shape), of->name, to_string(of->type.shape));
  }
  if (of->reversed != state.reversed) {
    return fail("state `{}` does not run as state `{}`, which it is a delay of", state.name,
                of->name);
  }
  return {};
}

Status check_states(const Graph& graph, const std::vector<Direction>& directions) {
  for (const StateDecl& state : graph.states) {
    if (state.init >= graph.nodes.size()) return fail("state `{}` has no init", state.name);
    const Type& init = graph[state.init].type;
    if (!init.is_scalar() && init != state.type) {
      return fail("state `{}` is {}, its init %{} is {}", state.name, to_string(state.type.shape),
                  state.init, to_string(init.shape));
    }
    if (directions[state.init] != Direction::Invariant) {
      return fail("the init %{} of state `{}` varies with time", state.init, state.name);
    }
    if (state.next >= graph.nodes.size()) return fail("state `{}` has no next", state.name);
    if (is_integer(graph, state.next)) return fail("state `{}` is an integer", state.name);
    const Type& next = graph[state.next].type;
    if (next != state.type) {
      return fail("state `{}` is {}, its next %{} is {}", state.name, to_string(state.type.shape),
                  state.next, to_string(next.shape));
    }
    if (Status delay = check_delay_of(graph, state); !delay) return delay;
  }
  return {};
}

/// Outputs or results.
template <typename Decl>
Status check_ends(const Graph& graph, std::string_view kind, const std::vector<Decl>& decls) {
  std::set<std::string_view> seen;
  for (const Decl& decl : decls) {
    if (Status named = check_name(kind, decl.name, seen); !named) return named;
    if (decl.value >= graph.nodes.size()) return fail("{} `{}` has no value", kind, decl.name);
    if (is_integer(graph, decl.value)) return fail("{} `{}` is an integer", kind, decl.name);
  }
  return {};
}

/// What comes after all steps is made of nothing that a step computes, but for what a total adds
/// up, and no step needs it.
Status check_after(const Graph& graph, const std::vector<Direction>& directions) {
  const std::vector<After> after = find_after(graph);
  const auto is_of_a_step = [&](NodeId id) {
    return after[id] == After::Nothing && directions[id] != Direction::Invariant;
  };
  for (NodeId id = 0; id < graph.nodes.size(); ++id) {
    const Node& node = graph[id];
    const bool comes_after = after[id] != After::Nothing && node.op != Op::Total;
    for (const NodeId operand : node.operands) {
      if (comes_after && is_of_a_step(operand)) {
        return fail("%{} = {}: comes after all steps, its operand %{} is a step's", id,
                    info(node.op).name, operand);
      }
      if (node.op == Op::Total && after[operand] == After::Steps) {
        return fail("%{} = total: %{} has no rows to add up", id, operand);
      }
    }
    const bool mixes =
        node.op == Op::Total && node.operands.size() == 2 &&
        (after[node.operands[0]] == After::Batch) != (after[node.operands[1]] == After::Batch);
    if (mixes) return fail("%{} = total: one operand is of each step, the other of none", id);
  }
  for (const StateDecl& state : graph.states) {
    for (const NodeId value : {state.init, state.next}) {
      if (after[value] != After::Nothing) {
        return fail("state `{}` needs %{}, which comes after all steps", state.name, value);
      }
    }
  }
  for (const OutputDecl& output : graph.outputs) {
    if (after[output.value] != After::Nothing) {
      return fail("output `{}` is %{}, which comes after all steps", output.name, output.value);
    }
  }
  for (const ResultDecl& result : graph.results) {
    if (is_of_a_step(result.value)) {
      return fail("result `{}` is %{}, a value of each step", result.name, result.value);
    }
  }
  return {};
}

}  // namespace

Status verify(const Graph& graph) {
  if (Status header = check_header(graph); !header) return header;
  for (NodeId id = 0; id < graph.nodes.size(); ++id) {
    if (Status node = check_node(graph, id); !node) {
      return fail("%{} = {}: {}", id, info(graph[id].op).name, node.error().message);
    }
  }
  const std::vector<Direction> directions = find_directions(graph);
  if (Status states = check_states(graph, directions); !states) return states;
  if (Status outputs = check_ends(graph, "output", graph.outputs); !outputs) return outputs;
  if (Status results = check_ends(graph, "result", graph.results); !results) return results;
  if (Status after = check_after(graph, directions); !after) return after;
  return check_directions(graph, directions);
}

}  // namespace rnnc
