/// What the cases cannot say in text: bytes that are no text, limits, places, the Unit itself.
#include "frontend/unit.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "ir/graph/text.h"
#include "ir/graph/verify.h"

namespace rnnc {
namespace {

namespace fs = std::filesystem;

std::string rendered(std::string text) {
  Unit unit("case.rnn", std::move(text));
  unit.check();
  return unit.render();
}

const std::string kCell = "cell A[H](x: [H]) -> y { y = x[t] }\n";

TEST(Source, CountsLinesAndCharacters) {
  const SourceFile file("name", "ab\nüx\r\n\nlast");
  EXPECT_EQ(file.position(0).line, 1u);
  EXPECT_EQ(file.position(1).column, 2u);
  EXPECT_EQ(file.position(5).line, 2u);
  EXPECT_EQ(file.position(5).column, 2u);  // after the two bytes of ü
  EXPECT_EQ(file.line_at(3), "üx");
  EXPECT_EQ(file.line_at(8), "");
  EXPECT_EQ(file.position(1000).line, 4u);
  EXPECT_EQ(file.line_at(1000), "last");
  EXPECT_EQ(file.slice({0, 3, 5}), "ü");
  EXPECT_EQ(file.slice({0, 9, 1000}), "last");
}

TEST(Unit, WhatWasMovedFromDefinesNothing) {
  Unit unit("case.rnn", kCell);
  Unit moved(std::move(unit));
  EXPECT_TRUE(moved.lower("A", {}));
  Unit& empty = unit;  // NOLINT(bugprone-use-after-move)
  EXPECT_FALSE(empty.check());
  EXPECT_FALSE(empty.lower("A", {}));
  EXPECT_TRUE(empty.definitions().empty());
  EXPECT_FALSE(empty.is_network("A"));
  EXPECT_EQ(empty.print_ast(), "");
  EXPECT_EQ(empty.render(), "");
}

TEST(Diagnostics, SortsByPlaceAndDropsRepeats) {
  const std::vector<SourceFile> files = {{"f", "one\ntwo\n"}};
  Diagnostics diagnostics;
  diagnostics.error({0, 4, 7}, "second");
  diagnostics.warning({0, 0, 3}, "first", "do it");
  diagnostics.error({0, 4, 7}, "second");
  EXPECT_EQ(diagnostics.all().size(), 2u);
  EXPECT_TRUE(diagnostics.has_errors());
  EXPECT_EQ(diagnostics.render(files),
            "f:1:1: warning: first\n  one\n  ^~~\n  hint: do it\n"
            "f:2:1: error: second\n  two\n  ^~~\n");
}

TEST(Diagnostics, KeepsTwentyErrorsAndTwentyWarnings) {
  Diagnostics diagnostics;
  for (uint32_t i = 0; i < 100; ++i) {
    diagnostics.error({0, i, i + 1}, "wrong");
    diagnostics.warning({0, i, i + 1}, "odd");
  }
  EXPECT_EQ(diagnostics.all().size(), 40u);
  const std::string text = diagnostics.render({{"f", std::string(200, '\n')}});
  EXPECT_TRUE(text.ends_with("these are the first 20 errors; there are more\n")) << text;
}

TEST(Diagnostics, PlacesWithoutTextHaveNoCaret) {
  Diagnostics diagnostics;
  diagnostics.error({}, "no such cell");
  EXPECT_EQ(diagnostics.render({{"f", "text"}}), "f: error: no such cell\n");
  EXPECT_EQ(diagnostics.render({}), "error: no such cell\n");
}

TEST(Diagnostics, ShowsAWindowOfALongLine) {
  Diagnostics diagnostics;
  diagnostics.error({0, 5000, 5003}, "here");
  const std::string text = diagnostics.render({{"f", std::string(10000, 'x')}});
  EXPECT_LT(text.size(), 500u);
  EXPECT_NE(text.find("  ...xxx"), std::string::npos);
  EXPECT_NE(text.find("xxx...\n"), std::string::npos);
  EXPECT_NE(text.find(" ^~~\n"), std::string::npos);
}

TEST(Diagnostics, SendsNothingToTheTerminalThatItObeys) {
  Diagnostics diagnostics;
  diagnostics.error({0, 0, 1}, "here");
  EXPECT_EQ(diagnostics.render({{"f", "a\x1b[2J\xff\x7f"}}),
            "f:1:1: error: here\n  a?[2J??\n  ^\n");
}

TEST(Diagnostics, CaretsStandUnderWideLettersAndMarks) {
  const auto carets = [](const std::string& text, uint32_t begin, uint32_t end) {
    Diagnostics diagnostics;
    diagnostics.error({0, begin, end}, "here");
    const std::string all = diagnostics.render({{"f", text}});
    return all.substr(all.rfind("\n  ", all.size() - 2) + 3);
  };
  EXPECT_EQ(carets("名前 + x", 0, 6), "^~~~\n");
  EXPECT_EQ(carets("名前 + x", 9, 10), "       ^\n");
  EXPECT_EQ(carets("e\u0301e\u0301 + x", 0, 6), "^~\n");
  EXPECT_EQ(carets("e\u0301 + x", 6, 7), "    ^\n");
  EXPECT_EQ(carets("a\tb", 2, 3), " \t^\n");
  EXPECT_EQ(carets("\u0301", 0, 2), "^\n");
}

TEST(Diagnostics, NothingOfANameOrALineReachesTheTerminalAsACommand) {
  Diagnostics diagnostics;
  diagnostics.error({0, 1, 2}, "here");
  const std::string text = diagnostics.render({{"a\x1b[31m\u202e.rnn", "ab \u202e\u2066c\u200b"}});
  EXPECT_EQ(text, "a\\x1b[31m\\xe2\\x80\\xae.rnn:1:2: error: here\n  ab ??c?\n   ^\n");
}

TEST(Diagnostics, ColoursAreAskedFor) {
  Diagnostics diagnostics;
  diagnostics.report({Severity::Error, {0, 0, 1}, "wrong", "mend it", {{{0, 0, 1}, "see"}}});
  diagnostics.warning({0, 0, 1}, "odd");
  const std::string text = diagnostics.render({{"f", "a"}}, {.warnings = true, .colour = true});
  EXPECT_NE(text.find("\x1b[1;31merror:\x1b[0m wrong"), std::string::npos) << text;
  EXPECT_NE(text.find("\x1b[1;35mwarning:\x1b[0m odd"), std::string::npos) << text;
  EXPECT_NE(text.find("\x1b[1;36mhint:\x1b[0m mend it"), std::string::npos) << text;
  EXPECT_EQ(diagnostics.render({{"f", "a"}}).find('\x1b'), std::string::npos);
}

TEST(Diagnostics, FindsTheNearestName) {
  EXPECT_EQ(nearest_name("sigmod", {"tanh", "sigmoid", "sign"}), "sigmoid");
  EXPECT_EQ(nearest_name("Wi", {"W_f", "W_i", "b"}), "W_i");
  EXPECT_EQ(nearest_name("h", {"H", "x"}), "H");
  EXPECT_EQ(nearest_name("gru", {"GRU", "grub"}), "GRU");
  EXPECT_EQ(nearest_name("wieght_for_inputs", {"weight_for_input"}), "weight_for_input");
  EXPECT_EQ(nearest_name("gain_of_the_first_layer", {"bias_of_the_first_layer"}),
            "bias_of_the_first_layer");
  EXPECT_EQ(nearest_name(std::string(250, 'a') + "b", {std::string(250, 'a') + "c"}),
            std::string(250, 'a') + "c");
  EXPECT_EQ(nearest_name("h", {"x", "c"}), "");
  EXPECT_EQ(nearest_name("hidden", {"output"}), "");
  EXPECT_EQ(nearest_name("x", {}), "");
}

TEST(Unit, RefusesWhatIsNoText) {
  EXPECT_EQ(rendered(std::string("cell A\0", 7)),
            "case.rnn:1:7: error: not a text file: byte 6 is 0x00, which UTF-8 text does not have "
            "here\n  cell A?\n        ^\n  hint: an editor saves it as UTF-8\n");
  EXPECT_NE(rendered("\xff\xfe").find("byte 0 is 0xff"), std::string::npos);
  EXPECT_NE(rendered("\xc0\x80").find("byte 0 is 0xc0"), std::string::npos);      // overlong
  EXPECT_NE(rendered("\xed\xa0\x80").find("byte 0 is 0xed"), std::string::npos);  // surrogate
  EXPECT_NE(rendered("ab\xe2\x82").find("byte 2 is 0xe2"), std::string::npos);    // cut short
  EXPECT_EQ(rendered(std::string(kLargestSource + 1, ' ')),
            "case.rnn: error: the file has 1048577 bytes, more than 1 MiB\n"
            "  hint: its definitions can be parted into files: `import \"file.rnn\"`\n");
}

TEST(Unit, TakesMarksAndLineEndsOfOtherSystems) {
  EXPECT_EQ(rendered("\xEF\xBB\xBF" + kCell), "");
  EXPECT_EQ(rendered("cell A[H](x: [H]) -> y {\r\n  y = x[t]\r\n}\r\n"), "");
  EXPECT_EQ(rendered("cell A[H](x: [H]) -> y {\r\n  y = z\r\n}\r\n"),
            "case.rnn:2:7: error: unknown name `z`\n  y = z\n      ^\n"
            "  hint: params and states are declared: `param z: […]`\n");
  EXPECT_EQ(rendered(""),
            "case.rnn: warning: the file defines nothing\n"
            "  hint: a cell is `cell NAME[I, H](x: [I]) -> h { … }`\n");
}

std::string repeat(std::string_view text, int count) {
  std::string result;
  for (int i = 0; i < count; ++i) result += text;
  return result;
}

TEST(Unit, BoundsDepth) {
  const auto cell = [](const std::string& body) {
    return "cell A(x: []) -> y {\n" + body + "\n}\n";
  };
  constexpr int kDeep = 50000;
  EXPECT_NE(rendered(cell("y = " + repeat("(", kDeep) + "1" + repeat(")", kDeep)))
                .find("this is nested more than 200 levels deep"),
            std::string::npos);
  EXPECT_NE(rendered(cell("y = " + repeat("-", kDeep) + "1")).find("levels deep"),
            std::string::npos);
  EXPECT_NE(rendered(cell("y = " + repeat("tanh(", kDeep))).find("levels deep"), std::string::npos);
  EXPECT_NE(rendered(cell(repeat("for l in 0..1 {", kDeep))).find("levels deep"),
            std::string::npos);
  EXPECT_NE(rendered(cell("y = x" + repeat("[0]", kDeep))).find("more than 200 operations"),
            std::string::npos);
  const std::string chain = rendered(cell("y = 1" + repeat(" + 1", kDeep)));
  EXPECT_NE(chain.find("an expression of more than 200 operations in a row"), std::string::npos);
  EXPECT_NE(chain.find("hint: give a part of it a name of its own"), std::string::npos);
  EXPECT_EQ(rendered(cell("y = x[t]" + repeat(" + 1", 150))), "");
}

/// As `python3 gen.py`: many params, and as many reads of names that are almost theirs.
std::string misspelt(int count, int length) {
  const std::string stem(static_cast<size_t>(length - 6), 'p');
  std::string text = "cell A[I](x: [I]) -> y {\n";
  for (int i = 0; i < count; ++i) text += fmt::format(" param {}{:05}: [I]\n", stem, i);
  for (int i = 0; i < count; ++i) text += fmt::format(" y{} = {}{:04}q\n", i, stem, i);
  return text + " y = x[t]\n}\n";
}

/// Seconds that checking takes.
double seconds_of(const std::string& text) {
  const auto start = std::chrono::steady_clock::now();
  rendered(text);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Each of these took minutes when hints were sought for errors that nobody sees, or when bodies
// were gone through for each call. The bound is far above what they take, for slow machines.
TEST(Unit, ChecksInTimeWhatIsMadeToTakeLong) {
  EXPECT_LT(seconds_of(misspelt(1000, 250)), 10);
  EXPECT_LT(seconds_of(misspelt(15000, 12)), 10);
  const std::string idle = "cell A(x: []) -> y {\n  for l in 0..0 {\n" + repeat("a=x[t]\n", 60000) +
                           "  }\n  y = x[t]\n}\n";
  EXPECT_LT(seconds_of(idle + "network N(x: []) -> y {\ny=x\n" + repeat("y=A(y)\n", 20000) + "}\n"),
            10);
  EXPECT_LT(seconds_of(repeat("const a = ?\n", 80000)), 10);
  EXPECT_LT(seconds_of(repeat("cell A(x: []) -> y { y = z }\n", 30000)), 10);
}

TEST(Unit, BoundsDims) {
  std::string dims, inputs, sums;
  for (int i = 0; i < 64; ++i) {
    dims += fmt::format("{}d{}", i == 0 ? "" : ", ", i);
    inputs += fmt::format("{}x{}: [d{}]", i == 0 ? "" : ", ", i, i);
    if (i > 0) sums += fmt::format("  y = concat(y, x{}[t])\n", i);
  }
  const auto cell = [&](const std::string& more, const std::string& body) {
    return "cell A[" + dims + more + "](" + inputs + ") -> y {\n  y = x0[t]\n" + body + "}\n";
  };
  EXPECT_EQ(rendered(cell("", sums)), "");
  EXPECT_NE(rendered(cell(", e", sums)).find("a cell has at most 64 dims, this one has 65"),
            std::string::npos);
  EXPECT_NE(rendered(cell(", e", sums)).find("hint: sizes that are always the same are numbers"),
            std::string::npos);
  EXPECT_NE(rendered(cell("", sums + repeat("  y = -y\n", 20000))).find("65536 operations"),
            std::string::npos);
}

TEST(Unit, BoundsRecursionOfCalls) {
  std::string text = "fn f0(v) = v\n";
  for (int i = 1; i < 2000; ++i) text += fmt::format("fn f{}(v) = f{}(v)\n", i, i - 1);
  Unit unit("case.rnn", text + "cell A(x: []) -> y { y = f1999(x[t]) }\n");
  EXPECT_FALSE(unit.lower("A", {}));
  EXPECT_NE(unit.render().find("calls and expressions are nested too deeply here"),
            std::string::npos)
      << unit.render();
}

TEST(Unit, BoundsUnrolling) {
  std::string text = "fn f0(v) = v + v\n";
  for (int i = 1; i < 40; ++i) text += fmt::format("fn f{0}(v) = f{1}(v) + f{1}(v)\n", i, i - 1);
  EXPECT_NE(rendered(text + "cell A(x: []) -> y { y = f39(x[t]) }\n")
                .find("unrolled, this file has more than 65536 operations"),
            std::string::npos);
  std::string layers = "network N0(x: []) -> y { y = x }\n";
  for (int i = 1; i < 40; ++i) {
    layers += fmt::format("network N{0}(x: []) -> y {{ y = N{1}(N{1}(x)) }}\n", i, i - 1);
  }
  EXPECT_NE(rendered(layers).find("operations"), std::string::npos);
  // Even where the last straw is in the prelude: the place there is not the user's.
  std::string norms = "fn f0(v) = softmax(v)\n";
  for (int i = 1; i < 40; ++i) norms += fmt::format("fn f{0}(v) = f{1}(f{1}(v))\n", i, i - 1);
  norms += "cell A[H](x: [H]) -> y { y = f39(x[t]) }\n";
  EXPECT_EQ(rendered(norms).find("prelude"), std::string::npos) << rendered(norms);
}

std::string rendered(std::string text, const Importer& importer) {
  Unit unit("case.rnn", std::move(text), importer);
  unit.check();
  return unit.render();
}

TEST(Unit, ImportsNothingWithoutAnImporter) {
  EXPECT_EQ(rendered("import \"a.rnn\"\n" + kCell),
            "case.rnn:1:1: error: there is no place here to import files from\n"
            "  import \"a.rnn\"\n  ^~~~~~~~~~~~~~\n  hint: write its cells into this text\n");
}

TEST(Unit, ImportsAreRelativeToTheImportingFile) {
  const Importer importer = [](const std::string& from, const std::string& path) {
    return ImportedFile{from + "/" + path, from == "case.rnn" ? "import \"b\"\n" : kCell};
  };
  Unit unit("case.rnn", "import \"a\"\n", importer);
  EXPECT_TRUE(unit.check()) << unit.render();
  EXPECT_TRUE(unit.lower("A", {}));
  EXPECT_EQ(unit.definitions(), std::vector<std::string>{});
  EXPECT_EQ(unit.print_ast("A"), "cell A[H](x: [H]) -> y {\n  y = x[t]\n}\n");
  EXPECT_EQ(unit.print_ast(), "import \"a\"\n");
}

TEST(Unit, BoundsImports) {
  const auto chain = [](const std::string&, const std::string& path) -> Result<ImportedFile> {
    return ImportedFile{path, fmt::format("import \"{}\"\n", std::stoi(path) + 1)};
  };
  EXPECT_EQ(rendered("import \"1\"\n", chain),
            "255:1:1: error: with this one, more than 256 files are imported\n"
            "  import \"256\"\n  ^~~~~~~~~~~~\n"
            "  hint: import only what is used, or join small files\n");
  const auto large = [](const std::string&, const std::string& path) -> Result<ImportedFile> {
    return ImportedFile{path, std::string(kLargestSource, ' ')};
  };
  const std::string four = "import \"1\"\nimport \"2\"\nimport \"3\"\nimport \"4\"\n";
  EXPECT_EQ(rendered(four, large),
            "case.rnn:4:1: error: with this one, more than 4 MiB are imported\n"
            "  import \"4\"\n  ^~~~~~~~~~\n  hint: import only what is used\n");
}

TEST(Unit, ListsAndPrintsDefinitions) {
  const Unit unit("case.rnn",
                  "const c = 1\nfn f(v) = v\n" + kCell + "network B(x: []) -> y { y = x }\n");
  EXPECT_EQ(unit.definitions(), (std::vector<std::string>{"A", "B"}));
  EXPECT_EQ(unit.print_ast("f"), "fn f(v) = v\n");
  EXPECT_EQ(unit.print_ast("A"), "cell A[H](x: [H]) -> y {\n  y = x[t]\n}\n");
  EXPECT_EQ(unit.print_ast("none"), "");
}

TEST(Unit, ChecksWithTheDimsThatAreGiven) {
  const std::string text =
      "cell A[H, N](x: [H]) -> y {\n  param R: [H, H] blocks N\n  y = R @ x[t] + x[t][5]\n}\n"
      "cell B[N](x: []) -> y {\n  for l in 0..N { y = x[t] }\n}\n"
      "network C(x: [6]) -> y { y = A[N = 2](x) }\n";
  const auto said = [&](const std::string& name, const DimBindings& dims) {
    Unit unit("case.rnn", text);
    unit.check(name, dims);
    return unit.render();
  };
  EXPECT_EQ(said("", {{"H", 6}, {"N", 3}}), "");
  EXPECT_NE(said("", {{"H", 7}, {"N", 3}}).find("`N` blocks do not divide `H` (H = 7, N = 3)"),
            std::string::npos);
  EXPECT_NE(said("", {{"H", 4}}).find("the index `5` is out of range"), std::string::npos);
  EXPECT_EQ(said("", {{"Q", 4}}),
            "case.rnn: error: `case.rnn` has no dim `Q`\n"
            "  hint: its dims are H, N\n");
  EXPECT_EQ(said("", {{"N", 0}}),
            "case.rnn: error: the dim `N` is 0, but dims start at 1\n"
            "  hint: scalars have no dims at all\n");
  EXPECT_NE(said("B", {{"H", 4}}).find("`B` has no dim `H`"), std::string::npos);
}

TEST(Unit, NamesOfCallersHaveOneSpelling) {
  Unit unit("case.rnn", "cell \u00c9[\u00e9](x: [\u00e9]) -> y { y = x[t] }\n");
  EXPECT_EQ(unit.definitions(), std::vector<std::string>{"\u00c9"});
  EXPECT_TRUE(unit.lower("E\u0301", {{"e\u0301", 3}})) << unit.render();
}

TEST(Unit, MovesAndLowersAgain) {
  Unit first("case.rnn", kCell);
  Unit unit = std::move(first);
  ASSERT_TRUE(unit.check());
  const auto once = unit.lower("A", {});
  const auto twice = unit.lower("A", {{"H", 3}});
  ASSERT_TRUE(once && twice);
  EXPECT_EQ(to_string(*once), to_string(*twice));  // shapes stay symbolic
  EXPECT_FALSE(unit.lower("B", {}));
  EXPECT_TRUE(unit.lower("A", {}));  // an error elsewhere does not stick
}

TEST(Unit, SyntaxErrorsStopTheRest) {
  Unit unit("case.rnn", kCell + "cell B(\n");
  EXPECT_FALSE(unit.check());
  EXPECT_FALSE(unit.lower("A", {}));
}

std::string text_of(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

Result<ImportedFile> import_file(const std::string& importer, const std::string& path) {
  const fs::path file = (fs::path(importer).parent_path() / path).lexically_normal();
  if (!fs::exists(file)) return fail("there is no file {}", file.string());
  return ImportedFile{file, text_of(file)};
}

TEST(Examples, CheckWithoutAWord) {
  int count = 0;
  for (const auto& entry :
       fs::recursive_directory_iterator(fs::path(RNNC_SOURCE_DIR) / "examples")) {
    if (entry.path().extension() != ".rnn") continue;
    SCOPED_TRACE(entry.path());
    ++count;
    Unit unit(entry.path(), text_of(entry.path()), import_file);
    EXPECT_TRUE(unit.check());
    EXPECT_EQ(unit.render(), "");
    Unit printed(entry.path(), unit.print_ast(), import_file);
    EXPECT_EQ(printed.print_ast(), unit.print_ast());
    for (const std::string& name : unit.definitions()) {
      const auto graph = unit.lower(name, {});
      const auto again = printed.lower(name, {});
      ASSERT_TRUE(graph && again) << unit.render();
      EXPECT_TRUE(verify(*graph));
      EXPECT_EQ(to_string(*graph), to_string(*again));
      const auto parsed = parse_graph(to_string(*graph));
      ASSERT_TRUE(parsed);
      EXPECT_EQ(to_string(*parsed), to_string(*graph));
    }
  }
  EXPECT_GE(count, 11);
}

}  // namespace
}  // namespace rnnc
