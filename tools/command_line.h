/// A command line taken apart by CLI11, and in words of our own where it is wrong.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

namespace rnnc::tools {

/// Runs the chosen command, or prints help or what is wrong. Nothing if a command has run, which
/// then has set its exit code; else the exit code. `version` is what --version prints.
std::optional<int> parse_and_run(CLI::App& app, std::vector<std::string> arguments,
                                 const std::string& version);

/// What `COMMAND --help` prints.
std::string help_of(const CLI::App& command);

/// Names of the commands that help and completion show.
std::vector<std::string> command_names(const CLI::App& app);

}  // namespace rnnc::tools
