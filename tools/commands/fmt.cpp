#include <algorithm>
#include <filesystem>
#include <set>

#include "frontend/syntax/format.h"
#include "frontend/syntax/parser.h"
#include "frontend/syntax/utf8.h"
#include "runtime/base/describe.h"
#include "runtime/base/files.h"
#include "tools/command.h"
#include "tools/diagnostics.h"

namespace rnnc::tools {
namespace {

namespace fs = std::filesystem;

struct FmtOptions {
  std::vector<std::string> places;
  bool check = false;
};

/// The .rnn files below a folder, but for what is hidden and what links lead to.
Result<std::vector<fs::path>> files_below(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  fs::recursive_directory_iterator entry(folder, error);
  for (; !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    const bool hidden = entry->path().filename().string().starts_with('.');
    if (hidden && entry->is_directory()) entry.disable_recursion_pending();
    if (!hidden && entry->path().extension() == ".rnn" && entry->is_regular_file()) {
      files.push_back(entry->path());
    }
  }
  if (error) return fail("cannot read folder {}: {}", quote(folder.string()), error.message());
  if (files.empty()) return fail("there is no .rnn file in {}", quote(folder.string()));
  std::ranges::sort(files);
  return files;
}

/// In one style; nothing if it has an error, which is then already printed.
std::optional<std::string> formatted(const SourceFile& file) {
  Diagnostics diagnostics;
  parse(file, 0, diagnostics);
  if (diagnostics.has_errors()) {
    fmt::print(stderr, "{}",
               diagnostics.render({file}, {.warnings = false, .colour = errors_have_colour()}));
    return std::nullopt;
  }
  std::string text = format_source(file);
  if (text.size() > kLargestSource) {
    report({fmt::format("{} would have {} bytes when formatted, more than {} MiB",
                        quote(file.name()), text.size(), kLargestSource >> 20)});
    return std::nullopt;
  }
  return text;
}

class FmtRun {
 public:
  explicit FmtRun(bool check) : check_(check) {}

  void add_place(const fs::path& place) {
    std::error_code ignored;
    if (is_dash(place) || !fs::is_directory(place, ignored)) return add_file(place);
    const Result<std::vector<fs::path>> files = files_below(place);
    if (!files) return take_error(files.error());
    for (const fs::path& file : *files) add_file(file);
  }

  /// Writes or lists what is not in style.
  int finish() {
    const Status status = check_ ? print(list()) : write_outputs(changed_);
    if (!status) take_error(status.error());
    if (check_ && !changed_.empty()) {
      const char* files = changed_.size() == 1 ? "file is" : "files are";
      take_error({fmt::format("{} {} not in style", changed_.size(), files)});
    }
    return exit_code_;
  }

 private:
  void add_file(const fs::path& path) {
    if (!seen_.insert(path.lexically_normal()).second) return;
    Result<std::string> text = read_input(
        path, [](const fs::path& file) { return read_file(file, kLargestSource); },
        [](std::string bytes, std::string_view) -> Result<std::string> { return bytes; });
    if (!text) return take_error(text.error());
    const SourceFile file(name_of_input(path), std::move(*text));
    std::optional<std::string> result = formatted(file);
    if (!result) {
      exit_code_ = kError;
    } else if (*result != file.text() || (is_dash(path) && !check_)) {
      changed_.push_back({path, std::move(*result)});
    }
  }

  std::string list() const {
    std::string text;
    for (const OutputFile& file : changed_) {
      text += utf8::printable(name_of_input(file.path)) + '\n';
    }
    return text;
  }

  void take_error(const Error& error) { exit_code_ = report(error); }

  bool check_;
  int exit_code_ = kOk;
  std::set<fs::path> seen_;
  std::vector<OutputFile> changed_;
};

int run_fmt(const CLI::App& command, const FmtOptions& options) {
  const std::string problem = check_dashes({options.places.begin(), options.places.end()}, {});
  if (!problem.empty()) return report_usage(command, problem);
  FmtRun run(options.check);
  for (const std::string& place : options.places) run.add_place(place);
  return run.finish();
}

}  // namespace

void add_fmt(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<FmtOptions>();
  CLI::App* command = app.add_subcommand("fmt", "Write .rnn files in one style");
  command
      ->add_option("FILE", options->places,
                   "The .rnn files, folders of them, or - for standard input and output")
      ->required()
      ->type_name("");
  command->add_flag("--check", options->check,
                    "List the files that are not in that style and write nothing");
  command->footer(
      "Examples:\n"
      "  rnnc fmt lstm.rnn cells/\n"
      "  rnnc fmt --check examples\n"
      "\n"
      "Blanks, indentation and blank lines change, and nothing that has a meaning: the tokens, "
      "the\n"
      "comments and where lines end stay. A file with errors stays as it is; they are printed.");
  command->callback([command, options, &exit_code] { exit_code = run_fmt(*command, *options); });
}

}  // namespace rnnc::tools
