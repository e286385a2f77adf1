#include "ir/verify.h"

#include <algorithm>
#include <set>

#include "ir/name.h"
#include "ir/status.h"

namespace rnnc {
namespace {

constexpr size_t kMaxRank = 3;

// Each function checks one part and returns the first thing wrong with it.

Status check_name(std::string_view kind, std::string_view name, std::set<std::string_view>& seen) {
  if (!is_name(name)) return fail("{} `{}`: not a name", kind, name);
  if (!seen.insert(name).second) return fail("{} `{}`: the name is taken", kind, name);
  return {};
}

Status check_shape(const Graph& graph, const Shape& shape) {
  if (shape.size() > kMaxRank) return fail("{} has more than {} axes", to_string(shape), kMaxRank);
  for (const Dim& dim : shape) {
    for (const std::string& symbol : dim.symbols()) {
      if (std::ranges::find(graph.dims, symbol, &DimDecl::name) == graph.dims.end()) {
        return fail("{}: dim `{}` is not declared", to_string(shape), symbol);
      }
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
  }
  std::set<std::string_view> seen;
  if (Status inputs = check_declarations(graph, "input", graph.inputs, seen); !inputs) {
    return inputs;
  }
  if (Status params = check_declarations(graph, "param", graph.params, seen); !params) {
    return params;
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
  std::string shapes;
  for (const NodeId operand : node.operands) {
    types.push_back(graph[operand].type);
    shapes += (shapes.empty() ? "" : ", ") + to_string(graph[operand].type.shape);
  }
  const std::optional<Type> type = infer_type(node.op, types);
  if (!type) return fail("does not take operands of shapes {}", shapes);
  if (*type != node.type) {
    return fail("its shape is {}, not {}", to_string(type->shape), to_string(node.type.shape));
  }
  return {};
}

Status check_node(const Graph& graph, NodeId id) {
  const Node& node = graph[id];
  const auto arity = static_cast<size_t>(info(node.op).arity);
  if (node.operands.size() != arity) {
    return fail("takes {} operands, has {}", arity, node.operands.size());
  }
  for (const NodeId operand : node.operands) {
    if (operand >= id) return fail("operand %{} does not come before it", operand);
  }
  if (Status shape = check_shape(graph, node.type.shape); !shape) return shape;
  switch (node.op) {
    case Op::Input:
      return check_leaf(node, "input", graph.inputs);
    case Op::Param:
      return check_leaf(node, "param", graph.params);
    case Op::State:
      if (node.delay == 0) return fail("a state is read with a delay of at least 1");
      return check_leaf(node, "state", graph.states);
    case Op::Constant:
      if (!node.type.is_scalar()) return fail("a constant is a scalar");
      return {};
    default:
      return check_operation(graph, id);
  }
}

/// Per node: whether it depends on params and constants alone.
std::vector<bool> find_invariant(const Graph& graph) {
  std::vector<bool> invariant(graph.nodes.size());
  for (NodeId id = 0; id < graph.nodes.size(); ++id) {
    const Node& node = graph[id];
    invariant[id] = node.op != Op::Input && node.op != Op::State &&
                    std::ranges::all_of(node.operands, [&](NodeId o) { return invariant[o]; });
  }
  return invariant;
}

Status check_states(const Graph& graph) {
  const std::vector<bool> invariant = find_invariant(graph);
  for (const StateDecl& state : graph.states) {
    if (state.init >= graph.nodes.size()) return fail("state `{}` has no init", state.name);
    const Type& init = graph[state.init].type;
    if (!init.is_scalar() && init != state.type) {
      return fail("state `{}` is {}, its init %{} is {}", state.name, to_string(state.type.shape),
                  state.init, to_string(init.shape));
    }
    if (!invariant[state.init]) {
      return fail("the init %{} of state `{}` varies with time", state.init, state.name);
    }
    if (state.next >= graph.nodes.size()) return fail("state `{}` has no next", state.name);
    const Type& next = graph[state.next].type;
    if (next != state.type) {
      return fail("state `{}` is {}, its next %{} is {}", state.name, to_string(state.type.shape),
                  state.next, to_string(next.shape));
    }
  }
  return {};
}

Status check_outputs(const Graph& graph) {
  std::set<std::string_view> seen;
  for (const OutputDecl& output : graph.outputs) {
    if (Status named = check_name("output", output.name, seen); !named) return named;
    if (output.value >= graph.nodes.size()) return fail("output `{}` has no value", output.name);
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
  if (Status states = check_states(graph); !states) return states;
  return check_outputs(graph);
}

}  // namespace rnnc
