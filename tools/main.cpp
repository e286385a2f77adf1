/// The `rnnc` command.

#include <new>

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

int run(int argc, char** argv) {
  CLI::App app(kDescription, "rnnc");
  app.footer(kFooter);
  app.set_version_flag("--version", version(), "Print the version and exit");
  app.require_subcommand(1);
  int exit_code = kOk;
  add_check(app, exit_code);
  add_emit(app, exit_code);
  add_run(app, exit_code);
  add_weights(app, exit_code);
  add_devices(app, exit_code);
  add_cache(app, exit_code);
  try {
    app.parse(argc, argv);
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
