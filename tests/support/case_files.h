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
/// changed.
///
/// What cases of a file have in common stands before them as a case `=== frame`. Where it has a
/// line `...`, their texts stand there; else they say what is different in it, first what is there
/// and then what stands in its place:
///
///     - in f32 vector
///     + in f32 scalar
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
  std::string frame;                         // the last before it; empty if there is none

  const std::string& text() const { return texts.at(""); }
  /// `part`, its text or what it expects, in its frame, if there is one and it is not whole itself.
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
