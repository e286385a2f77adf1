#include "ir/graph/interpreter.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>

#include "ir/graph/sweeps.h"

namespace rnnc {
namespace {

/// A node's elements for every row of the batch. Values that depend on params and constants alone
/// have one row, which stands for all.
struct Value {
  std::vector<double> elements;
  size_t width = 1;  // elements in a row
  bool invariant = false;
  After after = After::Nothing;

  const double* row(size_t b) const { return elements.data() + (invariant ? 0 : b * width); }
  double* row(size_t b) { return elements.data() + (invariant ? 0 : b * width); }
};

/// Four partial sums: one alone would wait for every addition.
double dot(const double* left, const double* right, size_t count) {
  double sums[4] = {0, 0, 0, 0};
  size_t i = 0;
  for (; i + 4 <= count; i += 4) {
    for (size_t j = 0; j < 4; ++j) sums[j] += left[i + j] * right[i + j];
  }
  for (; i < count; ++i) sums[0] += left[i] * right[i];
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

/// out[m, n] = left[m, k] @ right[k, n], all row-major.
void matmul(const double* left, const double* right, double* out, size_t m, size_t k, size_t n) {
  if (n == 1) {
    for (size_t i = 0; i < m; ++i) out[i] = dot(left + i * k, right, k);
    return;
  }
  std::fill_n(out, m * n, 0.0);
  for (size_t i = 0; i < m; ++i) {
    for (size_t l = 0; l < k; ++l) {
      for (size_t j = 0; j < n; ++j) out[i * n + j] += left[i * k + l] * right[l * n + j];
    }
  }
}

double reduce(Op op, const double* row, size_t count) {
  double result = 0;
  if (op == Op::ReduceMin || op == Op::ReduceMax) {
    const Op scalar = op == Op::ReduceMin ? Op::Min : Op::Max;
    result = std::numeric_limits<double>::infinity() * (op == Op::ReduceMin ? 1 : -1);
    for (size_t i = 0; i < count; ++i) result = evaluate(scalar, result, row[i], 0);
    return result;
  }
  for (size_t i = 0; i < count; ++i) result += row[i];
  if (op == Op::Sum) return result;
  const double mean = result / static_cast<double>(count);
  if (op == Op::Mean) return mean;
  double squares = 0;
  for (size_t i = 0; i < count; ++i) squares += (row[i] - mean) * (row[i] - mean);
  return squares / static_cast<double>(count);
}

class Interpreter {
 public:
  Interpreter(const Graph& graph, const InterpreterArgs& args)
      : graph_(graph),
        args_(args),
        steps_(static_cast<size_t>(args.steps)),
        batch_(static_cast<size_t>(args.batch)),
        sweeps_(find_sweeps(graph).value()) {
    check_args();
  }

  InterpreterResult run() {
    prepare_values();
    prepare_kept();
    prepare_states();
    for (const OutputDecl& output : graph_.outputs) {
      result_.outputs.emplace_back(steps_ * batch_ * values_[output.value].width);
    }
    const uint32_t last_sweep = sweeps_.empty() ? 0 : *std::ranges::max_element(sweeps_);
    for (uint32_t sweep = 0; sweep <= last_sweep; ++sweep) {
      for (size_t i = 0; i < steps_; ++i) run_step(sweep, graph_.descending ? steps_ - 1 - i : i);
    }
    for (size_t s = 0; s < graph_.states.size(); ++s) result_.final_states.push_back(last(s));
    for (NodeId id = 0; id < values_.size(); ++id) {
      if (values_[id].after != After::Nothing) evaluate_after(id);
    }
    for (const ResultDecl& result : graph_.results) {
      result_.results.push_back(values_[result.value].elements);
    }
    return std::move(result_);
  }

 private:
  void check_args() const {
    RNNC_CHECK(args_.steps >= 0 && args_.batch >= 0);
    RNNC_CHECK(args_.inputs.size() == graph_.inputs.size());
    RNNC_CHECK(args_.params.size() == graph_.params.size());
    RNNC_CHECK(args_.initial_states.empty() || args_.initial_states.size() == graph_.states.size());
    RNNC_CHECK(args_.lengths.empty() || args_.lengths.size() == batch_);
    RNNC_CHECK(args_.resets.empty() || args_.resets.size() == steps_ * batch_);
    for (size_t i = 0; i < args_.inputs.size(); ++i) {
      const InputDecl& input = graph_.inputs[i];
      RNNC_CHECK(args_.inputs[i].size() == steps_ * batch_ * width(input.type),
                 "input `{}` has {} elements", input.name, args_.inputs[i].size());
    }
    for (size_t i = 0; i < args_.params.size(); ++i) {
      const ParamDecl& param = graph_.params[i];
      RNNC_CHECK(args_.params[i].size() == width(param.type), "param `{}` has {} elements",
                 param.name, args_.params[i].size());
    }
    for (size_t i = 0; i < args_.initial_states.size(); ++i) {
      const StateDecl& state = graph_.states[i];
      RNNC_CHECK(args_.initial_states[i].empty() ||
                     args_.initial_states[i].size() == batch_ * width(state.type),
                 "initial state `{}` has {} elements", state.name, args_.initial_states[i].size());
    }
  }

  static size_t width(const Type& type) { return static_cast<size_t>(element_count(type.shape)); }

  /// Allocates every value, and computes those that do not change with time, once.
  void prepare_values() {
    const std::vector<Direction> directions = find_directions(graph_);
    const std::vector<After> after = find_after(graph_);
    for (NodeId id = 0; id < graph_.nodes.size(); ++id) {
      const Node& node = graph_[id];
      Value value;
      value.width = width(node.type);
      value.after = after[id];
      value.invariant = directions[id] == Direction::Invariant && value.after != After::Batch;
      value.elements.resize(value.width * (value.invariant ? 1 : batch_));
      values_.push_back(std::move(value));
      if (values_.back().invariant && after[id] == After::Nothing) evaluate_node(id, 0);
    }
  }

  /// Values of an earlier sweep than that of a node that takes them are kept for all steps.
  void prepare_kept() {
    kept_.resize(values_.size());
    for (NodeId id = 0; id < values_.size(); ++id) {
      for (const NodeId operand : graph_[id].operands) {
        const Value& value = values_[operand];
        if (sweeps_[operand] == sweeps_[id] || value.invariant) continue;
        if (value.after != After::Nothing) continue;
        kept_[operand].resize(steps_ * batch_ * values_[operand].width);
      }
    }
  }

  /// What of the values at step `t` of its direction a sweep computes, and what becomes of them.
  void run_step(uint32_t sweep, size_t t) {
    for (NodeId id = 0; id < values_.size(); ++id) {
      const bool adds_up = graph_[id].op == Op::Total && values_[id].after == After::Steps;
      if (adds_up && sweeps_[id] == sweep && !is_after(graph_[id].operands[0])) add_up(id);
      if (values_[id].invariant || values_[id].after != After::Nothing) continue;
      if (sweeps_[id] == sweep) {
        evaluate_node(id, t);
        if (!kept_[id].empty()) store_step(values_[id], t, kept_[id]);
      } else if (sweeps_[id] < sweep && !kept_[id].empty()) {
        load_step(kept_[id], t, values_[id]);
      }
    }
    for (size_t s = 0; s < graph_.states.size(); ++s) {
      const NodeId next = graph_.states[s].next;
      if (sweeps_[next] == sweep) store_step(values_[next], t, sequences_[s]);
    }
    for (size_t o = 0; o < graph_.outputs.size(); ++o) {
      const NodeId value = graph_.outputs[o].value;
      if (sweeps_[value] == sweep) store_step(values_[value], t, result_.outputs[o]);
    }
  }

  bool is_after(NodeId id) const { return values_[id].after != After::Nothing; }

  /// Adds the rows of a total's operand, or their outer products.
  void add_up(NodeId id) {
    const Node& node = graph_[id];
    Value& out = values_[id];
    const Value& left = values_[node.operands[0]];
    if (node.operands.size() == 1) {
      for (size_t b = 0; b < batch_; ++b) {
        for (size_t i = 0; i < out.width; ++i) out.elements[i] += left.row(b)[i];
      }
      return;
    }
    const Value& right = values_[node.operands[1]];
    if (is_integer(graph_, node.operands[0])) return add_up_rows(left, right, out);
    const size_t blocks = node.type.rank() == 3 ? size_of(node.type.shape[0]) : 1;
    const size_t m = left.width / blocks;
    const size_t n = right.width / blocks;
    for (size_t b = 0; b < batch_; ++b) {
      for (size_t i = 0; i < left.width; ++i) {
        const double* factors = right.row(b) + i / m * n;
        for (size_t j = 0; j < n; ++j) out.elements[i * n + j] += left.row(b)[i] * factors[j];
      }
    }
  }

  /// Adds each row of `rows` to that of the table which an integer names, if it has one.
  void add_up_rows(const Value& integers, const Value& rows, Value& table) const {
    for (size_t b = 0; b < batch_; ++b) {
      const std::optional<size_t> begin = row_begin(integers.row(b)[0], table.width, rows.width);
      if (!begin) continue;
      for (size_t i = 0; i < rows.width; ++i) table.elements[*begin + i] += rows.row(b)[i];
    }
  }

  /// Where the row that `integer` names begins among the `elements` of a table, if it has one.
  static std::optional<size_t> row_begin(double integer, size_t elements, size_t width) {
    const size_t rows = elements / width;
    if (!(integer >= 0 && integer < static_cast<double>(rows))) return std::nullopt;
    return static_cast<size_t>(integer) * width;
  }

  /// What comes after all steps.
  void evaluate_after(NodeId id) {
    const Node& node = graph_[id];
    if (node.op == Op::Final) {
      values_[id].elements = last(node.decl);
    } else if (node.op != Op::Total) {
      evaluate_node(id, 0);
    } else if (is_after(node.operands[0])) {
      add_up(id);
    }
  }

  /// A state after the last step that runs.
  std::vector<double> last(size_t state) const {
    if (steps_ == 0) return initial_[state];
    const auto size = static_cast<ptrdiff_t>(initial_[state].size());
    const std::vector<double>& sequence = sequences_[state];
    if (graph_.descending) return {sequence.begin(), sequence.begin() + size};
    return {sequence.end() - size, sequence.end()};
  }

  /// The caller's initial value of a state, or null: what is not given starts as what it is an
  /// earlier value of, if that is given.
  const std::vector<double>* given(size_t state) const {
    if (args_.initial_states.empty()) return nullptr;
    if (!args_.initial_states[state].empty()) return &args_.initial_states[state];
    const std::optional<uint32_t>& delay_of = graph_.states[state].delay_of;
    return delay_of ? given(*delay_of) : nullptr;
  }

  /// Initial values: the caller's, or the declared one for every row.
  void prepare_states() {
    for (size_t s = 0; s < graph_.states.size(); ++s) {
      const size_t size = width(graph_.states[s].type);
      sequences_.emplace_back(steps_ * batch_ * size);
      if (const std::vector<double>* values = given(s)) {
        initial_.push_back(each_row(*values, size));
        continue;
      }
      const Value& declared = values_[graph_.states[s].init];
      std::vector<double> initial(batch_ * size);
      for (size_t i = 0; i < initial.size(); ++i) {
        initial[i] = declared.elements[declared.width == 1 ? 0 : i % size];
      }
      initial_.push_back(std::move(initial));
    }
  }

  /// The rows of the batch, each as often as makes `size` elements: values that a history begins
  /// with.
  std::vector<double> each_row(const std::vector<double>& rows, size_t size) const {
    const size_t width = rows.size() / batch_;
    std::vector<double> result(batch_ * size);
    for (size_t i = 0; i < result.size(); ++i) result[i] = rows[i / size * width + i % width];
    return result;
  }

  void evaluate_node(NodeId id, size_t t) {
    const Node& node = graph_[id];
    Value& out = values_[id];
    const size_t rows = out.invariant ? 1 : batch_;
    switch (node.op) {
      case Op::Input:
        return load_input(node, t, out);
      case Op::State:
        return load_state(node, t, out);
      case Op::Param:
        out.elements = args_.params[node.decl];
        return;
      case Op::Constant:
        out.elements[0] = node.value;
        return;
      case Op::Vector:
        out.elements = node.values;
        return;
      case Op::Range:
        std::iota(out.elements.begin(), out.elements.end(), 0.0);
        return;
      case Op::Eye:
        for (size_t i = 0; i < out.width; i += size_of(node.type.shape[0]) + 1) out.elements[i] = 1;
        return;
      case Op::Valid:
        for (size_t b = 0; b < batch_; ++b) out.elements[b] = t < length(b) ? 1 : 0;
        return;
      case Op::Reset:
        for (size_t b = 0; b < batch_; ++b) out.elements[b] = has_reset(node, t, b) ? 1 : 0;
        return;
      case Op::Reverse:
        return load_reversed(node, t, out);
      case Op::Earlier:
        return load_earlier(node, t, out);
      default:
        break;
    }
    for (size_t b = 0; b < rows; ++b) evaluate_row(node, b, out);
  }

  void evaluate_row(const Node& node, size_t b, Value& out) const {
    switch (node.op) {
      case Op::Broadcast:
        std::fill_n(out.row(b), out.width, values_[node.operands[0]].row(b)[0]);
        return;
      case Op::Slice:
      case Op::Index: {
        // Row-major: what lies along the first axis lies side by side.
        const size_t begin = size_of(node.begin);
        const size_t axis = node.op == Op::Slice ? size_of(node.end) - begin : 1;
        std::copy_n(values_[node.operands[0]].row(b) + begin * (out.width / axis), out.width,
                    out.row(b));
        return;
      }
      case Op::Concat:
      case Op::Stack: {
        double* target = out.row(b);
        for (const NodeId operand : node.operands) {
          target = std::copy_n(values_[operand].row(b), values_[operand].width, target);
        }
        return;
      }
      case Op::Transpose: {
        const size_t rows = size_of(node.type.shape[0]);
        const size_t columns = size_of(node.type.shape[1]);
        const double* source = values_[node.operands[0]].row(b);
        for (size_t i = 0; i < out.width; ++i) {
          out.row(b)[i] = source[i % columns * rows + i / columns];
        }
        return;
      }
      case Op::Real:
        out.row(b)[0] = values_[node.operands[0]].row(b)[0];
        return;
      case Op::Rows: {
        const Value& table = values_[node.operands[0]];
        const double integer = values_[node.operands[1]].row(b)[0];
        const std::optional<size_t> begin = row_begin(integer, table.width, out.width);
        for (size_t i = 0; i < out.width; ++i) out.row(b)[i] = begin ? table.row(b)[*begin + i] : 0;
        return;
      }
      case Op::MatMul:
        return multiply_row(node, b, out);
      default:
        return is_reduction(node.op) ? reduce_row(node, b, out) : apply_row(node, b, out);
    }
  }

  /// The step that was `delay` steps before step t, if there was one.
  std::optional<size_t> earlier(size_t t, size_t delay) const {
    if (graph_.descending) return t + delay < steps_ ? std::optional(t + delay) : std::nullopt;
    return t < delay ? std::nullopt : std::optional(t - delay);
  }

  // Inputs before the first step are zero.
  void load_input(const Node& node, size_t t, Value& out) const {
    if (const std::optional<size_t> step = earlier(t, node.delay)) {
      load_step(args_.inputs[node.decl], *step, out);
    } else {
      std::ranges::fill(out.elements, 0.0);
    }
  }

  // Before the first step a state stands at its initial value for all earlier times.
  void load_state(const Node& node, size_t t, Value& out) const {
    if (const std::optional<size_t> step = earlier(t, node.delay)) {
      load_step(sequences_[node.decl], *step, out);
    } else {
      out.elements = initial_[node.decl];
    }
  }

  size_t length(size_t b) const {
    return args_.lengths.empty() ? steps_ : static_cast<size_t>(args_.lengths[b]);
  }

  /// A reset at step r parts it from step r - 1: a run in reverse crosses that at its own step
  /// length - r.
  bool is_reset(const Node& node, size_t t, size_t b) const {
    if (args_.resets.empty()) return false;
    if (node.decl == 0) return args_.resets[t * batch_ + b] != 0;
    return t > 0 && t < length(b) && args_.resets[(length(b) - t) * batch_ + b] != 0;
  }

  bool has_reset(const Node& node, size_t t, size_t b) const {
    for (size_t back = 0; back <= node.delay && back <= t; ++back) {
      if (is_reset(node, t - back, b)) return true;
    }
    return false;
  }

  /// Each sequence's own last step first, of an input or of what an earlier sweep kept; zero past
  /// its end.
  void load_reversed(const Node& node, size_t t, Value& out) const {
    const NodeId operand = node.operands[0];
    const Node& source = graph_[operand];
    if (out.invariant) {
      out.elements = values_[operand].elements;
      return;
    }
    const bool is_input = source.op == Op::Input && source.delay == 0;
    const std::vector<double>& sequence = is_input ? args_.inputs[source.decl] : kept_[operand];
    for (size_t b = 0; b < batch_; ++b) {
      if (t < length(b)) {
        const size_t step = length(b) - 1 - t;
        std::copy_n(sequence.data() + (step * batch_ + b) * out.width, out.width, out.row(b));
      } else {
        std::fill_n(out.row(b), out.width, 0.0);
      }
    }
  }

  void load_earlier(const Node& node, size_t t, Value& out) const {
    std::ranges::fill(out.elements, 0.0);
    if (t == 0) return;
    const std::vector<double>& sequence = args_.inputs[graph_[node.operands[0]].decl];
    const size_t count = batch_ * out.width;
    std::copy_n(sequence.data() + (t - 1) * count, count, out.elements.data());
  }

  void multiply_row(const Node& node, size_t b, Value& out) const {
    const Value& left = values_[node.operands[0]];
    const Value& right = values_[node.operands[1]];
    Shape left_shape = graph_[node.operands[0]].type.shape;
    Shape right_shape = graph_[node.operands[1]].type.shape;
    // A matrix for each block, a piece of the vector for each.
    size_t blocks = 1;
    for (Shape* shape : {&left_shape, &right_shape}) {
      if (shape->size() != 3) continue;
      blocks = size_of(shape->front());
      shape->erase(shape->begin());
    }
    const bool block_left = left_shape.size() == 2;
    const size_t m = block_left ? size_of(left_shape[0]) : 1;
    const size_t n = right_shape.size() == 2 ? size_of(right_shape[1]) : 1;
    const size_t k = block_left ? size_of(left_shape[1]) : left.width / blocks;
    for (size_t i = 0; i < blocks; ++i) {
      matmul(left.row(b) + i * m * k, right.row(b) + i * k * n, out.row(b) + i * m * n, m, k, n);
    }
  }

  static size_t size_of(const Dim& dim) { return static_cast<size_t>(*dim.constant()); }

  void reduce_row(const Node& node, size_t b, Value& out) const {
    const Value& operand = values_[node.operands[0]];
    const size_t length = size_of(graph_[node.operands[0]].type.shape.back());
    for (size_t i = 0; i < out.width; ++i) {
      out.row(b)[i] = reduce(node.op, operand.row(b) + i * length, length);
    }
  }

  void apply_row(const Node& node, size_t b, Value& out) const {
    const double zero = 0;
    const double* operands[3] = {&zero, &zero, &zero};
    size_t strides[3] = {0, 0, 0};  // 0: one element stands for all
    for (size_t i = 0; i < node.operands.size(); ++i) {
      operands[i] = values_[node.operands[i]].row(b);
      strides[i] = graph_[node.operands[i]].type.is_scalar() ? 0 : 1;
    }
    double* target = out.row(b);
    for (size_t i = 0; i < out.width; ++i) {
      target[i] = evaluate(node.op, operands[0][i * strides[0]], operands[1][i * strides[1]],
                           operands[2][i * strides[2]]);
    }
  }

  void load_step(const std::vector<double>& sequence, size_t t, Value& out) const {
    std::copy_n(sequence.data() + t * out.elements.size(), out.elements.size(),
                out.elements.data());
  }

  void store_step(const Value& value, size_t t, std::vector<double>& sequence) const {
    double* target = sequence.data() + t * batch_ * value.width;
    for (size_t b = 0; b < batch_; ++b) {
      std::copy_n(value.row(b), value.width, target + b * value.width);
    }
  }

  const Graph& graph_;
  const InterpreterArgs& args_;
  const size_t steps_;
  const size_t batch_;
  const std::vector<uint32_t> sweeps_;
  std::vector<Value> values_;                   // per node
  std::vector<std::vector<double>> kept_;       // per node: [T, B, ...], or empty
  std::vector<std::vector<double>> initial_;    // per state: [B, ...]
  std::vector<std::vector<double>> sequences_;  // per state: [T, B, ...], in its direction
  InterpreterResult result_;
};

}  // namespace

InterpreterResult interpret(const Graph& graph, const InterpreterArgs& args) {
  return Interpreter(graph, args).run();
}

}  // namespace rnnc
