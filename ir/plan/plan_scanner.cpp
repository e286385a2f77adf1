#include "ir/plan/plan_scanner.h"

#include <algorithm>

#include "ir/base/name.h"

namespace rnnc {
namespace {

bool is_control(char c) {
  return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
}

/// Whether the word that `rest` begins with is a longer one.
bool goes_on(std::string_view rest, size_t length) {
  return starts_name(rest.front()) && rest.size() > length && continues_name(rest[length]);
}

bool ends_name(std::string_view text, size_t at, std::string_view delimiters) {
  if (delimiters.find(text[at]) == std::string_view::npos) return false;
  return text[at] != ':' || at + 1 == text.size() || !continues_name(text[at + 1]);
}

}  // namespace

bool is_plain(std::string_view name, std::string_view delimiters) {
  if (name.empty() || !continues_name(name.front()) || name.back() == ' ') return false;
  for (size_t i = 0; i < name.size(); ++i) {
    const char c = name[i];
    if (is_control(c) || c == '#' || c == '"' || ends_name(name, i, delimiters)) return false;
  }
  return true;
}

void PlanScanner::complain(const std::string& what) {
  complain_at(position(), what);
}

void PlanScanner::complain_at(size_t position, const std::string& what) {
  if (failed()) return;
  const Place place = place_of(position);
  error_ = fmt::format("line {}, column {}: {}", place.line, place.column, what);
}

void PlanScanner::expected(std::string_view what) {
  if (!failed()) complain(fmt::format("expected {}, {}", what, found()));
}

size_t PlanScanner::position() {
  skip_spaces();
  return position_;
}

bool PlanScanner::take(std::string_view tokens) {
  if (failed()) return false;
  const size_t before = position_;
  while (!tokens.empty()) {
    const std::string_view token = tokens.substr(0, tokens.find(' '));
    tokens.remove_prefix(std::min(tokens.size(), token.size() + 1));
    skip_spaces();
    const std::string_view rest = text_.substr(position_);
    if (!rest.starts_with(token) || goes_on(rest, token.size())) {
      position_ = before;
      return false;
    }
    position_ += token.size();
  }
  return true;
}

void PlanScanner::expect(std::string_view tokens) {
  if (!take(tokens)) expected(fmt::format("`{}`", tokens));
}

bool PlanScanner::at_end() {
  return failed() || position() == text_.size();
}

double PlanScanner::constant() {
  double value = 0;
  if (failed()) return value;
  const size_t begin = position();
  const std::errc error = take_number(value);
  if (error == std::errc()) return value;
  position_ = begin;
  expected(error == std::errc::result_out_of_range ? "a number that f64 has" : "a number");
  return 0;
}

int64_t PlanScanner::product(std::initializer_list<int64_t> factors, std::string_view what) {
  constexpr int64_t kMost = int64_t{1} << 60;
  int64_t result = 1;
  for (const int64_t factor : factors) {
    if (__builtin_mul_overflow(result, factor, &result) || result > kMost) {
      complain(fmt::format("more {} than there can be", what));
      return 0;
    }
  }
  return result;
}

bool PlanScanner::sees(char character) {
  return text_.substr(position()).starts_with(character);
}

bool PlanScanner::sees_id(char letter) {
  const std::string_view rest = text_.substr(position());
  return rest.size() > 1 && rest[0] == letter && is_digit(rest[1]);
}

bool PlanScanner::sees_number() {
  const std::string_view rest = text_.substr(position());
  return !rest.empty() && is_digit(rest[0]);
}

bool PlanScanner::take_id(char letter, size_t end, uint32_t& id) {
  if (failed() || !sees_id(letter)) return false;
  const size_t begin = position_++;
  id = number<uint32_t>();
  if (!failed() && id >= end) complain_at(begin, fmt::format("there is no {}{}", letter, id));
  if (failed()) id = 0;
  return !failed();
}

uint32_t PlanScanner::id(char letter, size_t end) {
  uint32_t id = 0;
  if (!take_id(letter, end, id)) expected(fmt::format("`{}` and a number", letter));
  return id;
}

std::string PlanScanner::name(std::string_view delimiters) {
  if (failed()) return {};
  const size_t begin = position();
  if (text_.substr(begin).starts_with('"')) return quoted();
  size_t end = begin;
  while (end < text_.size() && text_[end] != '\n' && !ends_name(text_, end, delimiters)) ++end;
  while (end > begin && text_[end - 1] == ' ') --end;
  const std::string_view name = text_.substr(begin, end - begin);
  if (!is_plain(name, delimiters)) {
    expected("a name");
    return {};
  }
  position_ = end;
  return std::string(name);
}

// quoted := '"' (BYTE | '\' ('"' | '\' | 'n' | 'x' HEX HEX))* '"'      BYTE but of controls, `"`,
// `\`
std::string PlanScanner::quoted() {
  expect("\"");
  std::string text;
  while (!failed() && position_ < text_.size() && !is_control(text_[position_])) {
    const char c = text_[position_++];
    if (c == '"') return text;
    if (c != '\\') {
      text += c;
      continue;
    }
    const std::string_view rest = text_.substr(position_);
    const char escaped = rest.empty() ? '\0' : rest[0];
    if (escaped == '"' || escaped == '\\' || escaped == 'n') {
      text += escaped == 'n' ? '\n' : escaped;
      ++position_;
      continue;
    }
    unsigned byte = 0;
    const std::string_view digits = escaped == 'x' ? rest.substr(1, 2) : "";
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), byte, 16);
    if (digits.size() != 2 || error != std::errc() || end != digits.data() + 2) {
      complain_at(position_ - 1, R"(expected `\"`, `\\`, `\n` or `\x` with two digits)");
      return {};
    }
    text += static_cast<char>(byte);
    position_ += 3;
  }
  complain_at(position_, "expected the end of what `\"` opened, in its line");
  return {};
}

}  // namespace rnnc
