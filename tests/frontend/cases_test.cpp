/// Text in, text out: every case in cases/*.txt is a source and what rnnc says to it.
///
///     === check: title            diagnostics of Unit::check
///     === ast: title              syntax errors and the syntax tree
///     === format: title           the text in the one style
///     === lower NAME H=4: title   diagnostics and the Graph of Unit::lower
///     source, named case.rnn
///     --- other.rnn
///     a file that it can import; any number of these
///     ---
///     what is expected
///
/// `rnnc_test_frontend --update-cases` writes what came out in its place
/// (tests/support/case_files.h).
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "frontend/syntax/format.h"
#include "frontend/unit.h"
#include "ir/graph/text.h"
#include "ir/graph/verify.h"
#include "tests/support/case_files.h"
#include "tests/support/source_texts.h"

namespace rnnc {
namespace {

using test::expect_output;
using test::FileCase;
using test::read_file_cases;
namespace fs = std::filesystem;

const fs::path kRoot = RNNC_SOURCE_DIR;

struct Case : FileCase {
  explicit Case(FileCase one) : FileCase(std::move(one)) {}

  Unit unit() const { return unit(text()); }
  Unit unit(const std::string& source) const {
    return {"case.rnn", source,
            [this](const std::string&, const std::string& path) { return import(path); }};
  }

 private:
  Result<ImportedFile> import(const std::string& path) const {
    const auto found = texts.find(path == "case.rnn" ? "" : path);
    if (found == texts.end()) return fail("there is no file `{}`", path);
    return ImportedFile{path, found->second};
  }
};

std::vector<Case> read_cases() {
  std::vector<Case> cases;
  for (FileCase& one : read_file_cases("tests/frontend/cases")) cases.emplace_back(std::move(one));
  return cases;
}

std::string read(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

std::string run(const Case& one) {
  Unit unit = one.unit();
  std::istringstream words(one.command);
  std::string command, name;
  words >> command >> name;
  std::string result;
  if (command == "check") {
    const bool good = unit.check();
    EXPECT_EQ(good, !unit.diagnostics().has_errors());
    result = unit.render();
  } else if (command == "ast") {
    result = unit.render() + unit.print_ast();
  } else if (command == "format") {
    result = format_source(SourceFile("case.rnn", one.text()));
  } else {
    DimBindings dims;
    for (std::string word; words >> word;) {
      const size_t equals = word.find('=');
      dims[word.substr(0, equals)] = std::stoll(word.substr(equals + 1));
    }
    const std::optional<Graph> graph = unit.lower(name, dims);
    result = unit.render();
    if (graph) {
      const Status valid = verify(*graph);
      EXPECT_TRUE(valid) << (valid ? "" : valid.error().message);
      result += to_string(*graph);
    } else {
      EXPECT_TRUE(unit.diagnostics().has_errors());
    }
  }
  result.erase(result.find_last_not_of('\n') + 1);
  return result;
}

TEST(Cases, SayWhatIsExpected) {
  const std::vector<Case> cases = read_cases();
  ASSERT_GT(cases.size(), 50u);
  for (const Case& one : cases) {
    SCOPED_TRACE(one.file + ": " + one.title);
    expect_output(one, run(one));
  }
}

TEST(Cases, PrintedTreesParseToTheSameTree) {
  for (const Case& one : read_cases()) {
    const Unit unit = one.unit();
    if (unit.diagnostics().has_errors()) continue;
    const std::string printed = unit.print_ast();
    const Unit again = one.unit(printed);
    EXPECT_EQ(again.render(), "") << printed;
    EXPECT_EQ(again.print_ast(), printed);
  }
}

/// The source after the edits of a hint, which stand apart.
std::string mended(const std::string& source, std::vector<Edit> edits) {
  std::ranges::sort(edits, std::greater(), [](const Edit& edit) { return edit.location.begin; });
  std::string text = source;
  for (const Edit& edit : edits) {
    const SourceLocation place = edit.location;
    EXPECT_LE(place.begin, place.end);
    EXPECT_LE(place.end, text.size());
    text.replace(place.begin, place.end - place.begin, edit.text);
  }
  return text;
}

TEST(Cases, EditsMendWhatTheyAreFor) {
  size_t count = 0;
  for (const Case& one : read_cases()) {
    const std::string& source = one.text();
    Unit unit = one.unit();
    unit.check();
    for (const Diagnostic& wrong : unit.diagnostics().all()) {
      if (wrong.hint.edits.empty() || wrong.location.file != 0) continue;
      SCOPED_TRACE(one.file + ": " + one.title + ": " + wrong.message);
      ++count;
      Unit again = one.unit(mended(source, wrong.hint.edits));
      again.check();
      // What comes before it has not moved.
      for (const Diagnostic& other : again.diagnostics().all()) {
        EXPECT_FALSE(other.message == wrong.message && other.location.begin == wrong.location.begin)
            << mended(source, wrong.hint.edits) << again.render();
      }
    }
  }
  EXPECT_GT(count, 100u);
}

// --- Every text that the front end can say is in some case.

/// The messages, notes and hints in rendered diagnostics.
std::vector<std::string> messages(const std::string& rendered) {
  std::vector<std::string> found;
  std::istringstream lines(rendered);
  for (std::string line; std::getline(lines, line);) {
    for (const std::string_view kind : {"error: ", "warning: ", "note: ", "hint: "}) {
      const size_t at = line.find(kind);
      if (at != std::string::npos) found.push_back(line.substr(at + kind.size()));
    }
  }
  return found;
}

TEST(Cases, CoverEveryText) {
  std::vector<std::string> said = literals(read(kRoot / "tests/frontend/unit_test.cpp"));
  for (const Case& one : read_cases())
    std::ranges::move(messages(one.expected), back_inserter(said));
  size_t texts = 0;
  size_t tested = 0;
  for (const auto& entry : fs::recursive_directory_iterator(kRoot / "frontend")) {
    const std::string name = entry.path().filename();
    const bool code = entry.path().extension() == ".cpp" || entry.path().extension() == ".h";
    if (!code || name == "ast.cpp") continue;  // which prints source
    for (const std::string& literal : literals(read(entry.path()))) {
      if (std::ranges::count(literal, ' ') < 2) continue;  // names, spellings, separators
      ++texts;
      const bool found = says(said, fixed_parts(literal));
      EXPECT_TRUE(found) << name << ": no case has the text: " << literal;
      if (found) ++tested;
    }
  }
  EXPECT_EQ(tested, texts);
  EXPECT_GT(texts, 150u);
}

}  // namespace
}  // namespace rnnc
