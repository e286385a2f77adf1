#include "tests/support/random_graph.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <utility>

namespace rnnc {
namespace {

constexpr double kLimit = 8;  // greatest magnitude of any value
constexpr double kMatrixLimit = 0.125;

/// Numbers that depend on the seed alone: the standard's distributions differ between libraries.
class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  /// 0 <= result < count
  size_t below(size_t count) { return static_cast<size_t>(engine_() % count); }
  int64_t between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(below(static_cast<size_t>(high - low + 1)));
  }
  bool chance(size_t percent) { return below(100) < percent; }
  /// A multiple of 1/64 with magnitude at most `limit`.
  double value(double limit) {
    const auto most = static_cast<int64_t>(limit * 64);
    return static_cast<double>(between(-most, most)) / 64;
  }

 private:
  std::mt19937_64 engine_;
};

/// What the generator knows about a node.
struct Known {
  double limit = 1;        // magnitude is at most this
  bool exact = false;      // held exactly by every storage type
  bool invariant = false;  // depends on params and constants alone
  bool recurrent = false;  // depends on a state
};

class Generator {
 public:
  Generator(uint64_t seed, const RandomGraphOptions& options) : random_(seed), options_(options) {}

  Graph run() {
    graph_.name = "Random";
    for (int64_t i = random_.between(1, 3); i > 0; --i) {
      sizes_.push_back(random_.between(1, options_.largest_size));
    }
    sizes_.push_back(sizes_.front());  // the likeliest size, so that many values fit together
    declare();
    for (int i = 0; i < options_.operations; ++i) add_operation();
    for (uint32_t s = 0; s < graph_.states.size(); ++s) close_state(s);
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
    for (int64_t i = random_.between(1, 3); i > 0; --i) {
      StateDecl state;
      state.name = fmt::format("s{}", i);
      state.type = i == 1 ? Type{{size()}} : vector_or_scalar();
      graph_.states.push_back(std::move(state));
      add_leaf(Op::State, static_cast<uint32_t>(graph_.states.size() - 1), 1);
    }
  }

  NodeId add_leaf(Op op, uint32_t decl, uint32_t delay) {
    Known known;
    NodeId id = kNoNode;
    if (op == Op::Input) {
      known.exact = true;
      id = graph_.input(decl, delay);
    } else if (op == Op::Param) {
      known.exact = true;
      known.invariant = true;
      known.limit = graph_.params[decl].type.rank() == 2 ? kMatrixLimit : 1;
      id = graph_.param(decl);
    } else {
      known.recurrent = true;
      id = graph_.state(decl, delay);
    }
    known_.push_back(known);
    return id;
  }

  NodeId constant(double value) {
    known_.push_back({std::fabs(value), true, true, false});
    return graph_.constant(value);
  }

  NodeId apply(Op op, std::vector<NodeId> operands, double limit, bool exact = false) {
    Known known{limit, exact, true, false};
    for (const NodeId operand : operands) {
      known.invariant = known.invariant && known_[operand].invariant;
      known.recurrent = known.recurrent || known_[operand].recurrent;
    }
    known_.push_back(known);
    return graph_.apply(op, std::move(operands));
  }

  /// A random node of those that fit, or kNoNode.
  template <typename Fits>
  NodeId pick(Fits fits) {
    std::vector<NodeId> candidates;
    for (NodeId id = 0; id < graph_.nodes.size(); ++id) {
      if (fits(id)) candidates.push_back(id);
    }
    if (candidates.empty()) return kNoNode;
    // Late values are likelier, so that graphs grow deep.
    return candidates[std::max(random_.below(candidates.size()), random_.below(candidates.size()))];
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
    const auto delay = static_cast<uint32_t>(random_.below(4));
    if (random_.chance(50)) {
      add_leaf(Op::Input, static_cast<uint32_t>(random_.below(graph_.inputs.size())), delay);
    } else {
      const auto decl = static_cast<uint32_t>(random_.below(graph_.states.size()));
      add_leaf(Op::State, decl, std::max(delay, 1U));
    }
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
    const auto first = static_cast<size_t>(Op::Neg);
    const auto op = static_cast<Op>(first + random_.below(all_ops().size() - first));
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
    if (op == Op::Floor) return apply(op, {operand}, std::ceil(known_[operand].limit), true);
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
    const NodeId next = next_value(s, type);
    graph_.states[s].next = next;
  }

  NodeId next_value(uint32_t s, const Type& type) {
    const size_t kind = random_.below(100);
    const auto delay = static_cast<uint32_t>(random_.between(1, 2));
    const NodeId before = add_leaf(Op::State, s, delay);
    if (kind < 10) {  // a shift register, or a constant state
      return pick([&](NodeId id) { return graph_[id].type == type && graph_[id].op == Op::State; });
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

  Random random_;
  RandomGraphOptions options_;
  std::vector<int64_t> sizes_;
  Graph graph_;
  std::vector<Known> known_;  // per node
};

std::vector<double> random_values(Random& random, const Type& type, int64_t rows) {
  std::vector<double> values(static_cast<size_t>(rows * element_count(type.shape)));
  for (double& value : values) value = random.value(type.rank() == 2 ? kMatrixLimit : 1);
  return values;
}

}  // namespace

Graph random_graph(uint64_t seed, const RandomGraphOptions& options) {
  return Generator(seed, options).run();
}

InterpreterArgs random_args(const Graph& graph, int64_t steps, int64_t batch, uint64_t seed,
                            bool with_initial_states) {
  Random random(seed);
  InterpreterArgs args;
  args.steps = steps;
  args.batch = batch;
  for (const InputDecl& input : graph.inputs) {
    args.inputs.push_back(random_values(random, input.type, steps * batch));
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

}  // namespace rnnc
