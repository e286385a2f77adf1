/// Formatting: shipped files are in style, and whatever stands between tokens, what is said stays.
#include "frontend/syntax/format.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <sstream>
#include <vector>

#include "frontend/syntax/parser.h"
#include "tests/frontend/try_source.h"
#include "tests/support/case_files.h"

namespace rnnc {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> shipped_files() {
  std::vector<std::string> texts;
  for (const char* folder : {"examples", "bench/cells", "frontend"}) {
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(RNNC_SOURCE_DIR) / folder)) {
      if (entry.path().extension() != ".rnn") continue;
      std::ostringstream text;
      text << std::ifstream(entry.path(), std::ios::binary).rdbuf();
      texts.push_back(text.str());
    }
  }
  return texts;
}

bool parses(const std::string& text) {
  Diagnostics diagnostics;
  parse(SourceFile("text.rnn", text), 0, diagnostics);
  return !diagnostics.has_errors();
}

/// Those shipped and those of the cases that parse.
std::vector<std::string> all_texts() {
  std::vector<std::string> texts = shipped_files();
  for (const test::FileCase& one : test::read_file_cases("tests/frontend/cases")) {
    if (parses(one.text())) texts.push_back(one.text());
  }
  return texts;
}

TEST(Format, ShippedFilesAreInStyle) {
  const std::vector<std::string> texts = shipped_files();
  EXPECT_GT(texts.size(), 60u);
  for (const std::string& text : texts) EXPECT_EQ(format_source(SourceFile("file", text)), text);
}

TEST(Format, KeepsWhatCasesSay) {
  for (const std::string& text : all_texts()) EXPECT_EQ(try_format(text), "") << text;
}

/// RNNC_MUTATED_FILES sets how many there are.
TEST(Format, KeepsWhatMutatedFilesSay) {
  constexpr const char* kParts[] = {" ",   "\n",        "\n\n\n", "\t", "\r\n", "// a comment\n",
                                    "  ",  "/// doc\n", "- ",     "{",  "}",    "\n// x\n\n",
                                    "[t]", "(",         ")",      "[",  "]",    ",\n"};
  const std::vector<std::string> texts = all_texts();
  const char* wanted = std::getenv("RNNC_MUTATED_FILES");
  const size_t files = wanted != nullptr ? std::strtoul(wanted, nullptr, 10) : 4000;
  std::mt19937 random(1);
  const auto below = [&](size_t bound) { return random() % bound; };
  size_t parsed = 0;
  while (parsed < files) {
    std::string text = texts[below(texts.size())];
    for (size_t edits = 1 + below(6); edits > 0; --edits) {
      const size_t place = below(text.size() + 1);
      if (below(4) == 0 && place < text.size()) {
        text.erase(place, 1);
      } else {
        // Beside a blank most of what is put in leaves a file that parses.
        const size_t blank = text.find_first_of(" \n", place);
        text.insert(blank == text.npos ? place : blank, kParts[below(std::size(kParts))]);
      }
    }
    if (!parses(text)) continue;
    ++parsed;
    ASSERT_EQ(try_format(text), "") << text;
  }
}

}  // namespace
}  // namespace rnnc
