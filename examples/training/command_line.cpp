#include "examples/training/command_line.h"

#include <fmt/format.h>

#include <cstdio>

namespace training {
namespace {

/// NAME=NUMBER of --dim.
std::pair<std::string, int64_t> dim_of(const std::string& text) {
  const size_t equals = text.find('=');
  int64_t value = 0;
  if (equals == std::string::npos || !CLI::detail::lexical_cast(text.substr(equals + 1), value)) {
    throw CLI::ValidationError("--dim", text + " is not of the form NAME=NUMBER");
  }
  return {text.substr(0, equals), value};
}

}  // namespace

// CLI11's own of these would show the greatest double.
const CLI::Validator kPositive(
    [](std::string& text) {
      return std::strtod(text.c_str(), nullptr) > 0 ? "" : text + " is not greater than 0";
    },
    "");
const CLI::Validator kNotNegative(
    [](std::string& text) {
      return std::strtod(text.c_str(), nullptr) >= 0 ? "" : text + " is less than 0";
    },
    "");

void add_options(CLI::App& app, RunOptions& options) {
  app.add_option("--cell", options.cell, "of the file; the last one if not given");
  app.add_option_function<std::vector<std::string>>(
         "--dim",
         [&options](const std::vector<std::string>& texts) {
           for (const std::string& text : texts) options.dims.insert(dim_of(text));
         },
         "NAME=NUMBER, such as H=256; may be repeated")
      ->allow_extra_args(false);
  app.add_option_function<int64_t>(
      "--hidden", [&options](int64_t size) { options.dims["H"] = size; },
      "short for --dim H=NUMBER");
  app.add_option("--steps", options.steps, "updates, those before --resume included")
      ->check(kPositive)
      ->capture_default_str();
  app.add_option("--lr", options.adamw.learning_rate, "learning rate")
      ->check(kPositive)
      ->capture_default_str();
  app.add_option("--weight-decay", options.adamw.weight_decay, "of all params")
      ->check(kNotNegative)
      ->capture_default_str();
  app.add_option("--clip", options.adamw.clip, "greatest norm of the gradients; 0: any")
      ->check(kNotNegative)
      ->capture_default_str();
  app.add_option("--seed", options.seed, "of the first params")->capture_default_str();
  app.add_option("--device", options.device, "cpu, cuda or cuda:1")->capture_default_str();
  app.add_option("--dtype", options.dtype, "f32; also f64 on the CPU, bf16 and f16 on a GPU")
      ->capture_default_str();
  app.add_option("--threads", options.threads, "on the CPU; 0: all")->check(kNotNegative);
  app.add_option("--report", options.report, "steps between lines and checkpoints")
      ->check(kPositive)
      ->capture_default_str();
  auto* checkpoint = app.add_option("--checkpoint", options.checkpoint,
                                    "a .safetensors file that is kept up to date");
  app.add_flag("--resume", options.resume, "go on from the checkpoint")->needs(checkpoint);
  app.add_flag("--quiet", options.quiet, "print the line of the held-out data only");
}

int run_command(CLI::App& app, const std::string& name, int argc, char** argv,
                const std::function<rnnc::Status()>& work) {
  app.failure_message([&name](const CLI::App*, const CLI::Error& error) {
    return fmt::format("{0}: error: {1}\n  see {0} --help\n", name, error.what());
  });
  CLI11_PARSE(app, argc, argv);
  const rnnc::Status status = work();
  if (!status)
    std::fprintf(stderr, "%s: error: %s\n", name.c_str(), status.error().message.c_str());
  return status ? 0 : 1;
}

}  // namespace training
