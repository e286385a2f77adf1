/// Runs the built `rnnc` command as a process.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace rnnc::test {

struct CommandResult {
  int exit_code = -1;  // -1: it did not exit by itself
  std::string output;
  std::string errors;
  double cpu_seconds = 0;
};

/// In the folder `directory`, with its cache below it. Nothing is a terminal.
CommandResult run_command(const std::filesystem::path& directory,
                          std::vector<std::string> arguments, const std::string& input = "");
/// Likewise, any program: the first of the arguments.
CommandResult run_program(const std::filesystem::path& directory,
                          const std::vector<std::string>& arguments, const std::string& input = "");

}  // namespace rnnc::test
