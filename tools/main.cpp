/// The `rnnc` command.

#include <algorithm>
#include <new>

#include "runtime/describe.h"
#include "tools/command.h"

namespace rnnc::tools {
namespace {

constexpr const char* kDescription =
    "rnnc compiles recurrent cells, written as their papers' equations, for CPUs and NVIDIA GPUs.";

constexpr const char* kFooter =
    "Examples:\n"
    "  rnnc check lstm.rnn\n"
    "  rnnc run lstm.rnn --weights w.safetensors --input x=x.npy --output h=y.npy\n"
    "\n"
    "`rnnc SUBCOMMAND --help` tells more. Exit codes: 0 success, 1 error, 2 wrong usage.";

std::string version() {
  std::string backends;
#ifdef RNNC_WITH_CPU
  backends += " cpu";
#endif
#ifdef RNNC_WITH_CUDA
  backends += " cuda";
#endif
  return fmt::format("rnnc {} (backends:{})", RNNC_VERSION, backends.empty() ? " none" : backends);
}

/// Prints what is wrong and the known word that was most likely meant.
int report_word(const std::string& problem, const std::string& word,
                const std::vector<std::string>& known, const std::string& help) {
  const std::string nearest = nearest_name(word, known);
  fmt::print(stderr, "{}{}\nRun `{} --help` for more information.\n", problem,
             nearest.empty() ? "" : fmt::format(" (did you mean `{}`?)", nearest), help);
  return kUsage;
}

std::vector<std::string> names_of_commands(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  return names;
}

/// What a command does not take: an unknown option, else a word that follows nothing.
int report_unexpected(const CLI::App& command) {
  const std::vector<std::string> rest = command.remaining();
  const auto is_option = [](const std::string& word) { return word.starts_with("-"); };
  const auto option = std::ranges::find_if(rest, is_option);
  const std::string word = option == rest.end() ? rest.front() : *option;
  std::vector<std::string> names;
  for (const CLI::Option* known : command.get_options()) {
    for (const std::string& name : known->get_lnames()) names.push_back("--" + name);
  }
  const char* problem = option == rest.end() ? "unexpected" : "unknown option";
  return report_word(fmt::format("{} {}", problem, quote(word)), word, names, full_name(command));
}

/// That which the words after the program's name lead to.
const CLI::App& innermost(const CLI::App& app) {
  const std::vector<CLI::App*> chosen = app.get_subcommands();
  return chosen.empty() ? app : innermost(*chosen.front());
}

int run(int argc, char** argv) {
  CLI::App app(kDescription, "rnnc");
  app.footer(kFooter);
  app.set_version_flag("--version", version(), "Print the version and exit");
  app.require_subcommand(1);
  int exit_code = kOk;
  add_check(app, exit_code);
  add_emit(app, exit_code);
  add_explain(app, exit_code);
  add_run(app, exit_code);
  add_bench(app, exit_code);
  add_compile(app, exit_code);
  add_weights(app, exit_code);
  add_devices(app, exit_code);
  add_cache(app, exit_code);
  // CLI11 does not say which command or option it does not know.
  const std::vector<std::string> commands = names_of_commands(app);
  if (argc > 1 && argv[1][0] != '-' && std::ranges::count(commands, argv[1]) == 0) {
    return report_word(fmt::format("there is no command {}", quote(argv[1])), argv[1], commands,
                       "rnnc");
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ExtrasError&) {
    return report_unexpected(innermost(app));
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kOk : kUsage;
  } catch (const std::bad_alloc&) {
    return report({"not enough memory"});
  }
  return exit_code;
}

}  // namespace
}  // namespace rnnc::tools

int main(int argc, char** argv) {
  return rnnc::tools::run(argc, argv);
}
