#include <chrono>

#include "frontend/syntax/utf8.h"
#include "runtime/program/compile_ahead.h"
#include "tools/command.h"
#include "tools/commands/measure.h"
#include "tools/progress.h"

namespace rnnc::tools {
namespace {

struct Options {
  Source source;
  std::vector<std::string> archs = {"sm_90"};
  int multiprocessors = 0;
  std::string dtype = "f32";
  bool tf32 = false;
  bool f32_params = false;
  int64_t batch = 1;
  int64_t steps = 100;
  bool lengths = false;
  bool resets = false;
  bool reverse = false;
  PassSet passes = PassSet::all();
  Strategy strategy = Strategy::Any;
  bool backward = false;
  std::string residuals = "auto";
};

#ifdef RNNC_WITH_CUDA

/// What a program on a GPU is compiled with (`rnnc run`).
CompileOptions compile_options(const Options& options) {
  CompileOptions compile;
  compile.dtype = dtype_of(options.dtype);
  compile.param_dtype = param_dtype_of(options.f32_params);
  compile.device = {.kind = Device::Kind::cuda, .index = 0};
  compile.allow_tf32 = options.tf32;
  compile.reverse = options.reverse;
  compile.passes = options.passes;
  compile.strategy = options.strategy;
  return compile;
}

/// For the gradients that `rnnc bench --backward` asks for.
Result<CompiledAhead> compile_halves(const Options& options, const Planner& planner,
                                     const PlanShape& shape, const AheadTarget& target,
                                     const KernelCache& cache) {
  const TrainingOptions wanted =
      training_options(planner.signature(), parse_residual_choice(options.residuals).value());
  return planner.complete(wanted).and_then([&](const TrainingOptions& training) {
    return compile_training_ahead(planner, shape, training, target, cache);
  });
}

/// "sm_90  NVIDIA H200, 132 multiprocessors: 83 KB in 0.81 s".
std::string line(const std::string& arch, const CompiledAhead& compiled, double seconds) {
  return fmt::format(
      "{:6}  {}, {} multiprocessors: {}\n", arch, compiled.device, compiled.multiprocessors,
      compiled.cached ? "in the cache already"
                      : fmt::format("{} KB in {:.2f} s", (compiled.bytes + 999) / 1000, seconds));
}

Status compile_all(const Options& options, const Graph& graph, const KernelCache& cache) {
  const Result<Planner> planner = Planner::make(graph, compile_options(options));
  if (!planner) return tl::unexpected(planner.error());
  const PlanShape shape{options.batch, options.steps, {options.lengths, options.resets}};
  for (const std::string& arch : options.archs) {
    Progress progress;
    progress.phase("compiling " + arch);
    const auto start = std::chrono::steady_clock::now();
    const AheadTarget target = {arch, options.multiprocessors};
    const Result<CompiledAhead> compiled =
        options.backward ? compile_halves(options, *planner, shape, target, cache)
                         : compile_ahead(*planner, shape, target, cache);
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    progress.stop();
    if (!compiled) return tl::unexpected(compiled.error());
    if (!compiled->note.empty()) report_note(compiled->note);
    if (Status status = print(line(arch, *compiled, taken.count())); !status) return status;
  }
  return print(fmt::format("{:6}  {}\n", "cache", utf8::printable(cache.directory().string())));
}

#else

Status compile_all(const Options& /*options*/, const Graph& /*graph*/,
                   const KernelCache& /*cache*/) {
  return fail("this build of rnnc has no CUDA backend");
}

#endif

int run_compile(const CLI::App& command, const Options& options) {
  std::string problem = check_tf32(options.tf32, options.dtype, "cuda");
  if (problem.empty()) problem = check_f32_params(options.f32_params, options.dtype);
  if (!problem.empty()) return report_usage(command, problem);
  const Result<KernelCache> cache = find_cache();
  if (!cache) return report(cache.error());
  std::optional<Graph> bound = load_bound(options.source);
  if (!bound) return kError;
  const Status status = compile_all(options, *bound, *cache);
  return status ? kOk : report(status.error());
}

void add_shape(CLI::App& command, Options& options) {
  add_size(command, "--batch", options.batch, "Batch size");
  add_size(command, "--steps", options.steps, "Greatest number of steps");
  command.add_flag("--lengths", options.lengths, "For runs with --lengths");
  command.add_flag("--resets", options.resets, "For runs with --reset");
  command.add_flag("--reverse", options.reverse, "For runs with --reverse");
}

}  // namespace

void add_compile(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "compile", "Compile a cell or network for GPUs that this machine need not have");
  add_source(*command, options->source);
  command->add_option("--arch", options->archs, "GPU architecture; may be repeated")
      ->type_name("ARCH")
      ->allow_extra_args(false)
      ->capture_default_str();
  command
      ->add_option(
          "--multiprocessors", options->multiprocessors,
          "How many the GPU has; if not given, as the architecture's best known GPU: A100, "
          "A10, L40S, H200, B200, RTX 5090")
      ->type_name("NUMBER")
      ->check(whole_number(1, 1024));
  add_dtype(*command, options->dtype, "Element type to run in");
  add_f32_params(*command, options->f32_params);
  command->add_flag("--tf32", options->tf32, "Let products of f32 round to TF32");
  add_shape(*command, *options);
  add_passes(*command, options->passes);
  add_strategy(*command, options->strategy);
  CLI::Option* backward = command->add_flag(
      "--backward", options->backward,
      "For training: forward and backward, with the gradients of all params and inputs");
  add_residuals(*command, options->residuals)->needs(backward);
  command->footer(
      "Fills the kernel cache ($RNNC_CACHE_DIR, else $XDG_CACHE_HOME/rnnc, else ~/.cache/rnnc),\n"
      "which may be copied to a machine with such a GPU: programs start there without compiling.\n"
      "They look for the kernels of the same cell, dims, batch size and options, compiled by the\n"
      "same versions of rnnc and NVRTC. Plans depend on the number of steps, as far as it decides\n"
      "the chunk, and on the GPU: resident recurrences are spread over its multiprocessors, so "
      "that\n"
      "a GPU with another number of them than this one was told compiles its own.\n\n"
      "Example:\n"
      "  rnnc compile examples/cells/lstm.rnn --dim I=512 --dim H=512 --dtype bf16 --batch 16 \\\n"
      "       --arch sm_80 --arch sm_90");
  command->callback(
      [command, options, &exit_code] { exit_code = run_compile(*command, *options); });
}

}  // namespace rnnc::tools
