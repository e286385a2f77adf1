#include "ir/graph/formula.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "ir/base/name.h"

namespace rnnc {
namespace {

constexpr std::string_view kVariables = "abcy";
constexpr uint32_t kResult = 3;
constexpr int kDeepest = 100;  // nested brackets and signs; the stack must hold them

/// Recursive descent; each function appends its nodes and returns the index of the last.
class FormulaParser {
 public:
  explicit FormulaParser(std::string_view text) : rest_(text) {}

  Result<Formula> parse() {
    const Result<uint32_t> root = sum();
    if (!root) return tl::unexpected(root.error());
    skip_spaces();
    if (!rest_.empty()) return fail("unexpected `{}`", rest_);
    return std::move(formula_);
  }

 private:
  // sum := product (('+' | '-') product)*
  Result<uint32_t> sum() { return chain('+', Op::Add, '-', Op::Sub, &FormulaParser::product); }

  // product := factor (('*' | '/') factor)*
  Result<uint32_t> product() { return chain('*', Op::Mul, '/', Op::Div, &FormulaParser::factor); }

  Result<uint32_t> chain(char first, Op first_op, char second, Op second_op,
                         Result<uint32_t> (FormulaParser::*operand)()) {
    Result<uint32_t> left = (this->*operand)();
    while (left) {
      const bool is_first = take(first);
      if (!is_first && !take(second)) break;
      const Result<uint32_t> right = (this->*operand)();
      if (!right) return right;
      left = append(is_first ? first_op : second_op, {*left, *right});
    }
    return left;
  }

  // factor := '-' factor | '(' sum ')' | NUMBER | NAME ['(' sum (',' sum)* ')']
  Result<uint32_t> factor() {
    if (++depth_ > kDeepest) return fail("nested too deep");
    Result<uint32_t> result = inner_factor();
    --depth_;
    return result;
  }

  Result<uint32_t> inner_factor() {
    if (take('-')) {
      const Result<uint32_t> operand = factor();
      return operand ? append(Op::Neg, {*operand}) : operand;
    }
    if (take('(')) {
      Result<uint32_t> inner = sum();
      if (inner && !take(')')) return fail("expected `)` before `{}`", rest_);
      return inner;
    }
    if (!rest_.empty() && starts_name(rest_.front())) return name();
    return number();
  }

  Result<uint32_t> number() {
    Formula::Node node;
    const char* begin = rest_.data();
    const auto [end, error] = std::from_chars(begin, begin + rest_.size(), node.number);
    if (error != std::errc()) return fail("expected a value at `{}`", rest_);
    rest_.remove_prefix(static_cast<size_t>(end - begin));
    return append(std::move(node));
  }

  Result<uint32_t> name() {
    const auto end = std::ranges::find_if_not(rest_, continues_name);
    const std::string_view word = rest_.substr(0, static_cast<size_t>(end - rest_.begin()));
    rest_.remove_prefix(word.size());
    if (word.size() == 1 && kVariables.find(word) != std::string_view::npos) {
      Formula::Node node;
      node.kind = Formula::Kind::Variable;
      node.variable = static_cast<uint32_t>(kVariables.find(word));
      return append(std::move(node));
    }
    const std::optional<Op> op = parse_op(word);
    if (!op || !is_scalar(*op)) return fail("there is no function `{}`", word);
    return call(*op);
  }

  Result<uint32_t> call(Op op) {
    if (!take('(')) return fail("expected `(` after `{}`", info(op).name);
    std::vector<uint32_t> operands;
    do {
      const Result<uint32_t> operand = sum();
      if (!operand) return operand;
      operands.push_back(*operand);
    } while (take(','));
    if (!take(')')) return fail("expected `)` before `{}`", rest_);
    if (operands.size() != static_cast<size_t>(info(op).arity)) {
      return fail("`{}` takes {} operands, has {}", info(op).name, info(op).arity, operands.size());
    }
    return append(op, std::move(operands));
  }

  uint32_t append(Op op, std::vector<uint32_t> operands) {
    Formula::Node node;
    node.kind = Formula::Kind::Apply;
    node.op = op;
    node.operands = std::move(operands);
    return append(std::move(node));
  }

  uint32_t append(Formula::Node node) {
    formula_.nodes.push_back(std::move(node));
    return static_cast<uint32_t>(formula_.nodes.size() - 1);
  }

  bool take(char expected) {
    skip_spaces();
    if (rest_.empty() || rest_.front() != expected) return false;
    rest_.remove_prefix(1);
    return true;
  }

  void skip_spaces() {
    while (!rest_.empty() && rest_.front() == ' ') rest_.remove_prefix(1);
  }

  std::string_view rest_;
  int depth_ = 0;
  Formula formula_;
};

using DerivativeTable = std::vector<std::array<Formula, 3>>;  // by op, then operand

DerivativeTable parse_table() {
  DerivativeTable table(all_ops().size());
  for (const OpInfo& row : all_ops()) {
    for (size_t operand = 0; row.scalar && operand < static_cast<size_t>(row.arity); ++operand) {
      Result<Formula> formula = parse_formula(row.derivative[operand]);
      RNNC_CHECK(formula, "derivative {} of `{}`: {}", operand, row.name, formula.error().message);
      table[static_cast<size_t>(row.op)][operand] = std::move(*formula);
    }
  }
  return table;
}

}  // namespace

Result<Formula> parse_formula(std::string_view text) {
  return FormulaParser(text).parse();
}

const Formula& derivative(Op op, size_t operand) {
  static const DerivativeTable table = parse_table();
  RNNC_CHECK(is_scalar(op) && operand < static_cast<size_t>(info(op).arity),
             "`{}` has no derivative by operand {}", info(op).name, operand);
  return table[static_cast<size_t>(op)][operand];
}

double evaluate(const Formula& formula, double a, double b, double c, double y) {
  const std::array<double, 4> variables = {a, b, c, y};
  std::vector<double> values;
  for (const Formula::Node& node : formula.nodes) {
    std::array<double, 3> operands = {};
    for (size_t i = 0; i < node.operands.size(); ++i) operands[i] = values[node.operands[i]];
    switch (node.kind) {
      case Formula::Kind::Number:
        values.push_back(node.number);
        break;
      case Formula::Kind::Variable:
        values.push_back(variables[node.variable]);
        break;
      case Formula::Kind::Apply:
        values.push_back(evaluate(node.op, operands[0], operands[1], operands[2]));
        break;
    }
  }
  return values.back();
}

NodeId build(Graph& graph, const Formula& formula, std::span<const NodeId> operands, NodeId result,
             SourceLocation location) {
  std::vector<NodeId> ids;  // per node of the formula
  for (const Formula::Node& node : formula.nodes) {
    switch (node.kind) {
      case Formula::Kind::Number:
        ids.push_back(graph.constant(node.number, location));
        break;
      case Formula::Kind::Variable:
        RNNC_CHECK(node.variable == kResult || node.variable < operands.size());
        ids.push_back(node.variable == kResult ? result : operands[node.variable]);
        break;
      case Formula::Kind::Apply: {
        std::vector<NodeId> inner;
        for (const uint32_t operand : node.operands) inner.push_back(ids[operand]);
        ids.push_back(graph.apply(node.op, std::move(inner), location));
        break;
      }
    }
  }
  return ids.back();
}

}  // namespace rnnc
