#include <algorithm>

#include "runtime/base/describe.h"
#include "tools/command.h"
#include "tools/command_line.h"

namespace rnnc::tools {
namespace {

int run_help(const CLI::App& app, const std::vector<std::string>& words) {
  const CLI::App* command = &app;
  for (const std::string& word : words) {
    const std::vector<const CLI::App*> commands = command->get_subcommands({});
    const auto found =
        std::ranges::find(commands, word, [](const CLI::App* known) { return known->get_name(); });
    if (found == commands.end()) {
      return report_usage(*command, fmt::format("there is no command {}", quote(word)), word,
                          command_names(*command));
    }
    command = *found;
  }
  const Status status = print(help_of(*command));
  return status ? kOk : report(status.error());
}

}  // namespace

void add_help(CLI::App& app, int& exit_code) {
  auto words = std::make_shared<std::vector<std::string>>();
  CLI::App* command = app.add_subcommand("help", "Explain a command, as its --help does");
  command->add_option("COMMAND", *words, "Such as run, or bench ladder")->type_name("");
  command->footer("Example:\n  rnnc help bench ladder");
  command->callback([&app, words, &exit_code] { exit_code = run_help(app, *words); });
}

}  // namespace rnnc::tools
