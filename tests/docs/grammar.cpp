#include "tests/docs/grammar.h"

#include <algorithm>
#include <set>

#include "frontend/syntax/lexer.h"
#include "ir/base/status.h"

namespace rnnc::test {
namespace {

bool is_binary_operator(TokenKind kind) {
  return kind >= TokenKind::Plus && kind <= TokenKind::NotEqual;
}

std::string terminal(const Token& token) {
  switch (token.kind) {
    case TokenKind::Name:
      return "NAME";
    case TokenKind::Number:
      return "NUMBER";
    case TokenKind::String:
      return "STRING";
    default:
      return "\"" + std::string(token.text) + "\"";
  }
}

}  // namespace

std::vector<std::string> terminals(const std::string& text) {
  const SourceFile file("text.rnn", text);
  Diagnostics diagnostics;
  const std::vector<Token> tokens = lex(file, 0, diagnostics);
  std::vector<std::string> result;
  int brackets = 0;
  TokenKind before = TokenKind::LeftBrace;  // at the start of the text no line ends
  for (const Token& token : tokens) {
    if (token.kind == TokenKind::End) break;
    const bool counts = before != TokenKind::LeftBrace && token.kind != TokenKind::RightBrace;
    if (token.starts_line && brackets == 0 && counts && !is_binary_operator(before)) {
      result.emplace_back("EOL");
    }
    if (token.kind == TokenKind::LeftParen || token.kind == TokenKind::LeftBracket) ++brackets;
    if (token.kind == TokenKind::RightParen || token.kind == TokenKind::RightBracket) --brackets;
    // No word of the language elsewhere: the type of an input.
    const bool is_type = before == TokenKind::Colon && token.text == "int";
    result.push_back(is_type ? "\"int\"" : terminal(token));
    before = token.kind;
  }
  return result;
}

// ---- Reading ----

/// choice := sequence { "|" sequence }; sequence := { item };
/// item := name | "terminal" | "(" choice ")" | "[" choice "]" | "{" choice "}"
class Grammar::Reader {
 public:
  Reader(Grammar& grammar, std::string_view text) : grammar_(grammar) {
    size_t at = 0;
    while ((at = text.find_first_not_of(" \n", at)) != std::string_view::npos) {
      size_t end = text[at] == '"' ? text.find('"', at + 1) + 1 : text.find_first_of(" \n", at);
      end = std::min(end, text.size());
      words_.emplace_back(text.substr(at, end - at));
      at = end;
    }
  }

  void read() {
    while (at_ < words_.size()) {
      const std::string name = words_[at_++];
      RNNC_CHECK(at_ < words_.size() && words_[at_++] == ":=", "no production: {}", name);
      if (grammar_.start_.empty()) grammar_.start_ = name;
      grammar_.rules_[name] = choice();
    }
  }

 private:
  bool at_production() const { return at_ + 1 < words_.size() && words_[at_ + 1] == ":="; }
  bool at_end() const {
    if (at_ >= words_.size() || at_production()) return true;
    const std::string& word = words_[at_];
    return word == "|" || word == ")" || word == "]" || word == "}";
  }

  size_t add(Node node) {
    grammar_.nodes_.push_back(std::move(node));
    return grammar_.nodes_.size() - 1;
  }

  size_t choice() {
    std::vector<size_t> options = {sequence()};
    while (at_ < words_.size() && words_[at_] == "|") {
      ++at_;
      options.push_back(sequence());
    }
    return options.size() == 1 ? options[0] : add({Node::Kind::Choice, "", options});
  }

  size_t sequence() {
    std::vector<size_t> items;
    while (!at_end()) items.push_back(item());
    return add({Node::Kind::Sequence, "", items});
  }

  size_t item() {
    const std::string word = words_[at_++];
    if (word == "(" || word == "[" || word == "{") {
      const size_t inner = choice();
      RNNC_CHECK(at_ < words_.size(), "`{}` has no end", word);
      ++at_;
      if (word == "(") return inner;
      return add({word == "[" ? Node::Kind::Optional : Node::Kind::Repeat, "", {inner}});
    }
    const bool literal = word.front() == '"';
    const bool capitals = std::ranges::all_of(word, [](char c) { return c >= 'A' && c <= 'Z'; });
    return add({literal || capitals ? Node::Kind::Terminal : Node::Kind::Rule, word, {}});
  }

  Grammar& grammar_;
  std::vector<std::string> words_;
  size_t at_ = 0;
};

Grammar::Grammar(std::string_view ebnf) {
  Reader(*this, ebnf).read();
}

std::vector<std::string> Grammar::undefined() const {
  std::vector<std::string> names;
  for (const Node& node : nodes_) {
    if (node.kind == Node::Kind::Rule && !rules_.contains(node.name)) names.push_back(node.name);
  }
  return names;
}

// ---- Recognising ----

/// All places where a node that begins at a place may end, remembered per rule and place.
class Grammar::Recogniser {
 public:
  Recogniser(const Grammar& grammar, const std::vector<std::string>& terminals)
      : grammar_(grammar), terminals_(terminals) {}

  using Ends = std::set<size_t>;

  Ends ends(size_t node_id, size_t from) {
    const Node& node = grammar_.nodes_[node_id];
    switch (node.kind) {
      case Node::Kind::Terminal:
        return from < terminals_.size() && terminals_[from] == node.name ? Ends{from + 1} : Ends{};
      case Node::Kind::Rule:
        return rule(node.name, from);
      case Node::Kind::Sequence: {
        Ends places = {from};
        for (const size_t child : node.children) places = after(child, places);
        return places;
      }
      case Node::Kind::Choice: {
        Ends places;
        for (const size_t child : node.children) places.merge(ends(child, from));
        return places;
      }
      case Node::Kind::Optional: {
        Ends places = ends(node.children[0], from);
        places.insert(from);
        return places;
      }
      case Node::Kind::Repeat:
        break;
    }
    Ends all = {from};
    Ends fresh = {from};
    while (!fresh.empty()) {
      Ends next;
      for (const size_t place : after(node.children[0], fresh)) {
        if (all.insert(place).second) next.insert(place);
      }
      fresh = std::move(next);
    }
    return all;
  }

 private:
  Ends after(size_t node, const Ends& places) {
    Ends result;
    for (const size_t place : places) result.merge(ends(node, place));
    return result;
  }

  const Ends& rule(const std::string& name, size_t from) {
    const auto key = std::pair(name, from);
    const auto found = known_.find(key);
    if (found != known_.end()) return found->second;
    Ends places = ends(grammar_.rules_.at(name), from);
    return known_.emplace(key, std::move(places)).first->second;
  }

  const Grammar& grammar_;
  const std::vector<std::string>& terminals_;
  std::map<std::pair<std::string, size_t>, Ends> known_;
};

bool Grammar::derives(const std::vector<std::string>& terminals) const {
  return Recogniser(*this, terminals).ends(rules_.at(start_), 0).contains(terminals.size());
}

// ---- Writing ----

class Grammar::Writer {
 public:
  Writer(const Grammar& grammar, uint64_t seed) : grammar_(grammar), random_(seed) {}

  std::string write() {
    node(grammar_.rules_.at(grammar_.start_), 0);
    return std::move(text_);
  }

 private:
  // Deep down, what is optional is left out and of choices the last is taken: in each production it
  // is the one that ends soonest.
  static constexpr int kDeep = 24;
  static constexpr size_t kLong = 1000;

  void node(size_t id, int depth) {
    const Node& node = grammar_.nodes_[id];
    const bool end = depth > kDeep || text_.size() > kLong;
    switch (node.kind) {
      case Node::Kind::Terminal:
        return terminal(node.name);
      case Node::Kind::Rule:
        return this->node(grammar_.rules_.at(node.name), depth + 1);
      case Node::Kind::Sequence:
        for (const size_t child : node.children) this->node(child, depth);
        return;
      case Node::Kind::Choice:
        return this->node(choose(node, end), depth);
      case Node::Kind::Optional:
        if (!end && below(2) == 0) this->node(node.children[0], depth);
        return;
      case Node::Kind::Repeat:
        for (uint64_t i = end ? 0 : below(3); i > 0; --i) this->node(node.children[0], depth);
        return;
    }
  }

  size_t choose(const Node& node, bool end) {
    if (!end) return node.children[below(node.children.size())];
    // The first option that starts with a terminal, else the last.
    for (const size_t child : node.children) {
      const Node& option = grammar_.nodes_[child];
      if (option.children.size() == 1 &&
          grammar_.nodes_[option.children[0]].kind == Node::Kind::Terminal) {
        return child;
      }
    }
    return node.children.back();
  }

  void terminal(const std::string& name) {
    static constexpr const char* kNames[] = {"x", "h", "W", "Cell", "y_1", "β"};
    static constexpr const char* kNumbers[] = {"0", "1", "2.5", "1e-5", "30"};
    if (name == "EOL") {
      text_ += "\n";
    } else if (name == "NAME") {
      text_ += std::string(kNames[below(std::size(kNames))]) + " ";
    } else if (name == "NUMBER") {
      text_ += std::string(kNumbers[below(std::size(kNumbers))]) + " ";
    } else if (name == "STRING") {
      text_ += "\"other.rnn\" ";
    } else {
      text_ += name.substr(1, name.size() - 2) + " ";
    }
  }

  uint64_t below(uint64_t count) { return random_() % count; }

  const Grammar& grammar_;
  std::mt19937_64 random_;
  std::string text_;
};

std::string Grammar::sentence(uint64_t seed) const {
  return Writer(*this, seed).write();
}

}  // namespace rnnc::test
