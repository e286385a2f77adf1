#include "tests/support/cells/random_graph.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include "ir/graph/sweeps.h"
#include "tests/support/cells/random_numbers.h"

namespace rnnc {
namespace {

constexpr double kLimit = 8;  // greatest magnitude of any value
constexpr double kMostRandomInteger = 4;

/// What the generator knows about a node.
struct Known {
  double limit = 1;        // magnitude is at most this
  bool exact = false;      // held exactly by every storage type
  bool invariant = false;  // depends on params and constants alone
  bool recurrent = false;  // depends on a state
  Direction direction = Direction::Invariant;
};

class Generator {
 public:
  Generator(uint64_t seed, const RandomGraphOptions& options) : random_(seed), options_(options) {
    for (const OpInfo& row : all_ops()) {
      // No device sees a `stop_gradient`.
      if (row.scalar && row.op != Op::StopGradient) scalar_ops_.push_back(row.op);
    }
  }

  Graph run() {
    graph_.name = "Random";
    for (int64_t i = random_.between(1, 3); i > 0; --i) {
      sizes_.push_back(random_.between(1, options_.largest_size));
    }
    sizes_.push_back(sizes_.front());  // the likeliest size, so that many values fit together
    declare();
    add_layer();
    if (options_.reversals) {
      for (int64_t i = random_.between(1, 2); i > 0; --i) {
        turn();
        declare_states(fmt::format("layer{}.s", i));
        add_layer();
      }
      if (direction_ == Direction::Reversed) turn();
    }
    for (int64_t i = random_.between(1, 3); i > 0; --i) {
      const bool any = random_.chance(10);
      const NodeId value = pick([&](NodeId id) {
        return graph_[id].type.rank() == 1 ? any || known_[id].recurrent
                                           : any && graph_[id].type.is_scalar();
      });
      graph_.outputs.push_back({fmt::format("y{}", i), value, {}});
    }
    return std::move(graph_);
  }

 private:
  Dim size() { return sizes_[random_.below(sizes_.size())]; }
  Type vector_or_scalar() { return random_.chance(15) ? Type{} : Type{{size()}}; }

  /// Operations, and then the values of the states declared since the last layer: what comes later
  /// does not reach back into them, so no recurrence passes through a Reverse.
  void add_layer() {
    for (int i = 0; i < options_.operations; ++i) add_operation();
    for (; closed_ < graph_.states.size(); ++closed_) close_state(closed_);
  }

  /// Goes on in the other direction with some values of this one.
  void turn() {
    std::vector<NodeId> values;
    for (int64_t i = random_.between(1, 4); i > 0; --i) {
      values.push_back(pick([&](NodeId id) {
        return known_[id].direction == direction_ && (known_[id].recurrent || random_.chance(50));
      }));
    }
    direction_ = opposite(direction_);
    for (const NodeId value : values) {
      if (value != kNoNode) reversed(value);
    }
  }

  static Direction opposite(Direction direction) {
    return direction == Direction::Forward ? Direction::Reversed : Direction::Forward;
  }

  NodeId reversed(NodeId value) {
    Known known = known_[value];
    known.direction = opposite(known.direction);
    known_.push_back(known);
    return graph_.apply(Op::Reverse, {value});
  }

  /// Declares everything and reads each once; more reads, also delayed ones, come among operations.
  void declare() {
    for (int64_t i = random_.between(1, 3); i > 0; --i) {
      graph_.inputs.push_back(
          {fmt::format("x{}", i), i == 1 ? Type{{size()}} : vector_or_scalar(), {}});
      add_leaf(Op::Input, static_cast<uint32_t>(graph_.inputs.size() - 1), 0);
    }
    for (int64_t i = random_.between(3, 8); i > 0; --i) {
      const Type type = random_.chance(65) ? Type{{size(), size()}} : vector_or_scalar();
      graph_.params.push_back({fmt::format("W{}", i), type, {}});
      add_leaf(Op::Param, static_cast<uint32_t>(graph_.params.size() - 1), 0);
    }
    if (options_.structure) declare_arrays();
    declare_states("s");
  }

  Type array(Type element) {
    element.shape.insert(element.shape.begin(), random_.between(1, 3));
    return element;
  }

  /// Params [L, ...] and [N, P, Q] blocks, which look alike, and an input [L, n].
  void declare_arrays() {
    for (int64_t i = random_.between(1, 3); i > 0; --i) {
      const Type element = random_.chance(80) ? Type{{size(), size()}} : Type{{size()}};
      graph_.params.push_back({fmt::format("A{}", i), array(element), {}});
      add_leaf(Op::Param, static_cast<uint32_t>(graph_.params.size() - 1), 0);
    }
    graph_.inputs.push_back({"n", {}, {}, /*integer=*/true});
    if (random_.chance(50)) return;
    graph_.inputs.push_back({"a", array(Type{{size()}}), {}});
    add_leaf(Op::Input, static_cast<uint32_t>(graph_.inputs.size() - 1), 0);
  }

  void declare_states(const std::string& prefix) {
    for (int64_t i = random_.between(1, 3); i > 0; --i) {
      StateDecl state;
      state.name = fmt::format("{}{}", prefix, i);
      state.reversed = direction_ == Direction::Reversed;
      state.type = i == 1 ? Type{{size()}} : vector_or_scalar();
      if (options_.structure && i > 1 && random_.chance(40)) state.type = array(Type{{size()}});
      graph_.states.push_back(std::move(state));
      add_leaf(Op::State, static_cast<uint32_t>(graph_.states.size() - 1), 1);
    }
  }

  NodeId add_leaf(Op op, uint32_t decl, uint32_t delay) {
    Known known;
    NodeId id = kNoNode;
    if (op == Op::Input) {
      known.exact = true;
      known.direction = Direction::Forward;
      id = graph_.input(decl, delay);
    } else if (op == Op::Param) {
      known.exact = true;
      known.invariant = true;
      known.limit = graph_.params[decl].type.rank() >= 2 ? kMatrixLimit : 1;
      id = graph_.param(decl);
    } else {
      known.recurrent = true;
      known.direction = direction_;
      id = graph_.state(decl, delay);
    }
    known_.push_back(known);
    return op == Op::Input && direction_ == Direction::Reversed ? reversed(id) : id;
  }

  NodeId constant(double value) {
    known_.push_back({std::fabs(value), true, true, false, Direction::Invariant});
    return graph_.constant(value);
  }

  NodeId apply(Op op, std::vector<NodeId> operands, double limit, bool exact = false) {
    known_.push_back(known_of(operands, limit, exact));
    return graph_.apply(op, std::move(operands));
  }

  Known known_of(const std::vector<NodeId>& operands, double limit, bool exact) const {
    Known known{limit, exact, true, false, Direction::Invariant};
    for (const NodeId operand : operands) {
      known.invariant = known.invariant && known_[operand].invariant;
      known.recurrent = known.recurrent || known_[operand].recurrent;
      if (!known_[operand].invariant) known.direction = known_[operand].direction;
    }
    return known;
  }

  /// A random node of those that run as values do now and fit, or kNoNode.
  template <typename Fits>
  NodeId pick_any(Fits fits) {
    std::vector<NodeId> candidates;
    for (NodeId id = 0; id < graph_.nodes.size(); ++id) {
      if ((known_[id].invariant || known_[id].direction == direction_) && fits(id)) {
        candidates.push_back(id);
      }
    }
    if (candidates.empty()) return kNoNode;
    // Late values are likelier, so that graphs grow deep.
    return candidates[std::max(random_.below(candidates.size()), random_.below(candidates.size()))];
  }

  /// Of those that arithmetic takes: arrays over time are for taking apart, and in larger graphs
  /// what was not tamed yet is left alone.
  template <typename Fits>
  NodeId pick(Fits fits) {
    const bool large = options_.structure || options_.reversals;
    return pick_any([&](NodeId id) {
      const size_t rank = graph_[id].type.rank();
      return (rank < 2 || (rank == 2 && known_[id].invariant)) &&
             (!large || known_[id].limit <= kLimit) && fits(id);
    });
  }

  NodeId pick_of(const Type& type) {
    return pick([&](NodeId id) { return graph_[id].type == type; });
  }

  /// `id`, or its tanh where it may be larger than `limit`, which is at least 1.
  NodeId tamed(NodeId id, double limit) {
    return known_[id].limit <= limit ? id : apply(Op::Tanh, {id}, 1);
  }

  /// id * id + 0.5
  NodeId positive(NodeId id) {
    const double square = known_[id].limit * known_[id].limit;
    const NodeId squared = apply(Op::Mul, {id, id}, square);
    return apply(Op::Add, {squared, constant(0.5)}, square + 0.5);
  }

  void add_operation() {
    if (options_.structure && random_.chance(35)) return add_structure();
    const size_t kind = random_.below(100);
    if (kind < 10) {
      add_read();
    } else if (kind < 15) {
      constant(random_.value(2));
    } else if (kind < 35) {
      add_product();
    } else if (kind < 45) {
      add_reduction();
    } else {
      add_scalar_op();
    }
  }

  void add_read() {
    const bool far = options_.far && random_.chance(30);
    const auto delay = static_cast<uint32_t>(far ? static_cast<size_t>(random_.between(4, 300))
                                                 : random_.below(4));
    if (random_.chance(50)) {
      const auto decl = static_cast<uint32_t>(random_.below(graph_.inputs.size()));
      if (!graph_.inputs[decl].integer) add_leaf(Op::Input, decl, delay);
    } else {
      std::vector<uint32_t> states;
      for (uint32_t i = 0; i < graph_.states.size(); ++i) {
        if (graph_.states[i].reversed == (direction_ == Direction::Reversed)) states.push_back(i);
      }
      add_leaf(Op::State, states[random_.below(states.size())], std::max(delay, 1U));
    }
  }

  // ---- Structure: values keep what is known of their operands ----

  void add_structure() {
    switch (random_.below(11)) {
      case 0:
        return add_slice();
      case 10:
        return add_of_integer();
      case 1: {
        const NodeId operand = pick_any([&](NodeId id) { return !graph_[id].type.is_scalar(); });
        index(operand, random_.between(0, length(operand) - 1));
        return;
      }
      case 2:
        return add_joined(Op::Concat);
      case 3:
        return add_joined(Op::Stack);
      case 4: {
        const NodeId matrix = pick([&](NodeId id) { return graph_[id].type.rank() == 2; });
        if (matrix != kNoNode) moved({matrix}, graph_.apply(Op::Transpose, {matrix}));
        return;
      }
      case 5:
        known_.push_back({1, true, true, false, Direction::Invariant});
        graph_.eye(size());
        return;
      case 6: {
        std::vector<double> values(static_cast<size_t>(*size().constant()));
        for (double& value : values) value = random_.value(1);
        known_.push_back({1, true, true, false, Direction::Invariant});
        graph_.vector(std::move(values));
        return;
      }
      case 7: {
        const int64_t count = std::min<int64_t>(*size().constant(), 4);
        known_.push_back({4, true, true, false, Direction::Invariant});
        const NodeId range = graph_.range(count);
        apply(Op::Mul, {range, constant(0.25)}, 1, true);
        return;
      }
      case 8: {
        const NodeId scalar = pick_of(Type{});
        if (scalar != kNoNode) moved({scalar}, graph_.broadcast(scalar, {size()}));
        return;
      }
      default:
        return add_block_product();
    }
  }

  int64_t length(NodeId id) const { return *graph_[id].type.shape.front().constant(); }

  /// `id`, just made of elements of these operands.
  NodeId moved(const std::vector<NodeId>& operands, NodeId id) {
    double limit = 0;
    bool exact = true;
    for (const NodeId operand : operands) {
      limit = std::max(limit, known_[operand].limit);
      exact = exact && known_[operand].exact;
    }
    known_.push_back(known_of(operands, limit, exact));
    return id;
  }

  NodeId index(NodeId operand, int64_t position) {
    return moved({operand}, graph_.index(operand, position));
  }

  /// A row of a table, or the integer as a number.
  void add_of_integer() {
    const auto input = std::ranges::find(graph_.inputs, true, &InputDecl::integer);
    if (input == graph_.inputs.end()) return;
    // Of a mixed direction, so that nothing else takes them.
    known_.push_back({.direction = Direction::Mixed});
    NodeId integer = graph_.input(static_cast<uint32_t>(input - graph_.inputs.begin()));
    if (direction_ == Direction::Reversed) integer = reversed(integer);
    known_.back().direction = Direction::Mixed;
    const bool as_number = random_.chance(45);
    const NodeId table = as_number ? kNoNode : pick([&](NodeId id) {
      const size_t rank = graph_[id].type.rank();
      return known_[id].invariant && (rank == 1 || rank == 2);
    });
    Known known{.limit = kMostRandomInteger, .exact = true, .direction = direction_};
    if (table != kNoNode) {
      known.limit = known_[table].limit;
      known.exact = known_[table].exact;
    }
    known_.push_back(known);
    if (table == kNoNode) {
      const NodeId real = graph_.apply(Op::Real, {integer});
      apply(Op::Mul, {real, constant(0.25)}, 1, true);
    } else {
      graph_.apply(Op::Rows, {table, integer});
    }
  }

  void add_slice() {
    const NodeId operand = pick_any([&](NodeId id) { return !graph_[id].type.is_scalar(); });
    const int64_t likely = *size().constant();
    const int64_t count = likely <= length(operand) ? likely : random_.between(1, length(operand));
    const int64_t begin = random_.between(0, length(operand) - count);
    moved({operand}, graph_.slice(operand, begin, begin + count));
  }

  /// A concatenation of vectors or matrices, or a stack: of scalars, or of invariant vectors.
  void add_joined(Op op) {
    std::vector<NodeId> operands;
    std::vector<Type> types;
    for (int64_t i = random_.between(1, 3); i > 0; --i) {
      const NodeId operand = pick([&](NodeId id) {
        std::vector<Type> joined = types;
        joined.push_back(graph_[id].type);
        const std::optional<Type> type = infer_type(op, joined);
        return type && type->rank() <= 2 && (type->rank() < 2 || known_[id].invariant) &&
               *type->shape[0].constant() <= 4 * options_.largest_size;
      });
      if (operand == kNoNode) break;
      operands.push_back(operand);
      types.push_back(graph_[operand].type);
    }
    if (!operands.empty()) moved(operands, graph_.apply(op, operands));
  }

  void add_block_product() {
    const NodeId blocks = pick_any([&](NodeId id) { return graph_[id].type.rank() == 3; });
    if (blocks == kNoNode) return;
    const Shape shape = graph_[blocks].type.shape;
    const bool left = random_.chance(50);
    const Dim needed = shape[0] * shape[left ? 2 : 1];
    NodeId vector = pick_of(Type{{needed}});
    if (vector == kNoNode) {  // of as many pieces of one
      const NodeId piece = pick_of(Type{{shape[left ? 2 : 1]}});
      if (piece == kNoNode) return;
      const std::vector<NodeId> pieces(static_cast<size_t>(length(blocks)), piece);
      vector = moved(pieces, graph_.apply(Op::Concat, pieces));
    }
    const std::vector<NodeId> operands =
        left ? std::vector<NodeId>{blocks, vector} : std::vector<NodeId>{vector, blocks};
    const double terms = static_cast<double>(*shape[left ? 2 : 1].constant());
    const double limit = terms * known_[blocks].limit * known_[vector].limit;
    tamed(apply(Op::MatMul, operands, limit), kLimit);
  }

  /// A product with a matrix that does not change with time, or of two vectors.
  void add_product() {
    const size_t rank = random_.chance(80) ? 2 : 1;
    const NodeId left = pick([&](NodeId id) { return graph_[id].type.rank() == rank; });
    if (left == kNoNode) return;
    const NodeId right = pick([&](NodeId id) {
      return infer_type(Op::MatMul, {graph_[left].type, graph_[id].type}).has_value();
    });
    if (right == kNoNode) return;
    const double length = static_cast<double>(*graph_[right].type.shape.front().constant());
    const double limit = length * known_[left].limit * known_[right].limit;
    tamed(apply(Op::MatMul, {left, right}, limit), kLimit);
  }

  void add_reduction() {
    const NodeId operand = pick([this](NodeId id) { return !graph_[id].type.is_scalar(); });
    const auto op = static_cast<Op>(
        random_.between(static_cast<int64_t>(Op::Sum), static_cast<int64_t>(Op::ReduceMax)));
    double limit = known_[operand].limit;
    if (op == Op::Var) limit *= limit;
    if (op == Op::Sum) {
      limit *= static_cast<double>(*graph_[operand].type.shape.back().constant());
    }
    tamed(apply(op, {operand}, limit), kLimit);
  }

  void add_scalar_op() {
    const Op op = scalar_ops_[random_.below(scalar_ops_.size())];
    const size_t rank = random_.below(10) < 8 ? 1 : 2 * random_.below(2);
    const NodeId a = pick([&](NodeId id) { return graph_[id].type.rank() == rank; });
    if (a == kNoNode) return;
    const Type type = graph_[a].type;
    // Matrices stay free of time, so what is combined with one does too.
    const auto fits = [&](NodeId id) {
      return (graph_[id].type == type || graph_[id].type.is_scalar()) &&
             (type.rank() < 2 || known_[id].invariant);
    };
    const NodeId b = pick(fits);
    const NodeId c = pick(fits);
    if (b != kNoNode && c != kNoNode) tamed(safe(op, a, b, c), kLimit);
  }

  /// `op` on operands brought into its safe range.
  NodeId safe(Op op, NodeId a, NodeId b, NodeId c) {
    switch (op) {
      case Op::Sign:
      case Op::Floor:
      case Op::Round:
      case Op::Mod:
      case Op::Lt:
      case Op::Le:
      case Op::Gt:
      case Op::Ge:
      case Op::Eq:
      case Op::Ne:
      case Op::Where:
        return jumping(op, a, b, c);
      case Op::Add:
      case Op::Sub:
        return apply(op, {a, b}, known_[a].limit + known_[b].limit);
      case Op::Mul:
        return apply(op, {a, b}, known_[a].limit * known_[b].limit);
      case Op::Div:
        return apply(op, {a, positive(tamed(b, 2))}, 2 * known_[a].limit);
      case Op::Pow:
        return apply(op, {positive(tamed(a, 2)), tamed(b, 1)}, 4.5);
      case Op::Exp:
      case Op::Expm1:
        return apply(op, {tamed(a, 2)}, kLimit);
      case Op::Log:
      case Op::Sqrt:
      case Op::Rsqrt:
        return apply(op, {positive(tamed(a, 2))}, 4.5);
      case Op::Log1p:
        return apply(op, {apply(Op::Mul, {a, a}, kLimit * kLimit)}, 4.5);
      case Op::Softplus:
        return apply(op, {a}, known_[a].limit + 1);
      default:
        return bounded(op, a, b, c);
    }
  }

  /// Functions that jump somewhere, on exact operands. Where `a` is not, its sign is made of an
  /// exact scalar instead.
  NodeId jumping(Op op, NodeId a, NodeId b, NodeId c) {
    const auto exact = [&](NodeId id) {
      return known_[id].exact && (graph_[a].type.rank() < 2 || known_[id].invariant) &&
             (graph_[id].type.is_scalar() || graph_[id].type == graph_[a].type);
    };
    if (op == Op::Where) {
      NodeId condition = pick(exact);
      if (condition == kNoNode) condition = constant(1);
      return apply(op, {condition, a, b}, std::max(known_[a].limit, known_[b].limit));
    }
    NodeId operand = pick(exact);
    if (operand == kNoNode) operand = constant(random_.value(1));
    if (op == Op::Sign) return apply(op, {operand}, 1, true);
    if (op == Op::Floor || op == Op::Round)
      return apply(op, {operand}, std::ceil(known_[operand].limit), true);
    if (op == Op::Mod) return apply(op, {operand, constant(0.75)}, 0.75, true);
    const NodeId other = random_.chance(50) && exact(c) ? c : constant(random_.value(1));
    return apply(op, {operand, other}, 1, true);
  }

  /// Functions whose result is no larger than 1 or than their largest operand.
  NodeId bounded(Op op, NodeId a, NodeId b, NodeId c) {
    std::vector<NodeId> operands = {a, b, c};
    operands.resize(static_cast<size_t>(info(op).arity));
    double limit = 1;
    // Rounding may bring numbers together but never past one another: these keep exactness.
    bool exact = op == Op::Neg || op == Op::Abs || op == Op::Relu || op == Op::Min ||
                 op == Op::Max || op == Op::Clamp;
    for (const NodeId operand : operands) {
      limit = std::max(limit, known_[operand].limit);
      exact = exact && known_[operand].exact;
    }
    return apply(op, std::move(operands), limit, exact);
  }

  /// Gives a state its initial and its next value; every kind keeps it within +-1.
  void close_state(uint32_t s) {
    const Type type = graph_.states[s].type;
    const NodeId init = pick([&](NodeId id) {
      return known_[id].invariant && known_[id].limit <= 1 &&
             (graph_[id].type == type || graph_[id].type.is_scalar());
    });
    graph_.states[s].init = init == kNoNode ? constant(random_.value(1)) : init;
    if (type.rank() < 2) {
      graph_.states[s].next = next_value(s, type, std::nullopt);
      return;
    }
    const Type element{{type.shape.begin() + 1, type.shape.end()}};
    std::vector<NodeId> values;
    for (int64_t i = 0; i < *type.shape[0].constant(); ++i) {
      values.push_back(next_value(s, element, i));
    }
    graph_.states[s].next = moved(values, graph_.apply(Op::Stack, values));
  }

  /// Of a state of this type, or of one element of an array of them.
  NodeId next_value(uint32_t s, const Type& type, std::optional<int64_t> element) {
    const size_t kind = random_.below(100);
    const auto delay = static_cast<uint32_t>(random_.between(1, 2));
    NodeId before = add_leaf(Op::State, s, delay);
    if (element) before = index(before, *element);
    if (kind < 10) {  // a shift register, or a constant state
      const NodeId other =
          pick([&](NodeId id) { return graph_[id].type == type && graph_[id].op == Op::State; });
      return other == kNoNode ? before : other;
    }
    if (kind < 20) return tamed(pick_of(type), 1);
    if (kind < 35) {  // elementwise: the state itself inside the nonlinearity
      return apply(Op::Tanh, {apply(Op::Add, {before, pick_of(type)}, 1 + kLimit)}, 1);
    }
    // gate * before + (1 - gate) * candidate: linear where neither depends on a state
    const bool linear = kind < 60;
    const NodeId candidate = tamed(pick_for_update(type, linear), 1);
    const NodeId gate = apply(Op::Sigmoid, {pick_for_update(type, linear)}, 1);
    const NodeId kept = apply(Op::Mul, {gate, before}, 1);
    const NodeId rest = apply(Op::Sub, {constant(1), gate}, 1);
    return apply(Op::Add, {kept, apply(Op::Mul, {rest, candidate}, 1)}, 1);
  }

  /// A value of this type or a scalar; free of states if asked for.
  NodeId pick_for_update(const Type& type, bool free_of_states) {
    const NodeId id = pick([&](NodeId n) {
      return (graph_[n].type == type || graph_[n].type.is_scalar()) &&
             !(free_of_states && known_[n].recurrent);
    });
    return id == kNoNode ? constant(random_.value(1)) : id;
  }

  std::vector<Op> scalar_ops_;
  Random random_;
  RandomGraphOptions options_;
  std::vector<int64_t> sizes_;
  Graph graph_;
  std::vector<Known> known_;                  // per node
  Direction direction_ = Direction::Forward;  // of the layer that is being made
  uint32_t closed_ = 0;                       // states that have their values
};

}  // namespace

Graph random_graph(uint64_t seed, const RandomGraphOptions& options) {
  return Generator(seed, options).run();
}

}  // namespace rnnc
