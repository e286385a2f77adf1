/// Example programs that train, run in a folder of their own.
#pragma once

#include <regex>
#include <sstream>

#include "tests/support/reference/golden.h"
#include "tests/tools/tools_test.h"

namespace rnnc::test {

class TrainingProgram : public Tools {
 protected:
  /// `always`: options of every run whose lines are compared.
  TrainingProgram(std::string name, std::vector<std::string> always)
      : name_(std::move(name)), always_(std::move(always)) {}

  std::string path() const { return RNNC_BINARY_DIR "/examples/" + name_; }
  CommandResult train(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {path(), "--threads=1"});
    return run_program(directory_.path(), arguments);
  }
  /// The output of a run that succeeds, without speeds.
  std::string lines(std::vector<std::string> arguments) const {
    arguments.insert(arguments.end(), always_.begin(), always_.end());
    const CommandResult result = train(std::move(arguments));
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    return without_speeds(result.output);
  }
  static std::string without_speeds(const std::string& output) {
    return std::regex_replace(output, std::regex("  [0-9.]+ [a-z]+/s"), "");
  }
  /// What a run says that fails.
  std::string problem(std::vector<std::string> arguments) const {
    const CommandResult result = train(std::move(arguments));
    EXPECT_NE(result.exit_code, 0);
    EXPECT_EQ(result.output, "");
    return result.errors;
  }
  std::string error() const { return name_ + ": error: "; }

  /// The number of the line of held-out data.
  static double held_out(const std::string& lines) {
    return std::stod(lines.substr(lines.find("held out  ") + 10));
  }

  /// Runs the program's indented commands with a checkpoint in these documents, for 1, 2, … steps;
  /// how many there are.
  size_t run_documented(const std::string& documents) const {
    std::istringstream text(documents);
    size_t count = 0;
    for (std::string line; std::getline(text, line);) {
      const size_t place = line.find(name_ + " ");
      if (!line.starts_with("    ") || place == line.npos) continue;
      if (line.find("--checkpoint") == line.npos) continue;
      const std::string few = fmt::format("--steps {}", ++count);
      const std::string command =
          std::regex_replace(line.substr(place + name_.size()), std::regex("--steps [0-9]+"), few);
      const CommandResult result =
          run_program(directory_.path(), {"/bin/sh", "-c", path() + command + " --threads 1"});
      EXPECT_EQ(result.exit_code, 0) << line << "\n" << result.errors;
      EXPECT_NE(result.output.find("\nheld out"), std::string::npos) << result.output;
    }
    return count;
  }

 private:
  std::string name_;
  std::vector<std::string> always_;
};

}  // namespace rnnc::test
