/// What reads a plan's text: tokens, and references to what stands before them. The first failure
/// counts: after it nothing is taken any more, so that callers go on as if nothing were, and ask at
/// their end.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>

#include "ir/base/status.h"
#include "ir/base/text_scanner.h"
#include "ir/plan/plan_words.h"

namespace rnnc {

class PlanScanner : private TextScanner {
 public:
  /// `plan`: what is read so far, which references are to.
  PlanScanner(std::string_view text, const Plan& plan) : TextScanner(text), plan_(plan) {}

  const Plan& plan() const { return plan_; }
  bool failed() const { return error_.has_value(); }
  /// "line 3, column 7: …"
  std::string error() const { return *error_; }

  /// Says what is wrong with what comes next, or with what stands at `position`.
  void complain(const std::string& what);
  void complain_at(size_t position, const std::string& what);
  void expected(std::string_view what);
  /// Where the next token begins.
  size_t position();

  /// One or more words, or other characters, with any white space between them.
  bool take(std::string_view tokens);
  void expect(std::string_view tokens);
  bool at_end();

  /// A number that is not negative: `Number`'s largest is one too many, and so is 2^53.
  template <typename Number>
  Number number() {
    Number value = 0;
    if (failed()) return value;
    const size_t begin = position();
    const std::errc error = take_number(value);
    if (error == std::errc::result_out_of_range || (error == std::errc() && too_large(value))) {
      complain_at(begin, "expected a smaller number");
      return 0;
    }
    if (error != std::errc() || !(value >= 0)) {
      position_ = begin;
      expected("a number");
      return 0;
    }
    return value;
  }
  int64_t count() { return number<int64_t>(); }
  /// Any, also infinite, or none at all ("nan").
  double constant();
  /// The product of numbers, of at most 2^60: `what` is larger otherwise, which is a failure.
  int64_t product(std::initializer_list<int64_t> factors, std::string_view what);

  /// `b3`, with no space between; false if none comes next. Complains of numbers from `end` on.
  bool take_id(char letter, size_t end, uint32_t& id);
  bool sees(char character);
  bool sees_id(char letter);
  bool sees_number();
  uint32_t id(char letter, size_t end);
  BufferId buffer() { return id('b', plan_.buffers.size()); }

  std::string name(std::string_view delimiters);
  std::string quoted();

  template <typename T, size_t size>
  bool take_word_of(const Word<T> (&words)[size], T& value) {
    const Word<T>* longest = nullptr;
    const size_t begin = position_;
    size_t end = begin;
    for (const Word<T>& word : words) {
      position_ = begin;
      if (!take(word.text) || position_ <= end) continue;
      longest = &word;
      end = position_;
    }
    position_ = end;
    if (longest != nullptr) value = longest->value;
    return longest != nullptr;
  }
  template <typename T, size_t size>
  T word_of(const Word<T> (&words)[size], std::string_view what) {
    T value = words[0].value;
    if (!take_word_of(words, value)) expected(what);
    return value;
  }

 private:
  template <typename Number>
  static bool too_large(Number value) {
    constexpr int64_t kMost = int64_t{1} << 53;
    if constexpr (std::is_floating_point_v<Number>) {
      return false;
    } else if constexpr (sizeof(Number) < sizeof(kMost)) {
      return value == std::numeric_limits<Number>::max();
    } else {
      return value >= static_cast<Number>(kMost);
    }
  }

  const Plan& plan_;
  std::optional<std::string> error_;
};

}  // namespace rnnc
