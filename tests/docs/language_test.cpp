// docs/language.md says what the language is; these tests hold it to that.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "frontend/syntax/format.h"
#include "frontend/unit.h"
#include "ir/graph/interpreter.h"
#include "ir/graph/verify.h"
#include "passes/build_plan.h"
#include "tests/docs/grammar.h"
#include "tests/support/cells/random_graph.h"
#include "tests/support/reference/plan_executor.h"

namespace rnnc::test {
namespace {

namespace fs = std::filesystem;

std::string read(const fs::path& path) {
  std::ifstream stream(path);
  EXPECT_TRUE(stream) << path;
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

fs::path source_folder() {
  return RNNC_SOURCE_DIR;
}

/// Blocks of a Markdown file between ``` lines, with the words behind the first.
struct Block {
  std::string file;
  size_t line = 0;
  std::string kind;
  std::string name;
  std::string text;
};

std::vector<Block> blocks_of(const std::string& file) {
  std::istringstream text(read(source_folder() / "docs" / file));
  std::vector<Block> blocks;
  bool inside = false;
  size_t number = 0;
  for (std::string line; std::getline(text, line);) {
    ++number;
    if (line.starts_with("```")) {
      if (!inside) {
        std::istringstream words(line.substr(3));
        Block& block = blocks.emplace_back();
        block.file = file;
        block.line = number;
        words >> block.kind >> block.name;
      }
      inside = !inside;
    } else if (inside) {
      blocks.back().text += line + "\n";
    }
  }
  EXPECT_FALSE(inside) << file;
  return blocks;
}

std::vector<Block> blocks_of_all_pages() {
  std::vector<Block> blocks;
  const fs::path folder = source_folder() / "docs";
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.path().extension() != ".md") continue;
    for (Block& block : blocks_of(entry.path().lexically_relative(folder).string())) {
      blocks.push_back(std::move(block));
    }
  }
  return blocks;
}

Grammar documented_grammar() {
  for (const Block& block : blocks_of("language.md")) {
    if (block.kind == "ebnf") return Grammar(block.text);
  }
  ADD_FAILURE() << "docs/language.md has no ```ebnf block";
  return Grammar("module := EOL");
}

bool parses(const std::string& text) {
  const Importer importer = [](const std::string&, const std::string& path) {
    return ImportedFile{path, ""};
  };
  return !Unit("text.rnn", text, importer).diagnostics().has_errors();
}

/// The syntax of files that people wrote.
std::vector<fs::path> files() {
  std::vector<fs::path> paths;
  for (const char* folder : {"examples", "frontend"}) {
    for (const auto& entry : fs::recursive_directory_iterator(source_folder() / folder)) {
      if (entry.path().extension() == ".rnn") paths.push_back(entry.path());
    }
  }
  std::ranges::sort(paths);
  return paths;
}

// ---- Examples ----

/// Small, even and all different, so that blocks divide and no two dims fit by chance.
DimBindings some_dims(const Graph& graph) {
  DimBindings dims;
  int64_t next = 6;
  for (const DimDecl& dim : graph.dims) {
    if (!dim.default_value) dims[dim.name] = next;
    if (!dim.default_value) next += 2;
  }
  return *complete_bindings(graph, dims);
}

/// What a block imports: another of its page, or a file of the repository.
Importer importer_of(const Block& block, const std::vector<Block>& blocks) {
  return [&](const std::string&, const std::string& path) {
    for (const Block& other : blocks) {
      if (other.file == block.file && other.name == path) return ImportedFile{path, other.text};
    }
    return ImportedFile{path, read(source_folder() / path)};
  };
}

void run_example(const Block& block, const std::vector<Block>& blocks) {
  SCOPED_TRACE(fmt::format("docs/{}:{}", block.file, block.line));
  EXPECT_EQ(format_source(SourceFile("example.rnn", block.text)), block.text);
  Unit unit("example.rnn", block.text, importer_of(block, blocks));
  ASSERT_TRUE(unit.check()) << unit.render();
  EXPECT_TRUE(unit.render().empty()) << unit.render();  // no warnings either
  ASSERT_FALSE(unit.definitions().empty());
  for (const std::string& name : unit.definitions()) {
    std::optional<Graph> graph = unit.lower(name, {});
    ASSERT_TRUE(graph.has_value()) << unit.render();
    graph->bind(some_dims(*graph));
    ASSERT_TRUE(verify(*graph).has_value()) << verify(*graph).error().message;
    const InterpreterArgs args = random_args(*graph, /*steps=*/5, /*batch=*/3, /*seed=*/1);
    const InterpreterResult expected = interpret(*graph, args);
    const Result<Plan> plan =
        build_plan(*graph, {.dtype = DType::f64, .batch = 3, .max_steps = 5, .chunk = 2});
    ASSERT_TRUE(plan.has_value()) << plan.error().message;
    const InterpreterResult got = execute_plan(*plan, args);
    for (size_t i = 0; i < expected.outputs.size(); ++i) {
      for (size_t j = 0; j < expected.outputs[i].size(); ++j) {
        ASSERT_NEAR(got.outputs[i][j], expected.outputs[i][j], 1e-12) << name;
      }
    }
  }
}

TEST(Language, EveryExampleRuns) {
  size_t count = 0;
  const std::vector<Block> blocks = blocks_of_all_pages();
  for (const Block& block : blocks) {
    if (block.kind != "rnn") continue;
    run_example(block, blocks);
    ++count;
  }
  EXPECT_GT(count, 10u);
}

TEST(Language, EveryWrongExampleGivesTheErrorBelowIt) {
  const std::vector<Block> blocks = blocks_of_all_pages();
  size_t count = 0;
  for (size_t i = 0; i + 1 < blocks.size(); ++i) {
    if (blocks[i].kind != "rnn-error") continue;
    Unit unit("broken.rnn", blocks[i].text);
    EXPECT_FALSE(unit.check());
    EXPECT_NE(unit.render().find(blocks[i + 1].text), std::string::npos) << unit.render();
    ++count;
  }
  EXPECT_GT(count, 0u);
}

// ---- Grammar ----

TEST(Grammar, IsComplete) {
  const Grammar grammar = documented_grammar();
  EXPECT_EQ(grammar.undefined(), std::vector<std::string>{});
  EXPECT_GT(grammar.productions(), 20u);
}

TEST(Grammar, DerivesEveryFileAndExample) {
  const Grammar grammar = documented_grammar();
  for (const fs::path& path : files()) EXPECT_TRUE(grammar.derives(terminals(read(path)))) << path;
  for (const Block& block : blocks_of_all_pages()) {
    if (!block.kind.starts_with("rnn")) continue;
    EXPECT_TRUE(grammar.derives(terminals(block.text))) << block.text;
  }
}

TEST(Grammar, ItsSentencesParse) {
  const Grammar grammar = documented_grammar();
  for (uint64_t seed = 0; seed < 1500; ++seed) {
    const std::string text = grammar.sentence(seed);
    ASSERT_TRUE(grammar.derives(terminals(text))) << "seed " << seed << "\n" << text;
    ASSERT_TRUE(parses(text)) << "seed " << seed << "\n" << text;
  }
}

/// The text of a file, one word changed.
std::string mutate(const std::string& text, std::mt19937_64& random) {
  static constexpr const char* kWords[] = {
      "(", ")",  "[", "]", "{",   "}",  ",",  ":",       "=",  "+",     "-",        "*",    "@",
      "<", "->", "h", "2", "for", "in", "as", "reverse", "..", "state", "blocks 2", "cell", "fn"};
  std::vector<std::pair<size_t, size_t>> words;
  for (size_t at = 0; (at = text.find_first_not_of(" \n", at)) != std::string::npos;) {
    const size_t end = std::min(text.find_first_of(" \n", at), text.size());
    words.emplace_back(at, end);
    at = end;
  }
  if (words.empty()) return text;
  const auto [begin, end] = words[random() % words.size()];
  const std::string word = text.substr(begin, end - begin);
  const std::string other = kWords[random() % std::size(kWords)];
  switch (random() % 3) {
    case 0:
      return text.substr(0, begin) + text.substr(end);
    case 1:
      return text.substr(0, begin) + other + text.substr(end);
    default:
      return text.substr(0, begin) + other + " " + word + text.substr(end);
  }
}

TEST(Grammar, AgreesWithTheParserOnChangedSentences) {
  const Grammar grammar = documented_grammar();
  std::mt19937_64 random(7);
  size_t accepted = 0;
  size_t rejected = 0;
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    const std::string text = mutate(grammar.sentence(seed % 500) + " ", random);
    const bool derived = grammar.derives(terminals(text));
    ASSERT_EQ(parses(text), derived) << "seed " << seed << "\n" << text;
    ++(derived ? accepted : rejected);
  }
  EXPECT_GT(accepted, 500u);
  EXPECT_GT(rejected, 500u);
}

}  // namespace
}  // namespace rnnc::test
