/// Completion of command lines in shells. `rnnc completion SHELL` prints a script that asks this
/// very program at each key, so that it knows every command and option there is.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace rnnc::tools {

/// The command by which scripts ask, which help does not show.
inline constexpr const char* kCompleteCommand = "__complete";

/// What may stand in the place of the last word behind `rnnc`, which may be empty. The first line
/// says whether files may stand there, too, and what part of the word goes before them: `files x=`
/// or `words`. Each further line is a word, a tab, and what it means.
int print_candidates(const CLI::App& app, const std::vector<std::string>& words);

}  // namespace rnnc::tools
