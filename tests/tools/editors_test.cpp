/// tools/editors: both highlighters know the words of the lexer and the built-in functions, and give
/// each token of the shipped files the colour of its kind.
#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "frontend/elaborate/builtins.h"
#include "frontend/syntax/lexer.h"
#include "tests/tools/tools_test.h"

namespace rnnc::test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

const fs::path kEditors = RNNC_SOURCE_DIR "/tools/editors";

/// What each byte of a text is shown as: "word", "builtin", "number", … or "".
using Colours = std::vector<std::string>;

Json read_json(const std::string& file) {
  return Json::parse(TemporaryDirectory::read(kEditors / "vscode" / file));
}

/// A TextMate grammar of patterns with a `match` alone: the first that matches somewhere wins.
class TextMateGrammar {
 public:
  explicit TextMateGrammar(const Json& grammar) {
    for (const Json& pattern : grammar["patterns"]) {
      rules_.emplace_back(colour_of(pattern["name"]), std::regex(std::string(pattern["match"])));
    }
  }

  Colours colours(const std::string& text) const {
    Colours result(text.size());
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = std::min(text.find('\n', begin), text.size());
      const std::string line = text.substr(begin, end - begin);
      for (size_t at = 0; at < line.size();) at += colour(line, at, result.begin() + begin + at);
      begin = end + 1;
    }
    return result;
  }

 private:
  static std::string colour_of(const std::string& scope) {
    static const std::map<std::string, std::string> kColours = {{"comment", "comment"},
                                                                {"string", "string"},
                                                                {"constant", "number"},
                                                                {"keyword.operator", "operator"},
                                                                {"keyword", "word"},
                                                                {"variable.language", "time"},
                                                                {"variable", "name"},
                                                                {"support.function", "builtin"},
                                                                {"entity.name.function", "name"}};
    std::string longest;
    for (const auto& [prefix, colour] : kColours) {
      if (scope.starts_with(prefix) && prefix.size() > longest.size()) longest = prefix;
    }
    return longest.empty() ? "unknown scope " + scope : kColours.at(longest);
  }

  /// Colours what matches at `at` and gives its length, or 1.
  size_t colour(const std::string& line, size_t at, Colours::iterator result) const {
    auto flags = std::regex_constants::match_continuous;
    if (at > 0) flags |= std::regex_constants::match_prev_avail;
    for (const auto& [colour, pattern] : rules_) {
      std::smatch match;
      const auto begin = line.begin() + static_cast<std::ptrdiff_t>(at);
      if (!std::regex_search(begin, line.end(), match, pattern, flags)) continue;
      std::fill_n(result, match.length(), colour);
      return static_cast<size_t>(match.length());
    }
    return 1;
  }

  std::vector<std::pair<std::string, std::regex>> rules_;
};

std::string colour_of(const Token& token, bool is_call) {
  const TokenKind kind = token.kind;
  if (is_word(kind)) return "word";
  if (kind == TokenKind::Number) return "number";
  if (kind == TokenKind::String) return "string";
  if (kind == TokenKind::Name && token.text == "t") return "time";
  if (kind == TokenKind::Name && is_call && find_builtin(token.text)) return "builtin";
  if (kind == TokenKind::Name) return "name";
  const bool operates = kind >= TokenKind::DotDot && kind <= TokenKind::NotEqual;
  return operates ? "operator" : "";
}

void expect_colours(const std::string& text, const Colours& colours) {
  Diagnostics diagnostics;
  const SourceFile file("file.rnn", text);
  const std::vector<Token> tokens = lex(file, 0, diagnostics);
  ASSERT_FALSE(diagnostics.has_errors());
  size_t end = 0;
  for (size_t i = 0; i + 1 < tokens.size(); ++i) {
    const SourceLocation place = tokens[i].location;
    const std::string wanted = colour_of(tokens[i], tokens[i + 1].kind == TokenKind::LeftParen);
    for (size_t at = place.begin; at < place.end; ++at) {
      ASSERT_EQ(colours[at], wanted) << file.slice(place) << " in " << file.line_at(place.begin);
    }
    const size_t comment = text.find("//", end);
    if (comment < place.begin) {
      ASSERT_EQ(colours[comment], "comment") << file.line_at(comment);
    }
    end = place.end;
  }
}

std::vector<fs::path> shipped_files() {
  std::vector<fs::path> files = {RNNC_SOURCE_DIR "/frontend/prelude.rnn"};
  for (const char* folder : {"cells", "networks", "char_model"}) {
    for (const auto& entry :
         fs::directory_iterator(RNNC_SOURCE_DIR "/examples/" + std::string(folder))) {
      if (entry.path().extension() == ".rnn") files.push_back(entry.path());
    }
  }
  return files;
}

// What shipped files may not happen to have.
const std::string kEverything = R"(import "a b.rnn"
cell A[I, H = 2 * I](x: [I]) -> (y, z) {  // 1 if
  state s[3]: [H] = -1.5e-3
  param W: [H, H] blocks 2
  z = where(1 <= 2, x[t] == 1, 3 != 4) / 0.5
  for in_t in 0..3 { y = reverse B[H = 3](z) as t1 }
}
)";

using Words = std::set<std::string, std::less<>>;

Words split(const std::string& text, char separator) {
  Words words;
  std::istringstream stream(text);
  for (std::string word; std::getline(stream, word, separator);) words.insert(word);
  return words;
}

Words words_of_language() {
  Words words;
  for (auto kind = TokenKind::Cell; is_word(kind); kind = TokenKind(static_cast<int>(kind) + 1)) {
    const std::string quoted = spelling(kind);
    words.insert(quoted.substr(1, quoted.size() - 2));
  }
  return words;
}

Words names_of_builtins() {
  Words names;
  for (const Builtin& builtin : builtins()) names.emplace(builtin.name);
  return names;
}

TEST(Editors, TheTextMateGrammarHasTheWordsOfTheLanguage) {
  Words words, functions;
  const Json grammar = read_json("syntaxes/rnn.tmLanguage.json");
  for (const Json& pattern : grammar["patterns"]) {
    const std::string scope = pattern["name"];
    const std::string match = pattern["match"];
    const size_t open = match.find('(');
    if (scope == "support.function.rnn") {
      functions.merge(split(match.substr(open + 1, match.find(')') - open - 1), '|'));
    } else if (scope.starts_with("keyword.") && match.starts_with("\\b(")) {
      words.merge(split(match.substr(open + 1, match.find(')') - open - 1), '|'));
    }
  }
  EXPECT_EQ(words, words_of_language());
  EXPECT_EQ(functions, names_of_builtins());
}

TEST(Editors, TheTextMateGrammarColoursShippedFiles) {
  const TextMateGrammar grammar(read_json("syntaxes/rnn.tmLanguage.json"));
  expect_colours(kEverything, grammar.colours(kEverything));
  for (const fs::path& file : shipped_files()) {
    SCOPED_TRACE(file);
    const std::string text = TemporaryDirectory::read(file);
    expect_colours(text, grammar.colours(text));
  }
}

TEST(Editors, TheExtensionNamesFilesThatAreThere) {
  const Json package = read_json("package.json")["contributes"];
  const Json& language = package["languages"][0];
  const Json& grammar = package["grammars"][0];
  EXPECT_EQ(language["extensions"], Json::array({".rnn"}));
  EXPECT_EQ(grammar["language"], language["id"]);
  EXPECT_EQ(read_json(grammar["path"])["scopeName"], grammar["scopeName"]);
  EXPECT_EQ(read_json(language["configuration"])["comments"]["lineComment"], "//");
  EXPECT_TRUE(fs::exists(kEditors / "vscode" / read_json("package.json")["main"]));
}

class VsCode : public Tools {};

TEST_F(VsCode, TheExtensionAsksTheLanguageServer) {
  const std::string env = "/usr/bin/env";
  if (run_program(directory_.path(), {env, "node", "--version"}).exit_code != 0) {
    GTEST_SKIP() << "there is no node";
  }
  const CommandResult result = run_program(
      directory_.path(), {env, "timeout", "60", "node", RNNC_SOURCE_DIR "/tests/tools/vscode.js",
                          (kEditors / "vscode").string(), RNNC_BINARY_DIR "/tools/rnnc"});
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_EQ(result.output, "all is well\n");
}

TEST(Editors, VimHasTheWordsOfTheLanguage) {
  Words words, functions;
  std::istringstream lines(TemporaryDirectory::read(kEditors / "vim/syntax/rnn.vim"));
  for (std::string line; std::getline(lines, line);) {
    const std::string keyword = "syntax keyword ", call = "syntax match rnnFunction /\\v<(";
    if (line.starts_with(call)) {
      functions = split(line.substr(call.size(), line.find(')') - call.size()), '|');
    }
    if (!line.starts_with(keyword)) continue;
    std::istringstream rest(line.substr(keyword.size()));
    std::string group;
    rest >> group;
    for (std::string word; rest >> word;) {
      if (group != "rnnTime") words.insert(word);
    }
  }
  EXPECT_EQ(words, words_of_language());
  EXPECT_EQ(functions, names_of_builtins());
}

/// Vim or Neovim, where it is installed.
class Vim : public Tools, public ::testing::WithParamInterface<const char*> {
 protected:
  CommandResult vim(const std::vector<std::string>& arguments) const {
    std::vector<std::string> words = {"/usr/bin/env", GetParam(), "-es", "-u",
                                      "NONE",         "-i",       "NONE"};
    words.insert(words.end(), arguments.begin(), arguments.end());
    return run_program(directory_.path(), words);
  }
  bool is_there() const {
    return vim({"-c", "if !has('syntax') | cquit | endif", "-c", "quitall!"}).exit_code == 0;
  }
  /// Opens the file as a user does who has the package, and runs the script.
  void edit(const std::string& file, const std::string& script) const {
    vim({"--cmd", "set encoding=utf-8", "--cmd", "set runtimepath^=" + (kEditors / "vim").string(),
         "-c", "filetype plugin on", "-c", "syntax on", "-c", "edit " + file, "-c",
         "source " + script});
  }
  /// From its groups of each byte.
  Colours colours(const std::string& text) const {
    static const std::map<std::string, std::string> kColours = {
        {"rnnDefinition", "word"},  {"rnnDeclaration", "word"},
        {"rnnControl", "word"},     {"rnnTime", "time"},
        {"rnnFunction", "builtin"}, {"rnnOperator", "operator"},
        {"rnnNumber", "number"},    {"rnnString", "string"},
        {"rnnComment", "comment"},  {"rnnDocumentation", "comment"}};
    directory_.write("file.rnn", text);
    directory_.write("dump.vim", R"(let groups = [&filetype . ' ' . &commentstring]
for row in range(1, line('$'))
  for column in range(1, col([row, '$']))
    call add(groups, synIDattr(synID(row, column, 1), 'name'))
  endfor
endfor
call writefile(groups, 'groups.txt')
quitall!
)");
    vim({"--cmd", "set encoding=utf-8", "--cmd", "set runtimepath^=" + (kEditors / "vim").string(),
         "-c", "filetype plugin on", "-c", "syntax on", "-c", "edit file.rnn", "-c",
         "source dump.vim"});
    std::istringstream groups(TemporaryDirectory::read(directory_ / "groups.txt"));
    std::string line;
    std::getline(groups, line);
    EXPECT_EQ(line, "rnn // %s");
    Colours result;
    while (std::getline(groups, line)) {
      result.push_back(kColours.contains(line) ? kColours.at(line) : line);
    }
    return result;
  }
};

TEST_P(Vim, ColoursShippedFiles) {
  if (!is_there()) GTEST_SKIP() << "no " << GetParam() << " with syntax highlighting";
  std::string text = kEverything;
  for (const fs::path& file : shipped_files()) text += TemporaryDirectory::read(file);
  const Colours colours = this->colours(text);
  ASSERT_EQ(colours.size(), text.size());
  // Vim knows names by having no group.
  Colours named = colours;
  Diagnostics ignored;
  const SourceFile file("file.rnn", text);
  for (const Token& token : lex(file, 0, ignored)) {
    if (token.kind != TokenKind::Name) continue;
    for (size_t at = token.location.begin; at < token.location.end; ++at) {
      if (named[at].empty()) named[at] = "name";
    }
  }
  expect_colours(text, named);
}

TEST_P(Vim, MakeGoesToTheError) {
  if (!is_there()) GTEST_SKIP() << "no " << GetParam() << " with syntax highlighting";
  directory_.write("make.vim", R"(let &makeprg = ')" RNNC_BINARY_DIR R"(/tools/' . &makeprg
silent make
let found = map(getqflist(), {_, one -> join([one.lnum, one.col, one.type, one.text], ' ')})
call writefile(found + ['at ' . line('.') . ' ' . col('.')], 'found.txt')
quitall!
)");
  edit("bad.rnn", "make.vim");
  EXPECT_EQ(TemporaryDirectory::read(directory_ / "found.txt"),
            "2 14 e unknown name `z`\nat 2 14\n");
}

INSTANTIATE_TEST_SUITE_P(Editors, Vim, ::testing::Values("vim", "nvim"),
                         [](const auto& instance) { return std::string(instance.param); });

}  // namespace
}  // namespace rnnc::test
