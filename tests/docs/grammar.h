/// The grammar of docs/language.md as a recogniser and as a source of random sentences.
#pragma once

#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace rnnc::test {

/// Terminals of a text in the grammar's terms: `"cell"`, `NAME`, `EOL` …
std::vector<std::string> terminals(const std::string& text);

class Grammar {
 public:
  /// Reads productions `name := …`; aborts the test program if it cannot.
  explicit Grammar(std::string_view ebnf);

  /// Whether the start symbol, the first production, derives exactly these terminals.
  bool derives(const std::vector<std::string>& terminals) const;

  /// A random sentence as text, of a bounded size.
  std::string sentence(uint64_t seed) const;

  /// Names that are used and have no production.
  std::vector<std::string> undefined() const;
  size_t productions() const { return rules_.size(); }

 private:
  struct Node {
    enum class Kind : uint8_t { Terminal, Rule, Sequence, Choice, Optional, Repeat };
    Kind kind = Kind::Sequence;
    std::string name;              // Terminal, Rule
    std::vector<size_t> children;  // into nodes_
  };
  class Reader;
  class Recogniser;
  class Writer;

  std::vector<Node> nodes_;
  std::map<std::string, size_t, std::less<>> rules_;
  std::string start_;
};

}  // namespace rnnc::test
