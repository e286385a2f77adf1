#include <nlohmann/json.hpp>

#include "frontend/syntax/utf8.h"
#include "tools/command.h"
#include "tools/diagnostics.h"

namespace rnnc::tools {
namespace {

struct CheckOptions {
  std::vector<std::string> files;
  DimBindings dims;
  bool json = false;
};

/// All files are checked, also after one with errors.
int check_files(const CheckOptions& options) {
  int exit_code = kOk;
  for (const std::string& file : options.files) {
    Result<Unit> unit = load_unit(file);
    if (!unit) {
      exit_code = report(unit.error());
      continue;
    }
    const bool good = unit->check({}, options.dims);
    print_diagnostics(*unit);
    if (!good) {
      exit_code = kError;
    } else if (Status status = print(utf8::printable(name_of_input(file)) + ": ok\n"); !status) {
      return report(status.error());
    }
  }
  return exit_code;
}

/// The same for programs (docs/diagnostics.md).
int check_as_json(const CheckOptions& options) {
  nlohmann::ordered_json json = {{"files", nlohmann::ordered_json::array()},
                                 {"diagnostics", nlohmann::ordered_json::array()}};
  int exit_code = kOk;
  for (const std::string& file : options.files) {
    Result<Unit> unit = load_unit(file);
    const bool good = unit && unit->check({}, options.dims);
    if (unit) {
      add_diagnostics(*unit, json["diagnostics"]);
    } else {
      add_diagnostic(name_of_input(file), unit.error().message, json["diagnostics"]);
    }
    const bool complete = !unit || !unit->diagnostics().is_full();
    json["files"].push_back({{"file", name_of_input(file)}, {"ok", good}, {"complete", complete}});
    if (!good) exit_code = kError;
  }
  // Names of files may be no UTF-8, which JSON is.
  const auto replace = nlohmann::ordered_json::error_handler_t::replace;
  if (Status status = print(json.dump(2, ' ', false, replace) + "\n"); !status) {
    return report(status.error());
  }
  return exit_code;
}

int run_check(const CLI::App& command, const CheckOptions& options) {
  const std::string problem = check_dashes({options.files.begin(), options.files.end()}, {});
  if (!problem.empty()) return report_usage(command, problem);
  return options.json ? check_as_json(options) : check_files(options);
}

}  // namespace

void add_check(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<CheckOptions>();
  CLI::App* command = app.add_subcommand("check", "Check .rnn files and report every error");
  command->add_option("FILE", options->files, "The .rnn files, or - for standard input")
      ->required()
      ->type_name("");
  command->add_flag("--json", options->json,
                    "Print what is wrong as JSON, for editors and other programs");
  add_dims(*command, options->dims);
  command->footer(
      "Example:\n"
      "  rnnc check examples/cells/lstm.rnn examples/cells/gru.rnn\n"
      "\n"
      "What is right for any size is checked without --dim. With it, loops, blocks and slices are\n"
      "checked for that size, in every cell and network of the file that has the dim.");
  command->callback([command, options, &exit_code] { exit_code = run_check(*command, *options); });
}

}  // namespace rnnc::tools
