/// Runs `rnnc` in a folder with a few files, and sees what it leaves there.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "tests/runtime/temporary_directory.h"

namespace rnnc::test {

struct Line {
  std::vector<std::string> words;  // behind `rnnc`
  std::string input;               // the file that is standard input
};

struct LineResult {
  int exit_code = -1;  // -1: ended by a signal
  int signal = 0;
  bool timed_out = false;
  std::string output;
  std::string errors;
  bool changed_files = false;
  std::vector<std::string> temporary_files;
};

/// What is wrong with how a command line ended, or "".
std::string check(const LineResult& result);

class LineRunner {
 public:
  explicit LineRunner(std::filesystem::path rnnc);

  LineResult run(const Line& line);
  /// What is printed by a line that is known to be good.
  std::string ask(const std::vector<std::string>& words);
  /// Names of the files in the folder.
  const std::vector<std::string>& files() const { return files_; }

 private:
  void fill_folder();
  /// Names, sizes and times.
  std::map<std::string, std::string> look() const;

  std::filesystem::path rnnc_;
  TemporaryDirectory place_;
  std::filesystem::path folder_;
  std::vector<std::string> files_;
};

}  // namespace rnnc::test
