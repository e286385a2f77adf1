/// Writes random command lines.
#pragma once

#include <map>
#include <random>
#include <string>
#include <vector>

#include "tests/command_lines/line_runner.h"

namespace rnnc::test {

class LineWriter {
 public:
  /// Learns commands and options from the `rnnc` that `runner` runs.
  explicit LineWriter(LineRunner& runner);

  /// The same for the same seed.
  Line write(uint64_t seed);

 private:
  using Words = std::vector<std::string>;

  /// Answers of `rnnc` to a shell that completes: words, and whether files may stand there.
  struct Answer {
    Words words;
    bool files = false;
  };
  const Answer& complete(const Words& line);
  void find_commands(const Words& command);

  bool chance(int percent);
  size_t below(size_t count);
  const std::string& one_of(const Words& words);
  std::string noise();
  std::string file();
  std::string any_value();
  std::string value(const Words& command, const std::string& option);
  void add_option(const Words& command, Words& line);
  void damage(Words& line);

  LineRunner& runner_;
  std::map<Words, Answer> answers_;
  std::vector<Words> commands_;
  std::mt19937_64 random_;
};

}  // namespace rnnc::test
