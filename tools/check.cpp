#include "tools/command.h"

namespace rnnc::tools {
namespace {

/// All files are checked, also after one with errors.
int run_check(const CLI::App& command, const std::vector<std::string>& files) {
  const std::string problem = check_dashes({files.begin(), files.end()}, {});
  if (!problem.empty()) return report_usage(command, problem);
  int exit_code = kOk;
  for (const std::string& file : files) {
    Result<Unit> unit = load_unit(file);
    if (!unit) {
      exit_code = report(unit.error());
      continue;
    }
    const bool good = unit->check();
    fmt::print(stderr, "{}", unit->render());
    if (!good) {
      exit_code = kError;
    } else if (Status status = print(fmt::format("{}: ok\n", file)); !status) {
      return report(status.error());
    }
  }
  return exit_code;
}

}  // namespace

void add_check(CLI::App& app, int& exit_code) {
  auto files = std::make_shared<std::vector<std::string>>();
  CLI::App* command = app.add_subcommand("check", "Check .rnn files and report every error");
  command->add_option("FILE", *files, "The .rnn files, or - for standard input")
      ->required()
      ->type_name("");
  command->footer("Example:\n  rnnc check examples/cells/lstm.rnn examples/cells/gru.rnn");
  command->callback([command, files, &exit_code] { exit_code = run_check(*command, *files); });
}

}  // namespace rnnc::tools
