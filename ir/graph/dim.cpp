#include "ir/graph/dim.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <limits>
#include <numeric>
#include <tuple>

#include "ir/base/name.h"

namespace rnnc {
namespace {

constexpr int64_t kLargestDim = std::numeric_limits<int32_t>::max();
constexpr int64_t kManyElements = int64_t{1} << 62;
// Bounds on one polynomial. No real cell comes near; a hostile file must not exhaust memory.
constexpr size_t kMostTerms = 64;
constexpr size_t kMostSymbols = 64;
constexpr int kGreatestPower = 64;

/// In lowest terms, denominator > 0; the numerator is never INT64_MIN, so negation is safe.
struct Rational {
  int64_t numerator = 0;
  int64_t denominator = 1;
};

std::optional<int64_t> checked_add(int64_t left, int64_t right) {
  int64_t result = 0;
  if (__builtin_add_overflow(left, right, &result)) return std::nullopt;
  if (result == std::numeric_limits<int64_t>::min()) return std::nullopt;
  return result;
}

std::optional<int64_t> checked_multiply(int64_t left, int64_t right) {
  int64_t result = 0;
  if (__builtin_mul_overflow(left, right, &result)) return std::nullopt;
  if (result == std::numeric_limits<int64_t>::min()) return std::nullopt;
  return result;
}

std::optional<Rational> multiply(Rational left, Rational right) {
  // Cancelling crosswise first keeps the products as small as the result.
  const int64_t first = std::gcd(left.numerator, right.denominator);
  const int64_t second = std::gcd(right.numerator, left.denominator);
  const auto numerator = checked_multiply(left.numerator / first, right.numerator / second);
  const auto denominator = checked_multiply(left.denominator / second, right.denominator / first);
  if (!numerator || !denominator) return std::nullopt;
  return Rational{*numerator, *denominator};
}

std::optional<Rational> add(Rational left, Rational right) {
  const int64_t common = std::gcd(left.denominator, right.denominator);
  const auto first = checked_multiply(left.numerator, right.denominator / common);
  const auto second = checked_multiply(right.numerator, left.denominator / common);
  const auto denominator = checked_multiply(left.denominator / common, right.denominator);
  if (!first || !second || !denominator) return std::nullopt;
  const auto numerator = checked_add(*first, *second);
  if (!numerator) return std::nullopt;
  const int64_t divisor = std::gcd(*numerator, *denominator);
  return Rational{*numerator / divisor, *denominator / divisor};
}

/// Recursive descent over a dim's text. The first error stops it.
class DimParser {
 public:
  explicit DimParser(std::string_view text) : text_(text), rest_(text) {}

  // dim := ['-'] product (('+' | '-') product)*
  Result<Dim> parse() {
    Dim sum = 0;
    bool negative = take('-');
    while (true) {
      const Result<Dim> term = product();
      if (!term) return term;
      sum = negative ? sum - *term : sum + *term;
      if (take('+')) {
        negative = false;
      } else if (take('-')) {
        negative = true;
      } else {
        break;
      }
    }
    if (!rest_.empty()) return fail("expected `+`, `-`, `*` or `/` at `{}`", rest_);
    return sum;
  }

 private:
  // product := atom (('*' | '/') atom)*
  Result<Dim> product() {
    Result<Dim> result = atom();
    while (result) {
      const bool divides = take('/');
      if (!divides && !take('*')) break;
      Result<Dim> factor = atom();
      if (!factor) return factor;
      if (!divides) {
        result = *result * *factor;
      } else if (const auto quotient = Dim::divide(*result, *factor)) {
        result = *quotient;
      } else {
        return fail("division by zero in `{}`", text_);
      }
    }
    return result;
  }

  // atom := NAME | NUMBER
  Result<Dim> atom() {
    skip_spaces();
    if (rest_.empty()) return fail("expected a dim's name or a number at the end of `{}`", text_);
    if (starts_name(rest_.front())) {
      const auto end = std::ranges::find_if_not(rest_, continues_name);
      const auto size = static_cast<size_t>(end - rest_.begin());
      std::string name(rest_.substr(0, size));
      rest_.remove_prefix(size);
      return Dim::symbol(std::move(name));
    }
    if (!is_digit(rest_.front())) return fail("expected a dim's name or a number at `{}`", rest_);
    int64_t value = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (error != std::errc()) return fail("the number at `{}` is too large", rest_);
    rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
    return Dim(value);
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

  std::string_view text_;
  std::string_view rest_;
};

}  // namespace

Dim::Dim(int64_t value) {
  if (value == std::numeric_limits<int64_t>::min()) {
    fault_ = Fault::TooLarge;
  } else {
    whole_ = value;
  }
}

/// Those of a whole number too: one, or none of zero.
std::vector<Dim::Term> Dim::all_terms() const {
  if (whole_ == 0) return terms_;
  return {{{}, whole_, 1}};
}

Dim Dim::symbol(std::string name) {
  Dim dim;
  dim.terms_.push_back({{{std::move(name), 1}}, 1, 1});
  return dim;
}

Dim Dim::faulty(Fault fault) {
  Dim dim;
  dim.fault_ = fault;
  return dim;
}

Result<Dim> Dim::parse(std::string_view text) {
  Result<Dim> dim = DimParser(text).parse();
  if (dim && dim->fault_ != Fault::None) return fail("the dim `{}` is too large", text);
  return dim;
}

std::optional<std::string> Dim::bare_symbol() const {
  if (terms_.size() != 1 || fault_ != Fault::None) return std::nullopt;
  const Term& term = terms_.front();
  if (term.numerator != 1 || term.denominator != 1 || term.powers.size() != 1) return std::nullopt;
  const auto& [name, power] = *term.powers.begin();
  return power == 1 ? std::optional(name) : std::nullopt;
}

std::vector<std::string> Dim::symbols() const {
  std::vector<std::string> names;
  for (const Term& term : terms_) {
    for (const auto& [name, power] : term.powers) names.push_back(name);
  }
  std::ranges::sort(names);
  const auto repeated = std::ranges::unique(names);
  names.erase(repeated.begin(), repeated.end());
  return names;
}

Dim Dim::power(const Dim& base, int exponent) {
  Dim result = 1;
  for (int i = 0; i < std::abs(exponent); ++i) result = result * base;
  if (exponent >= 0) return result;
  if (result.fault_ != Fault::None) return result;
  if (const auto inverse = divide(1, result)) return *inverse;
  return faulty(result == Dim() ? Fault::DivisionByZero : Fault::DivisionBySum);
}

Dim Dim::substitute(const std::map<std::string, Dim, std::less<>>& values) const {
  if (fault_ != Fault::None || is_whole()) return *this;
  Dim sum;
  for (const Term& term : terms_) {
    Dim product = normalised({{{}, term.numerator, term.denominator}});
    for (const auto& [name, exponent] : term.powers) {
      const auto found = values.find(name);
      product = product * power(found == values.end() ? symbol(name) : found->second, exponent);
    }
    sum = sum + product;
  }
  return sum;
}

Dim Dim::bind(const DimBindings& bindings) const {
  return substitute({bindings.begin(), bindings.end()});
}

Result<int64_t> Dim::evaluate(const DimBindings& bindings) const {
  std::string values;
  for (const std::string& name : symbols()) {
    const auto found = bindings.find(name);
    if (found == bindings.end()) return fail("dim `{}` has no value", name);
    values += fmt::format("{} {} = {}", values.empty() ? " with" : ",", name, found->second);
  }
  const Dim bound = bind(bindings);
  const std::string what = fault_ == Fault::None ? "`" + to_string() + "`" : "a dim";
  switch (bound.fault_) {
    case Fault::None:
      break;
    case Fault::TooLarge:
      return fail("{} is too large{}", what, values);
    case Fault::DivisionByZero:
      return fail("{} divides by zero{}", what, values);
    case Fault::DivisionBySum:
      return fail("{} divides by a sum of dims", what);
  }
  if (!bound.is_whole()) {
    const Term& value = bound.terms_.front();
    return fail("{} is not a whole number{}: {} / {} leaves {}", what, values, value.numerator,
                value.denominator, value.numerator % value.denominator);
  }
  const int64_t value = bound.whole_;
  if (value < 0) return fail("{} is negative{}: {}", what, values, value);
  if (value > kLargestDim) {
    return fail("{} is too large{}: {} is above {}", what, values, value, kLargestDim);
  }
  return value;
}

// "3 * H / 2 / N": factors above the line, then those below.
std::string Dim::to_string(const Term& term, bool with_sign) {
  const int64_t magnitude = term.numerator < 0 ? -term.numerator : term.numerator;
  std::string above;
  std::string below;
  if (term.denominator != 1) below = fmt::format(" / {}", term.denominator);
  if (magnitude != 1) above = std::to_string(magnitude);
  for (const auto& [name, exponent] : term.powers) {
    for (int i = 0; i < exponent; ++i) above += (above.empty() ? "" : " * ") + name;
    for (int i = exponent; i < 0; ++i) below += " / " + name;
  }
  if (above.empty()) above = "1";
  return (with_sign && term.numerator < 0 ? "-" : "") + above + below;
}

std::string Dim::to_string() const {
  switch (fault_) {
    case Fault::None:
      break;
    case Fault::TooLarge:
      return "(too large)";
    case Fault::DivisionByZero:
      return "(divided by zero)";
    case Fault::DivisionBySum:
      return "(divided by a sum)";
  }
  if (is_whole()) return std::to_string(whole_);
  // As people write it: `H + 1`, `2 - H`. What is added comes first, a bare number after names.
  std::vector<const Term*> order;
  for (const Term& term : terms_) order.push_back(&term);
  std::ranges::sort(order, {}, [](const Term* term) {
    return std::tuple(term->numerator < 0, term->powers.empty(), term);
  });
  std::string text = to_string(*order.front(), true);
  for (size_t i = 1; i < order.size(); ++i) {
    text += (order[i]->numerator < 0 ? " - " : " + ") + to_string(*order[i], false);
  }
  return text;
}

Dim Dim::normalised(std::vector<Term> terms) {
  std::ranges::sort(terms, {}, &Term::powers);
  Dim result;
  for (Term& term : terms) {
    if (!result.terms_.empty() && result.terms_.back().powers == term.powers) {
      Term& last = result.terms_.back();
      const auto sum = add({last.numerator, last.denominator}, {term.numerator, term.denominator});
      if (!sum) return faulty(Fault::TooLarge);
      last.numerator = sum->numerator;
      last.denominator = sum->denominator;
    } else {
      result.terms_.push_back(std::move(term));
    }
  }
  std::erase_if(result.terms_, [](const Term& term) { return term.numerator == 0; });
  if (result.terms_.size() > kMostTerms) return faulty(Fault::TooLarge);
  if (result.terms_.size() != 1) return result;
  const Term& only = result.terms_.front();
  if (only.powers.empty() && only.denominator == 1) return only.numerator;
  return result;
}

std::optional<Dim::Term> Dim::multiply(const Term& left, const Term& right) {
  const auto coefficient = rnnc::multiply(Rational{left.numerator, left.denominator},
                                          Rational{right.numerator, right.denominator});
  if (!coefficient) return std::nullopt;
  Term product{left.powers, coefficient->numerator, coefficient->denominator};
  for (const auto& [name, exponent] : right.powers) {
    int& sum = product.powers[name];
    sum += exponent;
    if (std::abs(sum) > kGreatestPower) return std::nullopt;
    if (sum == 0) product.powers.erase(name);
  }
  if (product.powers.size() > kMostSymbols) return std::nullopt;
  return product;
}

Dim operator+(const Dim& left, const Dim& right) {
  if (left.fault_ != Dim::Fault::None) return left;
  if (right.fault_ != Dim::Fault::None) return right;
  if (left.is_whole() && right.is_whole()) {
    const std::optional<int64_t> sum = checked_add(left.whole_, right.whole_);
    return sum ? Dim(*sum) : Dim::faulty(Dim::Fault::TooLarge);
  }
  std::vector<Dim::Term> terms = left.all_terms();
  std::ranges::copy(right.all_terms(), std::back_inserter(terms));
  return Dim::normalised(std::move(terms));
}

Dim operator-(const Dim& left, const Dim& right) {
  return left + Dim(-1) * right;
}

Dim operator*(const Dim& left, const Dim& right) {
  if (left.fault_ != Dim::Fault::None) return left;
  if (right.fault_ != Dim::Fault::None) return right;
  if (left.is_whole() && right.is_whole()) {
    const std::optional<int64_t> product = checked_multiply(left.whole_, right.whole_);
    return product ? Dim(*product) : Dim::faulty(Dim::Fault::TooLarge);
  }
  const std::vector<Dim::Term> of_right = right.all_terms();
  std::vector<Dim::Term> terms;
  for (const Dim::Term& a : left.all_terms()) {
    for (const Dim::Term& b : of_right) {
      auto product = Dim::multiply(a, b);
      if (!product) return Dim::faulty(Dim::Fault::TooLarge);
      terms.push_back(std::move(*product));
    }
  }
  return Dim::normalised(std::move(terms));
}

std::optional<Dim> Dim::divide(const Dim& left, const Dim& right) {
  if (right.fault_ != Fault::None) return right;
  if (right.term_count() != 1) return std::nullopt;
  const Term divisor = right.all_terms().front();
  Term inverse{{}, divisor.denominator, divisor.numerator};
  if (inverse.denominator < 0) {
    inverse.numerator = -inverse.numerator;
    inverse.denominator = -inverse.denominator;
  }
  for (const auto& [name, exponent] : divisor.powers) inverse.powers[name] = -exponent;
  return left * normalised({std::move(inverse)});
}

std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (const Dim& dim : shape) text += (text.size() > 1 ? ", " : "") + dim.to_string();
  return text + "]";
}

int64_t element_count(const Shape& shape) {
  int64_t count = 1;
  for (const Dim& dim : shape) {
    const auto size = dim.constant();
    RNNC_CHECK(size && *size >= 0, "shape {} is not bound", to_string(shape));
    if (__builtin_mul_overflow(count, *size, &count)) count = kManyElements;
    count = std::min(count, kManyElements);
  }
  return count;
}

}  // namespace rnnc
