#include <algorithm>
#include <optional>

#include "frontend/syntax/diagnostics.h"
#include "frontend/syntax/source.h"
#include "ir/base/name.h"
#include "runtime/base/describe.h"
#include "runtime/weights/weight_map.h"

namespace rnnc {
namespace {

constexpr size_t kLongestText = 1 << 20;  // places in the text are 32-bit, and so are sums of them
constexpr size_t kMostTerms = 64;         // each costs as much as the tensor is long
constexpr int64_t kGreatestNumber = 1'000'000;

/// Names of params and of any framework's tensors (`lstm/kernel:0`).
bool in_name(char c) {
  return continues_name(c) || c == '/' || c == ':' || c == '-';
}

using Pattern = WeightMap::Pattern;

/// Reads one line. After an error the rest of the line is left alone.
class LineParser {
 public:
  LineParser(std::string_view text, size_t begin, size_t end, Diagnostics& diagnostics)
      : text_(text.substr(0, end)), at_(begin), diagnostics_(diagnostics) {}

  /// Nothing if the line is empty or wrong.
  std::optional<WeightMap::Rule> parse();

 private:
  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\r')) {
      ++at_;
    }
  }
  bool at_end() {
    skip_space();
    return at_ == text_.size() || text_[at_] == '#';
  }
  bool take(char c) {
    skip_space();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  /// A whole word, not the start of a longer name.
  bool take_word(std::string_view word) {
    skip_space();
    const size_t end = at_ + word.size();
    if (text_.substr(at_, word.size()) != word) return false;
    if (end < text_.size() && (in_name(text_[end]) || text_[end] == '{')) return false;
    at_ = end;
    return true;
  }
  /// Reports that something else should stand here; what does is under the caret.
  bool expected(std::string_view what, std::string hint = {});
  bool error(size_t begin, std::string message, std::string hint) {
    diagnostics_.error({0, static_cast<uint32_t>(begin), static_cast<uint32_t>(at_)},
                       std::move(message), std::move(hint));
    return false;
  }

  bool rule();
  bool params();
  bool term();
  bool piece(WeightMap::Term& term);
  bool pattern(Pattern& pattern, std::string_view what);
  bool index(Pattern& pattern);
  bool number(int64_t& value);
  bool check_indices(size_t begin);

  std::string_view text_;
  size_t at_;
  Diagnostics& diagnostics_;
  WeightMap::Rule rule_;
  std::string index_name_;  // of this line; empty: none yet
};

bool LineParser::expected(std::string_view what, std::string hint) {
  const bool nothing = at_end();
  const size_t begin = at_;
  std::string found = "the line ends";
  if (!nothing) {
    while (at_ < text_.size() && in_name(text_[at_])) ++at_;
    if (at_ == begin) ++at_;
    found = fmt::format("there is {}", quote(text_.substr(begin, at_ - begin)));
  } else {
    at_ = std::max(at_, begin + 1);  // a caret past the line's end
  }
  return error(begin, fmt::format("expected {}, but {}", what, found), std::move(hint));
}

/// number = digit {digit}
bool LineParser::number(int64_t& value) {
  skip_space();
  const size_t begin = at_;
  value = 0;
  while (at_ < text_.size() && is_digit(text_[at_])) {
    value = std::min(value * 10 + (text_[at_++] - '0'), kGreatestNumber + 1);
  }
  if (at_ == begin) return expected("a number");
  if (value > kGreatestNumber) {
    return error(begin, fmt::format("this number is greater than {}", kGreatestNumber), "");
  }
  return true;
}

/// index = "{" [number "*"] name ["+" number] "}"
bool LineParser::index(Pattern& pattern) {
  WeightMap::Index index{.scale = 1, .offset = 0};
  skip_space();
  size_t begin = at_;
  if (at_ < text_.size() && is_digit(text_[at_])) {
    if (!number(index.scale)) return false;
    if (index.scale == 0) return error(begin, "an index is counted in steps of at least 1", "");
    if (!take('*')) return expected("`*` and the index's name", "such as `{2*l}`");
  }
  skip_space();
  begin = at_;
  while (at_ < text_.size() && in_name(text_[at_])) ++at_;
  const std::string_view name = text_.substr(begin, at_ - begin);
  if (!is_name(name)) {
    at_ = begin;
    return expected("the name of an index", "such as `{l}` or `{2*l+1}`");
  }
  if (!index_name_.empty() && name != index_name_) {
    return error(
        begin,
        fmt::format("a line has one index, and this is a second one beside {}", quote(index_name_)),
        "");
  }
  index_name_ = name;
  if (take('+') && !number(index.offset)) return false;
  if (!take('}')) return expected("`}`", "an index is `{l}`, `{2*l}` or `{2*l+1}`");
  pattern.indices.push_back(index);
  pattern.texts.emplace_back();
  return true;
}

/// pattern = (character | index) {character | index}
bool LineParser::pattern(Pattern& pattern, std::string_view what) {
  skip_space();
  const size_t begin = at_;
  if (pattern.texts.empty()) pattern.texts.emplace_back();
  while (at_ < text_.size() && (in_name(text_[at_]) || text_[at_] == '{')) {
    if (text_[at_] != '{') {
      pattern.texts.back() += text_[at_++];
    } else if (++at_; !index(pattern)) {
      return false;
    }
  }
  return at_ > begin || expected(what);
}

/// params = pattern | [pattern] "[" pattern {"," pattern} "]"
bool LineParser::params() {
  Pattern first{.texts = {""}, .indices = {}};
  skip_space();
  const bool list_only = at_ < text_.size() && text_[at_] == '[';
  if (!list_only && !pattern(first, "the name of a param")) return false;
  if (!take('[')) {
    rule_.params.push_back(std::move(first));
    return true;
  }
  do {
    Pattern param = first;
    if (!pattern(param, "the name of a param")) return false;
    rule_.params.push_back(std::move(param));
  } while (take(','));
  return take(']') || expected("`,` or `]`", "a list of params is `[W_i, W_f]`");
}

/// piece = "[" number "of" number "]"
bool LineParser::piece(WeightMap::Term& term) {
  const std::string hint = "a piece is `[2 of 3]`: the last of three equal ones";
  skip_space();
  const size_t begin = at_;
  if (!number(term.piece)) return false;
  if (!take_word("of")) return expected("`of`", hint);
  if (!number(term.pieces)) return false;
  if (term.piece >= term.pieces) {
    return error(begin, fmt::format("there is no piece {} of {}", term.piece, term.pieces),
                 "pieces are counted from 0");
  }
  return take(']') || expected("`]`", hint);
}

/// term = (pattern | "transpose" "(" pattern ")") [piece]
bool LineParser::term() {
  WeightMap::Term term;
  term.transposed = take_word("transpose");
  if (term.transposed && !take('(')) return expected("`(`", "such as `transpose(kernel)`");
  if (!pattern(term.tensor, "the name of a tensor")) return false;
  if (term.transposed && !take(')')) return expected("`)`");
  if (take('[') && !piece(term)) return false;
  rule_.sum.push_back(std::move(term));
  return true;
}

/// Whether the index, if there is one, is in every param's name, so that it counts something.
bool LineParser::check_indices(size_t begin) {
  if (index_name_.empty()) return true;
  for (const Pattern& param : rule_.params) {
    if (!param.indices.empty()) continue;
    return error(begin,
                 fmt::format("the index {} is not in the name of the param {}", quote(index_name_),
                             quote(param.texts.front())),
                 "it counts from 0 as long as there are such params");
  }
  rule_.repeats = true;
  return true;
}

/// rule = params "=" term {"+" term} ["or" "zeros"]
bool LineParser::rule() {
  skip_space();
  const size_t begin = at_;
  if (!params()) return false;
  if (!take('=')) {
    return expected("`=`", "a line is `W = weight` or `[W_i, W_f] = weight_ih`");
  }
  do {
    const size_t term_begin = at_;
    if (!term()) return false;
    if (rule_.sum.size() > kMostTerms) {
      return error(term_begin, fmt::format("a sum has at most {} terms", kMostTerms), "");
    }
  } while (take('+'));
  if (take_word("or")) {
    rule_.or_zeros = take_word("zeros");
    if (!rule_.or_zeros) return expected("`zeros`");
  }
  if (!at_end()) return expected("`+`, `or zeros` or the end of the line");
  return check_indices(begin);
}

std::optional<WeightMap::Rule> LineParser::parse() {
  if (at_end() || !rule()) return std::nullopt;
  return std::move(rule_);
}

}  // namespace

/// map = [rule] ["#" …] {newline [rule] ["#" …]}
Result<WeightMap> WeightMap::parse(std::string_view text, std::string_view name) {
  const std::string prefix = fmt::format("{} is not a weight map that can be read: ", quote(name));
  if (text.size() > kLongestText) {
    return fail("{}it has {} bytes, and a map has at most {}", prefix, text.size(), kLongestText);
  }
  Diagnostics diagnostics;
  std::vector<Rule> rules;
  uint32_t line = 1;
  for (size_t begin = 0; begin < text.size(); ++line) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    if (std::optional<Rule> rule = LineParser(text, begin, end, diagnostics).parse()) {
      rule->line = line;
      rules.push_back(std::move(*rule));
    }
    begin = end + 1;
  }
  if (diagnostics.has_errors()) {
    std::string errors = diagnostics.render({SourceFile(std::string(name), std::string(text))});
    errors.pop_back();  // the line end
    return fail("{}\n{}", std::string_view(prefix).substr(0, prefix.size() - 1), errors);
  }
  if (rules.empty()) return fail("{}it says nothing", prefix);
  return WeightMap(std::string(name), std::move(rules));
}

}  // namespace rnnc
