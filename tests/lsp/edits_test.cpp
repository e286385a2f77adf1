/// Random edits: the server's text and diagnostics are those of a fresh check, and every question
/// has an answer. RNNC_LSP_EDITS sets how many edits there are.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <random>

#include "tests/lsp/session.h"
#include "tests/runtime/temporary_directory.h"
#include "tools/lsp/convert.h"

namespace rnnc::test {
namespace {

namespace fs = std::filesystem;

const char* const kQuestions[] = {"hover",         "definition",     "references",
                                  "completion",    "signatureHelp",  "documentHighlight",
                                  "prepareRename", "documentSymbol", "semanticTokens/full",
                                  "inlayHint",     "foldingRange",   "codeAction",
                                  "formatting"};
const char* const kPieces[] = {
    "",  "k",  "[t-1]",  "(", ")",  "{",  "}", "\n", " = ",  "h",
    "[", ", ", "state ", "𝒙", "//", "\"", "@", "λ",  "\r\n", "for l in 0..2 {"};

Json fresh(const std::string& path, const std::string& text) {
  lsp::Document document(path, text, {});
  return lsp::diagnostics(document.checked(), document.text());
}

TEST(LspEdits, DiagnosticsAreThoseOfAFreshCheck) {
  const char* wanted = std::getenv("RNNC_LSP_EDITS");
  const int edits = wanted ? std::atoi(wanted) : 400;
  std::vector<fs::path> files;
  for (const fs::path& file : fs::directory_iterator(RNNC_SOURCE_DIR "/examples/cells")) {
    files.push_back(file);
  }
  std::ranges::sort(files);
  std::mt19937 random(7);
  const auto below = [&](size_t bound) { return static_cast<size_t>(random() % bound); };
  constexpr int kEditsOfAText = 20;
  for (int edit = 0; edit < edits; edit += kEditsOfAText) {
    Session session;
    const fs::path& file = files[below(files.size())];
    session.uri = lsp::uri_of(file.string());
    lsp::Text text(TemporaryDirectory::read(file));
    EXPECT_EQ(session.open(text.string()), fresh(file.string(), text.string()));
    for (int at = 0; at < kEditsOfAText; ++at) {
      const auto begin = static_cast<uint32_t>(below(text.string().size() + 1));
      const auto end =
          static_cast<uint32_t>(std::min(text.string().size(), begin + below(4) * below(4)));
      const lsp::Position from = text.position(begin);
      const lsp::Position to = text.position(end);
      const std::string piece = kPieces[below(std::size(kPieces))];
      text.replace(text.offset(from), std::max(text.offset(from), text.offset(to)), piece);
      const Json range = {{"start", lsp::to_json(from)}, {"end", lsp::to_json(to)}};
      const Json found = session.change({{{"range", range}, {"text", piece}}});
      ASSERT_EQ(found, fresh(file.string(), text.string())) << text.string();
      const Json answer =
          session.ask(kQuestions[below(std::size(kQuestions))], from.line, from.character);
      ASSERT_TRUE(answer.contains("result") || answer.contains("error"));
      if (answer.contains("error")) {
        EXPECT_EQ(answer["error"]["code"], -32803) << answer << text.string();
      }
    }
  }
}

/// As it may be typed from its first letter on, or lie on disk: up to any letter.
TEST(LspEdits, EveryBeginningOfAFileIsChecked) {
  for (const char* name : {"lstm", "layernorm_lstm", "rhn"}) {
    const std::string path = fmt::format(RNNC_SOURCE_DIR "/examples/cells/{}.rnn", name);
    const std::string whole = TemporaryDirectory::read(path);
    ASSERT_FALSE(whole.empty());
    size_t wrong = 0;
    for (size_t size = 0; size <= whole.size(); ++size) {
      if ((whole[size] & 0xc0) == 0x80) continue;  // within a letter
      Session session;
      session.uri = lsp::uri_of(path);
      const Json found = session.open(whole.substr(0, size));
      wrong += found.empty() ? 0 : 1;
      const Json answer = session.ask(kQuestions[size % std::size(kQuestions)], 0, 0);
      ASSERT_TRUE(answer.contains("result") || answer.contains("error")) << size;
      if (size == whole.size()) {
        EXPECT_EQ(found, Json::array());
      }
    }
    EXPECT_GT(wrong, whole.size() / 4);
  }
}

/// One of 100,000 lines, and one that is larger than files may be.
TEST(LspEdits, LongFilesAreCheckedAsShortOnes) {
  std::string text = "cell A[H](x: [H]) -> y {\n  y = tahn(x[t])\n}\n";
  for (int line = 3; line < 100'000; ++line) text += "// line\n";
  Session session;
  const Json found = session.open(text);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NE(found[0]["message"].get<std::string>().find("did you mean `tanh`?"), std::string::npos);
  const Json range = {{"start", {{"line", 1}, {"character", 6}}},
                      {"end", {{"line", 1}, {"character", 10}}}};
  EXPECT_EQ(session.change({{{"range", range}, {"text", "tanh"}}}), Json::array());
  EXPECT_TRUE(session.ask("hover", 1, 2)["result"].is_object());
  text += std::string(kLargestSource, ' ');
  const Json refused = session.open(text);
  ASSERT_EQ(refused.size(), 1U);
  EXPECT_NE(refused[0]["message"].get<std::string>().find("1 MiB"), std::string::npos) << refused;
}

/// Items that use each other, and words that make them use others, or hide some.
constexpr std::string_view kItems = R"(import "more.rnn"
const slope = 0.1
fn bent(v) = leaky_relu(v, slope)
cell Inner[H](x: [H]) -> h {
  state h: [H]
  param R: [H, H]
  h[t] = bent(R @ h[t-1] + x[t])
}
cell Outer[I, H = 4](x: [I]) -> y {
  param W: [H, I]
  y = Inner[H = H](W @ x[t])
}
network Both[I](x: [I]) -> y {
  y = x
  for l in 0..2 { y = Outer[H = 3](y) }
  y = Imported(y)
}
)";
const char* const kWords[] = {"slope",
                              "bent",
                              "Inner",
                              "Outer",
                              "Both",
                              "leaky_relu",
                              "tanh",
                              "H",
                              "I",
                              "v",
                              "x",
                              "y",
                              "0.5",
                              "l",
                              "2",
                              "cell",
                              "fn",
                              "Imported",
                              "const",
                              "const leaky_relu = 2\n",
                              "fn tanhh(v) = v\n",
                              "fn leaky_relu(a, b) = a\n",
                              ""};

/// One session, so that what is known to be clean counts for long.
TEST(LspEdits, ItemsThatNameEachOtherAreCheckedAnew) {
  TemporaryDirectory folder;
  folder.write("more.rnn", "cell Imported[H](x: [H]) -> y {\n  y = 2 * x[t]\n}\n");
  const std::string path = (folder / "all.rnn").string();
  std::mt19937 random(11);
  const auto below = [&](size_t bound) { return static_cast<size_t>(random() % bound); };
  Session session;
  session.uri = lsp::uri_of(path);
  EXPECT_EQ(session.open(std::string(kItems)), fresh(path, std::string(kItems)));
  int wrong = 0;
  constexpr int kEdits = 600;
  for (int edit = 0; edit < kEdits; ++edit) {
    std::string text(kItems);
    // One or two words are others.
    for (size_t change = below(2) + 1; change-- > 0;) {
      Diagnostics ignored;
      const SourceFile file("all.rnn", text);
      const std::vector<Token> tokens = lex(file, 0, ignored);
      const Token& token = tokens[below(tokens.size())];
      text.replace(token.location.begin, token.location.end - token.location.begin,
                   kWords[below(std::size(kWords))]);
    }
    const Json found = session.change({{{"text", text}}});
    ASSERT_EQ(found, fresh(path, text)) << text;
    wrong += found.empty() ? 0 : 1;
    if (edit % 3 == 0) {
      folder.write("more.rnn",
                   fmt::format("cell Imported[H](x: [H]) -> y {{\n  y = {} * x[t]\n}}\n",
                               edit % 2 == 0 ? "slope" : "2"));
    }
  }
  EXPECT_GT(wrong, kEdits / 2);
  EXPECT_LT(wrong, kEdits);
}

TEST(LspEdits, WhatIsCleanIsPassedOver) {
  CheckMemory memory;
  const auto questions = [&](const std::string& text) {
    Unit unit("a.rnn", text);
    Diagnostics ignored;
    const SourceFile file("a.rnn", text);
    int asked = 0;
    EXPECT_TRUE(unit.check_again(memory, lex(file, 0, ignored), [&] {
      ++asked;
      return false;
    }));
    EXPECT_TRUE(unit.diagnostics().all().empty());
    return asked;
  };
  std::string many;
  for (int i = 0; i < 100; ++i) {
    many +=
        fmt::format("cell C{}[H](x: [H]) -> y {{\n  y = 2 * x[t] + {} + x[t] * x[t]\n}}\n", i, i);
  }
  const int first = questions(many);
  EXPECT_GT(first, 5);
  EXPECT_LT(questions("cell New[H](x: [H]) -> y {\n  y = x[t]\n}\n" + many), 2);
}

/// Near the end of what a file may say, unrolled, it matters what was passed over.
TEST(LspEdits, TheBudgetIsThatOfAFreshCheck) {
  const auto text = [](int first, int second) {
    std::string all = "fn twice(v) = 2 * v\n";
    for (const auto& [name, turns] : {std::pair("A", first), {"B", second}}) {
      all += fmt::format(
          "cell {}[H](x: [H]) -> y {{\n  y = x[t]\n  for l in 0..{} {{ y = twice(y) }}\n}}\n", name,
          turns);
    }
    return all;
  };
  Session session;
  const std::string path = "/folder/a.rnn";
  EXPECT_EQ(session.open(text(10, 10)), fresh(path, text(10, 10)));
  int wrong = 0;
  for (int turns = 1000; turns < 10000; turns += 450) {
    for (const std::string& now : {text(turns, turns), text(turns, turns + 100)}) {
      const Json found = session.change({{{"text", now}}});
      ASSERT_EQ(found, fresh(path, now)) << turns;
      wrong += found.empty() ? 0 : 1;
    }
  }
  EXPECT_GT(wrong, 4);
  EXPECT_LT(wrong, 36);
}

TEST(LspShipped, EveryNameOfEveryFileHasAHover) {
  std::vector<std::string> problems;
  for (const char* folder : {"cells", "networks"}) {
    for (const fs::path& file :
         fs::directory_iterator(fs::path(RNNC_SOURCE_DIR "/examples") / folder)) {
      if (file.extension() != ".rnn") continue;
      lsp::Document document(file.string(), TemporaryDirectory::read(file), {});
      const lsp::Analysis& analysis = document.checked();
      EXPECT_FALSE(analysis.unit.diagnostics().has_errors()) << file;
      for (const lsp::Symbol& symbol : analysis.index.symbols) {
        if (symbol.kind == lsp::Symbol::Kind::Builtin || symbol.location.file != 0) continue;
        const auto hover = lsp::hover(analysis, symbol.location.begin);
        ASSERT_TRUE(hover) << file << symbol.name;
        const bool shaped = symbol.kind == lsp::Symbol::Kind::Local;
        EXPECT_TRUE(!shaped || type_of(analysis, symbol)) << file << symbol.name;
        const bool state = symbol.kind == lsp::Symbol::Kind::State;
        EXPECT_TRUE(!state || hover->text.find("recurrence of `") != std::string::npos)
            << file << symbol.name << hover->text;
      }
      for (const Token& token : analysis.tokens) {
        if (token.kind != TokenKind::Name || token.text == "t") continue;
        if (!analysis.index.at(0, token.location.begin)) {
          problems.push_back(fmt::format("{}: {}", file.string(), token.text));
        }
      }
    }
  }
  EXPECT_EQ(problems, std::vector<std::string>());
}

}  // namespace
}  // namespace rnnc::test
