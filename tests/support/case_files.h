/// Tests that are files of cases, text in and text out:
///
///     === command: title
///     text
///     --- name
///     a further text; any number of these
///     ---
///     what is expected
///
/// `PROGRAM --update-cases` writes what came out in the place of what was expected; review what
/// changed. A case `=== frame` before the others of its file holds what their texts have around
/// them, with a line `...` where they stand.
#pragma once

#include <map>
#include <ostream>
#include <string>
#include <vector>

namespace rnnc::test {

struct FileCase {
  std::string file;     // "tests/passes/cases/padding.txt"
  std::string command;  // "check", "lower A H=4"
  std::string title;
  std::map<std::string, std::string> texts;  // by name; the first has none
  std::string expected;                      // ends without a newline
  std::string frame;                         // of its file; empty if there is none

  const std::string& text() const { return texts.at(""); }
  /// In its frame, if there is one.
  std::string framed(const std::string& part) const;
  /// "padding_rows_of_h", for names of tests.
  std::string name() const;
};

inline void PrintTo(const FileCase& one, std::ostream* out) {
  *out << one.file << ": " << one.title;
}

/// Those of all files `folder`/*.txt below `data_root()`, in order of name.
std::vector<FileCase> read_file_cases(const std::string& folder);

/// Expects `actual` to be what the case expects, or writes it there.
void expect_output(const FileCase& one, const std::string& actual);
/// Whether expectations are written.
bool updates_cases();

/// The `main` of a program with such cases: takes --update-cases.
int run_tests(int argc, char** argv);

}  // namespace rnnc::test
