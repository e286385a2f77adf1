/// The `rnnc` command.

#include <algorithm>
#include <csignal>
#include <string>

#include "tools/command.h"
#include "tools/command_line.h"
#include "tools/completion/completion.h"

namespace rnnc::tools {
namespace {

constexpr const char* kDescription =
    "rnnc compiles recurrent cells, written as their papers' equations, for CPUs and NVIDIA GPUs.";

constexpr const char* kFooter =
    "Examples:\n"
    "  rnnc check lstm.rnn\n"
    "  rnnc run lstm.rnn --weights w.safetensors --input x=x.npy --output h=y.npy\n"
    "\n"
    "`rnnc help COMMAND` tells more. `-` for a file is standard input or output.\n"
    "Exit codes: 0 success, 1 an error in files, values or the machine, 2 a wrong command line.";

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

int run(const std::vector<std::string>& arguments) {
  CLI::App app(kDescription, "rnnc");
  app.footer(kFooter);
  app.set_version_flag("--version", version(), "Print the version and exit");
  app.require_subcommand(1);
  int exit_code = kOk;
  add_check(app, exit_code);
  add_fmt(app, exit_code);
  add_lsp(app, exit_code);
  add_weights(app, exit_code);
  add_inputs(app, exit_code);
  add_run(app, exit_code);
  add_explain(app, exit_code);
  add_serve(app, exit_code);
  add_emit(app, exit_code);
  add_bench(app, exit_code);
  add_profile(app, exit_code);
  add_debug(app, exit_code);
  add_compile(app, exit_code);
  add_gradcheck(app, exit_code);
  add_devices(app, exit_code);
  add_cache(app, exit_code);
  add_completion(app, exit_code);
  add_help(app, exit_code);
  // Words of a line that is still being typed are not parsed.
  if (!arguments.empty() && arguments[0] == kCompleteCommand) {
    return print_candidates(app, {arguments.begin() + 1, arguments.end()});
  }
  return parse_and_run(app, arguments, version()).value_or(exit_code);
}

}  // namespace
}  // namespace rnnc::tools

/// The command as a function, which the wheel's library shows to its Python package.
extern "C" int rnnc_main(int argc, char** argv) {
  // A limit on the size of files is an error of the write that meets it, on standard output too.
  std::signal(SIGXFSZ, SIG_IGN);
  return rnnc::tools::run({argv + std::min(argc, 1), argv + argc});
}

int main(int argc, char** argv) {
  return rnnc_main(argc, argv);
}
