/// Symbolic array dimensions: polynomials over named symbols, kept in a normal form so that equal
/// dimensions compare equal (`H + H` is `2 * H`).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/base/status.h"

namespace rnnc {

/// Values of dim symbols, by name.
using DimBindings = std::map<std::string, int64_t, std::less<>>;

/// One dimension, such as `H`, `2 * H`, `H / N` or `300`. An immutable value. Arithmetic is exact
/// over the rationals; whether `H / N` is whole is known only once its symbols are bound.
///
/// Arithmetic that leaves 64 bits (or the size limits in dim.cpp), and substitution that divides by
/// zero or by a sum, give a dim without a value: it stays so through further arithmetic, and
/// `evaluate` says why.
class Dim {
 public:
  Dim() = default;     // 0
  Dim(int64_t value);  // NOLINT(google-explicit-constructor): numbers are dims
  static Dim symbol(std::string name);
  /// Reads what `to_string` writes.
  static Result<Dim> parse(std::string_view text);

  /// The number, if no symbol is left and the value is whole.
  std::optional<int64_t> constant() const {
    return is_whole() ? std::optional(whole_) : std::nullopt;
  }
  /// The symbol's name, if this is one bare symbol.
  std::optional<std::string> bare_symbol() const;
  /// How many summands it has: what arithmetic with it costs.
  size_t term_count() const { return is_whole() ? size_t{whole_ != 0} : terms_.size(); }
  /// Names that occur, sorted, each once.
  std::vector<std::string> symbols() const;

  /// Replaces the bound symbols; the others stay.
  Dim substitute(const std::map<std::string, Dim, std::less<>>& values) const;
  Dim bind(const DimBindings& bindings) const;
  /// The number; an error that names the unbound symbol, a division that leaves a rest (with the
  /// values), a negative value, or one above 2^31 - 1.
  Result<int64_t> evaluate(const DimBindings& bindings) const;

  std::string to_string() const;

  friend Dim operator+(const Dim& left, const Dim& right);
  friend Dim operator-(const Dim& left, const Dim& right);
  friend Dim operator*(const Dim& left, const Dim& right);
  /// Nothing when `right` is zero or a sum of several terms.
  static std::optional<Dim> divide(const Dim& left, const Dim& right);
  friend bool operator==(const Dim& left, const Dim& right) = default;

 private:
  /// coefficient = numerator / denominator (lowest terms, denominator > 0); powers never zero.
  struct Term {
    std::map<std::string, int, std::less<>> powers;
    int64_t numerator = 0;
    int64_t denominator = 1;
    friend bool operator==(const Term&, const Term&) = default;
  };
  /// Why a dim has no value.
  enum class Fault : uint8_t { None, TooLarge, DivisionByZero, DivisionBySum };

  // Most dims are whole numbers, which need no memory of their own.
  int64_t whole_ = 0;        // the value, if there are no terms
  std::vector<Term> terms_;  // sorted by powers, no zero coefficients; none of a whole number
  Fault fault_ = Fault::None;

  bool is_whole() const { return terms_.empty() && fault_ == Fault::None; }
  std::vector<Term> all_terms() const;
  static Dim faulty(Fault fault);
  static Dim normalised(std::vector<Term> terms);
  static std::optional<Term> multiply(const Term& left, const Term& right);
  static Dim power(const Dim& base, int exponent);
  static std::string to_string(const Term& term, bool with_sign);
};

/// Rank 0 to 4, row-major; rank 0 is a scalar.
using Shape = std::vector<Dim>;

/// "[2 * H, I]", "[]".
std::string to_string(const Shape& shape);

/// Number of elements of a shape without symbols (RNNC_CHECK), at most 2^62.
int64_t element_count(const Shape& shape);

}  // namespace rnnc
