/// Commands that documents show, run as a reader would.
///
/// Each block of a Markdown file fenced as `sh` is a list of commands that succeed; one fenced as
/// `console` has commands behind `$ ` with what they print below them, on both streams. There `…`
/// stands for any text within a line, or alone for any lines: what varies from run to run or from
/// machine to machine. A command that prints an error is to fail. A block fenced as `rnn NAME` or
/// `map NAME` makes that file, and `tensors NAME` a file of zeros with a name and a shape on each
/// line, for commands further down. All commands of a document run one after the other in one
/// folder, which has what a fresh clone has.
///
/// Commands with `--device cuda`, but for those that only tell of a GPU (explain, emit), need one.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace rnnc::test {

/// Where the programs are that commands name, whether they have a CUDA backend, and a GPU.
struct CommandSetting {
  std::vector<std::filesystem::path> programs;  // folders
  bool cuda = false;
  bool gpu = false;
};

/// Markdown files with commands, below `data_root()`, as paths from there.
std::vector<std::string> documents_with_commands();

/// Runs them and gives back what went otherwise than shown, each with its place. Without a GPU
/// commands that need one must give the error that docs/commands.md shows; with one only they are
/// compared, and the others only run.
std::vector<std::string> run_document(const std::string& document, const CommandSetting& setting);

/// Whether `text` is what `shown` shows.
bool fits_shown(const std::string& shown, const std::string& text);

}  // namespace rnnc::test
