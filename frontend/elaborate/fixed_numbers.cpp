// Dims that count as their numbers. All are symbols at first. A loop or an array takes the number
// of its dims at once; a check of shapes that fails with symbols takes those of all fixed dims in
// it, and holds if they make it so. From then on such a dim is its number in every type, so that
// what fits once fits for good.

#include "frontend/elaborate/elaborator.h"

namespace rnnc {
namespace {

constexpr int64_t kAssumedDim = 2;

}  // namespace

std::optional<int64_t> Elaborator::number_of(const std::string& symbol) const {
  for (const DimBindings* numbers : {&given_, &defaults_}) {
    if (const auto found = numbers->find(symbol); found != numbers->end()) return found->second;
  }
  return assume_dims_ ? std::optional(kAssumedDim) : std::nullopt;
}

DimBindings Elaborator::numbers_of_fixed(const Dim& dim) const {
  DimBindings numbers;
  for (const std::string& symbol : dim.symbols()) {
    const auto number = fixed_dims_.contains(symbol) ? number_of(symbol) : std::nullopt;
    if (number) numbers[symbol] = *number;
  }
  return numbers;
}

Elaborator::Fit Elaborator::fit(const std::vector<Equation>& equations) {
  Fit result = equations.empty() ? Fit::Bad : Fit::Good;
  DimBindings numbers;
  bool assumed = assumed_;
  for (const Equation& equation : equations) {
    const Dim difference = equation.left - equation.right;
    if (difference == Dim(0)) continue;
    const DimBindings values = numbers_of_fixed(difference);
    numbers.insert(values.begin(), values.end());
    for (const auto& [symbol, number] : values) assumed |= is_assumed(symbol);
    const Dim rest = difference.bind(values);
    if (rest == Dim(0)) continue;
    if (!assumed || !rest.symbols().empty()) return Fit::Bad;
    result = Fit::Unknown;
  }
  if (result == Fit::Good) fix(numbers);
  return result;
}

void Elaborator::fix(const DimBindings& numbers) {
  bool fresh = false;
  for (const auto& [symbol, number] : numbers) {
    fresh |= fixed_.emplace(symbol, number).second;
    assumed_ |= is_assumed(symbol);
    consumed_[symbol] = number;
  }
  if (!fresh) return;
  std::vector<DimDecl> dims = graph_.dims;
  graph_.bind(numbers);
  graph_.dims = std::move(dims);
}

std::optional<int64_t> Elaborator::fixed_integer(const ast::Expr& expr, std::string_view noun) {
  const auto symbolic = dim(expr, noun);
  const auto number = symbolic ? integer(*symbolic, expr.location, noun) : std::nullopt;
  if (!number) return std::nullopt;
  DimBindings numbers;
  for (const std::string& symbol : symbolic->symbols()) numbers[symbol] = *number_of(symbol);
  fix(numbers);
  return number;
}

/// What decided how the graph is built stays a dim of it, with that value alone, and is that number
/// in every type.
void Elaborator::settle_consumed_dims() {
  std::vector<DimDecl> dims = graph_.dims;
  graph_.bind(consumed_);
  for (DimDecl& dim : dims) {
    const auto value = consumed_.find(dim.name);
    if (value == consumed_.end()) continue;
    dim.default_value = value->second;
    dim.fixed = true;
  }
  graph_.dims = std::move(dims);
}

}  // namespace rnnc
