// Dims: polynomials over the definition's symbols, and their numbers where loops need them.

#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "frontend/elaborate/elaborator.h"

namespace rnnc {

using ast::BinaryOp;
using ast::Expr;

namespace {

constexpr size_t kMaxRank = 3;
constexpr size_t kFreeTerms = 4;
constexpr int kDeepestPosition = 4;  // of an expression; its terms, too, are few
constexpr size_t kMostPositionTerms = 4;
constexpr const char* kOtherValues = "give its dims other values, or write it otherwise";
constexpr double kLargestDim = 2147483647;
constexpr int64_t kLargestExponent = 30;  // that a power of 2 takes
constexpr const char* kMadeOf =
    "dims are made of dims and whole numbers with `+`, `-`, `*`, `/` and `pow`";

/// Whether locals may say it: shapes, bounds and lengths are said by dims alone.
bool is_position(std::string_view noun) {
  return noun == "an index" || noun == "a slice's end";
}

/// Nothing for what dims do not have, and for a quotient by zero or a sum.
std::optional<Dim> combined(BinaryOp op, const Dim& left, const Dim& right) {
  switch (op) {
    case BinaryOp::Add:
      return left + right;
    case BinaryOp::Sub:
      return left - right;
    case BinaryOp::Mul:
      return left * right;
    case BinaryOp::Div:
      return Dim::divide(left, right);
    default:
      return std::nullopt;
  }
}

}  // namespace

std::optional<Dim> Elaborator::dim(const Expr& expr, std::string_view noun) {
  std::optional<Dim> result;
  if (!context_.enter(expr.location)) {
    failed_ = true;
  } else if (expr.kind == Expr::Kind::Number) {
    result = dim_of_number(expr, noun);
  } else if (expr.kind == Expr::Kind::Name) {
    result = dim_of_name(expr, noun);
  } else if (expr.kind == Expr::Kind::Negate) {
    if (const auto operand = dim(*expr.children[0], noun)) result = Dim(0) - *operand;
  } else if (expr.kind == Expr::Kind::Binary) {
    result = dim_of_binary(expr, noun);
  } else if (expr.kind == Expr::Kind::Call && expr.text == "pow" && expr.children.size() == 2) {
    result = dim_of_power(expr, noun);
  } else {
    const bool read = expr.kind == Expr::Kind::Index && is_time_step(*expr.children[1]);
    error(
        expr.location, fmt::format("{} is not {}", quote(expr), noun),
        read ? "it is not known when the cell is compiled; what names a row of a param is an input "
               "of integers: `k: int []`"
             : kMadeOf);
  }
  context_.leave();
  if (result && !spend_terms(expr.location, {*result})) return std::nullopt;
  return result;
}

/// Takes what arithmetic with long sums costs off the budget; those of real cells cost nothing.
bool Elaborator::spend_terms(SourceLocation location, const Shape& shape) {
  size_t terms = 0;
  for (const Dim& dim : shape) terms += dim.term_count();
  return terms < kFreeTerms || spend(location, static_cast<int64_t>(terms / kFreeTerms));
}

std::optional<Dim> Elaborator::dim_of_number(const Expr& expr, std::string_view noun) {
  int64_t value = 0;
  const char* end = expr.text.data() + expr.text.size();
  const auto [rest, status] = std::from_chars(expr.text.data(), end, value);
  if (rest != end) {
    error(expr.location, fmt::format("{} is a whole number, not {}", noun, quote(expr)),
          "write it without a fraction");
    return std::nullopt;
  }
  if (status != std::errc() || static_cast<double>(value) > kLargestDim) {
    error(expr.location, fmt::format("{} is too large for {}", quote(expr), noun),
          "2147483647 is the largest");
    return std::nullopt;
  }
  return Dim(value);
}

std::optional<Dim> Elaborator::dim_of_name(const Expr& expr, std::string_view noun) {
  using Kind = Binding::Kind;
  if (Binding* binding = frame_->find(expr.text)) {
    binding->used = true;
    if (binding->kind == Kind::Dim || binding->kind == Kind::LoopIndex) {
      return binding->dim.bind(fixed_);
    }
    if (binding->position && is_position(noun)) return binding->position->bind(fixed_);
    // In a fn that is checked by itself nobody knows what its arguments are.
    const bool unknown = binding->kind == Kind::Local && binding->value.is_poison();
    if (binding->kind != Kind::Poison && !unknown) {
      error(expr.location,
            fmt::format("`{}` is {}, not {}", expr.text, describe(binding->kind), noun),
            "sizes and positions are made of dims, loop indices and whole numbers");
    }
    return std::nullopt;
  }
  if (const ast::Constant* constant = context_.constant(expr.text)) {
    if (!check_callee(*constant, expr)) return std::nullopt;
    const double value = context_.constant_values()[constant];
    if (std::floor(value) == value && std::fabs(value) <= kLargestDim) {
      return Dim(static_cast<int64_t>(value));
    }
    error(expr.location,
          fmt::format("{} is a whole number, but `{}` is {}", noun, expr.text, value),
          "write it without a fraction");
    return std::nullopt;
  }
  std::vector<std::string> dims;
  for (const auto& [name, binding] : frame_->names) {
    if (binding.kind == Kind::Dim || binding.kind == Kind::LoopIndex) dims.push_back(name);
  }
  std::string hint;
  if (frame_->kind == Frame::Kind::Function) {
    hint = "a fn sees its arguments and consts alone: pass it the dim";
  } else if (frame_->definition) {
    const ast::Definition& definition = *frame_->definition;
    std::string list;
    for (const ast::DimParameter& dim : definition.dims) list += dim.name.text + ", ";
    hint = fmt::format("dims are declared after the name: `{} {}[{}{}](…)`", definition.kind(),
                       definition.name.text, list, expr.text);
  }
  if (frame_->definition && frame_->definition->has_dim(expr.text)) {
    error(expr.location, fmt::format("the dim `{}` has no value here", expr.text),
          "the default of a dim is a whole number");
    return std::nullopt;
  }
  const bool time = expr.text == "t";
  error(expr.location,
        time ? fmt::format("`t` is the time step, not {}", noun)
             : fmt::format("unknown dim `{}`", expr.text),
        time ? Hint("steps stand behind states and inputs alone: `h[t-1]`")
             : did_you_mean(expr.location, expr.text, dims, hint));
  frame_->names[expr.text] = {};
  return std::nullopt;
}

std::optional<Dim> Elaborator::dim_of_binary(const Expr& expr, std::string_view noun) {
  const auto left = dim(*expr.children[0], noun);
  const auto right = dim(*expr.children[1], noun);
  if (!left || !right) return std::nullopt;
  auto result = combined(expr.op, *left, *right);
  if (result) return result;
  if (expr.op != BinaryOp::Div) {
    error(expr.location, fmt::format("dims have no `{}`", spelling(expr.op)), kMadeOf);
  } else {
    const bool zero = right->constant() == 0;
    error(expr.location,
          zero ? fmt::format("{} divides by zero", quote(expr))
               : fmt::format("{} divides by a sum, which dims cannot", quote(expr)),
          "divide by a dim or a number, or declare a dim for the quotient");
  }
  return std::nullopt;
}

/// `pow(2, l)`, of an exponent that is known.
std::optional<Dim> Elaborator::dim_of_power(const Expr& expr, std::string_view noun) {
  if (!accepts_layer_syntax(expr, "a function")) return std::nullopt;
  const auto base = dim(*expr.children[0], noun);
  const auto exponent = integer(*expr.children[1], "an exponent");
  if (!base || !exponent) return std::nullopt;
  if (*exponent < 0) {
    error(expr.location, fmt::format("{} is a whole number, not {}", noun, quote(expr)),
          "an exponent is 0 or more");
    return std::nullopt;
  }
  Dim result = 1;
  for (int64_t i = 0; i < *exponent; ++i) {
    result = result * *base;
    const double size = std::fabs(static_cast<double>(result.constant().value_or(0)));
    if (i <= kLargestExponent && size <= kLargestDim) continue;
    error(expr.location, fmt::format("{} is too large for {}", quote(expr), noun),
          "2147483647 is the largest");
    return std::nullopt;
  }
  return result;
}

std::optional<Dim> Elaborator::possible_dim(const Expr& expr) {
  const auto is_whole = [](double number) {
    return std::floor(number) == number && std::fabs(number) <= kLargestDim;
  };
  if (expr.kind == Expr::Kind::Number) {
    const bool digits = expr.text.find_first_not_of("0123456789") == std::string::npos;
    return digits && is_whole(expr.number) ? dim_of_number(expr, "a dim") : std::nullopt;
  }
  if (expr.kind == Expr::Kind::Name) {
    const Binding* binding = frame_->find(expr.text);
    const ast::Constant* constant = binding ? nullptr : context_.constant(expr.text);
    if (binding && binding->position) return binding->position->bind(fixed_);
    const bool known =
        binding ? binding->kind == Binding::Kind::Dim || binding->kind == Binding::Kind::LoopIndex
                : constant && check_callee(*constant, expr) &&
                      is_whole(context_.constant_values()[constant]);
    return known ? dim_of_name(expr, "a dim") : std::nullopt;
  }
  if (expr.kind == Expr::Kind::Negate) {
    const auto operand = possible_dim(*expr.children[0]);
    return operand ? std::optional(Dim(0) - *operand) : std::nullopt;
  }
  if (expr.kind != Expr::Kind::Binary) return std::nullopt;
  const auto left = possible_dim(*expr.children[0]);
  const auto right = possible_dim(*expr.children[1]);
  return left && right ? combined(expr.op, *left, *right) : std::nullopt;
}

std::optional<Dim> Elaborator::position_of_local(const Expr& expr) {
  const bool arithmetic = expr.kind == Expr::Kind::Binary || expr.kind == Expr::Kind::Negate ||
                          expr.kind == Expr::Kind::Name || expr.kind == Expr::Kind::Number;
  if (!arithmetic || expr.depth > kDeepestPosition) return std::nullopt;
  const std::optional<Dim> dim = possible_dim(expr);
  return dim && dim->term_count() <= kMostPositionTerms ? dim : std::nullopt;
}

std::optional<Shape> Elaborator::shape(const std::vector<ast::ExprPtr>& dims) {
  if (dims.size() > kMaxRank) {
    error({dims[0]->location.file, dims[0]->location.begin, dims.back()->location.end},
          fmt::format("a shape has at most {} dims, this one has {}", kMaxRank, dims.size()),
          "values are scalars, vectors and matrices; arrays of them are `param R[L]: [H, H]`");
    return std::nullopt;
  }
  std::optional<Shape> result = Shape();
  for (const ast::ExprPtr& expr : dims) {
    const auto value = dim(*expr);
    if (value && check_extent(*value, expr->location) && result) {
      result->push_back(*value);
    } else {
      result.reset();
    }
  }
  return result;
}

bool Elaborator::check_extent(const Dim& dim, SourceLocation location) {
  if (assumed_) return true;  // other numbers than the assumed ones may make it whole
  if (const auto number = dim.constant(); number && *number < 1) {
    error(location, fmt::format("a dim is at least 1, not {}", context_.quote(location)),
          "`[]` is the shape of a scalar");
    return false;
  }
  if (!check_whole(dim, location)) return false;
  if (dim.bind(known_dims()).constant() != 0) return true;
  error(location,
        fmt::format("`{}` is 0{}, but dims start at 1", dim.to_string(), values_in({Type{{dim}}})),
        kOtherValues);
  return false;
}

/// False, after an error, if the dim is fractional or out of bounds, as far as that is known.
bool Elaborator::check_whole(const Dim& dim, SourceLocation location) {
  const DimBindings known = known_dims();
  for (const std::string& symbol : dim.symbols()) {
    if (!known.contains(symbol)) return true;
  }
  const Result<int64_t> size = dim.evaluate(known);
  if (!size) error(location, size.error().message, kOtherValues);
  return size.has_value();
}

DimBindings Elaborator::known_dims() const {
  DimBindings known = given_;
  if (assume_dims_) known.insert(defaults_.begin(), defaults_.end());
  return known;
}

std::optional<int64_t> Elaborator::integer(const Expr& expr, std::string_view noun) {
  const auto value = dim(expr, noun);
  return value ? integer(*value, expr.location, noun) : std::nullopt;
}

std::optional<int64_t> Elaborator::integer(const Dim& dim, SourceLocation location,
                                           std::string_view noun) {
  DimBindings values;
  bool assumed = false;
  for (const std::string& symbol : dim.symbols()) {
    if (const auto number = number_of(symbol)) {
      values[symbol] = consumed_[symbol] = *number;
      assumed |= is_assumed(symbol);
    } else {
      error(location, fmt::format("`{}` has no value, and {} needs it", symbol, noun),
            fmt::format("give it one (`--dim {0}=2`) or a default (`{0} = 2`)", symbol));
      return std::nullopt;
    }
  }
  assumed_ |= assumed;
  const Result<int64_t> size = dim.evaluate(values);
  if (size) return *size;
  // Below zero is no size, but it is a number: the end of an empty range, say.
  if (const auto number = dim.bind(values).constant(); number && *number < 0) return number;
  if (assumed) return 2;  // what does not fit an assumption is no error
  error(location, size.error().message, kOtherValues);
  return std::nullopt;
}

}  // namespace rnnc
