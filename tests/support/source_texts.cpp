#include "tests/support/source_texts.h"

#include <algorithm>
#include <cctype>
#include <utility>

namespace rnnc {

namespace {

/// The literal whose opening quote is at `at`, which moves to its closing one.
std::string quoted(const std::string& text, size_t& at) {
  std::string literal;
  for (++at; at < text.size() && text[at] != '"'; ++at) {
    if (text[at] == '\\') ++at;
    literal += text.substr(at, 1);
  }
  return literal;
}

/// The same for the raw literal whose opening quote is at `at`.
std::string raw(const std::string& text, size_t& at) {
  const size_t open = text.find('(', at);
  const std::string end = ")" + text.substr(at + 1, open - at - 1) + "\"";
  const size_t close = text.find(end, open);
  at = close + end.size() - 1;
  return text.substr(open + 1, close - open - 1);
}

}  // namespace

std::vector<std::string> literals(const std::string& text) {
  std::vector<std::string> found;
  bool joins = false;  // only blanks since the last literal
  for (size_t i = 0; i < text.size(); ++i) {
    const bool in_word = i > 0 && std::isalnum(static_cast<unsigned char>(text[i - 1])) != 0;
    if (text.compare(i, 2, "//") == 0 || text.compare(i, 8, "#include") == 0) {
      i = std::min(text.find('\n', i), text.size());
    } else if (text[i] == '"') {
      std::string literal = in_word && text[i - 1] == 'R' ? raw(text, i) : quoted(text, i);
      if (joins) {
        found.back() += literal;
      } else {
        found.push_back(std::move(literal));
      }
      joins = true;
    } else if (text[i] == '\'' && !in_word) {  // else it parts digits
      i = std::min(text.find('\'', text[i + 1] == '\\' ? i + 3 : i + 1), text.size());
      joins = false;
    } else if (std::isspace(static_cast<unsigned char>(text[i])) == 0) {
      joins = false;
    }
  }
  return found;
}

std::vector<std::string> fixed_parts(const std::string& format) {
  std::vector<std::string> parts(1);
  for (size_t i = 0; i < format.size(); ++i) {
    if (format.compare(i, 2, "{{") == 0 || format.compare(i, 2, "}}") == 0) {
      parts.back() += format[i++];
    } else if (format[i] == '{') {
      parts.emplace_back();
      i = format.find('}', i);
    } else {
      parts.back() += format[i];
    }
  }
  return parts;
}

bool says(const std::vector<std::string>& lines, const std::vector<std::string>& parts) {
  return std::ranges::any_of(lines, [&](const std::string& line) {
    size_t at = 0;
    for (const std::string& part : parts) {
      at = line.find(part, at);
      if (at == std::string::npos) return false;
      at += part.size();
    }
    return true;
  });
}

}  // namespace rnnc
