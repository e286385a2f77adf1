#include "runtime/explain/profile.h"

#include <algorithm>

#include "passes/build_plan.h"
#include "runtime/explain/print.h"
#include "tools/command.h"
#include "tools/commands/measure.h"

namespace rnnc::tools {
namespace {

struct Options {
  Source source;
  BenchShape shape;
  BenchOptions bench;
  PassSet passes = PassSet::all();
  Strategy strategy = Strategy::Any;
  CpuTarget cpu;
  int64_t tile_rank = 0;
  bool backward = false;
  std::string residuals = "auto";
  std::string html;
  std::string trace;
};

struct Files {
  std::string text, json, page, trace;
};

Result<Files> profile_calls(const Options& options, Program& program) {
  const auto measured = measure_calls(program, options.shape, options.bench);
  if (!measured) return tl::unexpected(measured.error());
  const auto& [explanation, run] = *measured;
  return Files{profile_text(explanation), explanation_json(explanation),
               explanation_page(explanation), profile_trace(explanation, run.forward)};
}

Result<Files> profile_training(const Options& options, Program& program) {
  const auto measured = measure_training_calls(program, options.shape, options.bench,
                                               parse_residual_choice(options.residuals).value());
  if (!measured) return tl::unexpected(measured.error());
  const auto& [explanation, run] = *measured;
  return Files{profile_text(explanation), explanation_json(explanation),
               explanation_page(explanation),
               profile_trace(explanation, run.forward, *run.backward)};
}

/// The text too, unless standard output is one of the files.
Status write_files(const Options& options, const Files& files) {
  const std::pair<const std::string&, const std::string&> wanted[] = {
      {options.bench.json, files.json}, {options.html, files.page}, {options.trace, files.trace}};
  if (std::ranges::none_of(wanted, [](const auto& file) { return is_dash(file.first); })) {
    if (Status status = print(files.text); !status) return status;
  }
  for (const auto& [file, text] : wanted) {
    if (file.empty()) continue;
    if (Status status = write_output(file, text); !status) return status;
  }
  return {};
}

Status profile_graph(const Options& options, const Graph& graph) {
  CompileOptions compile = compile_options(options.bench);
  compile.passes = options.passes;
  compile.strategy = options.strategy;
  compile.tile_rank = options.tile_rank;
  compile.cpu = options.cpu;
  Result<Program> program = Program::compile(graph, compile);
  if (!program) return tl::unexpected(program.error());
  const Result<Files> files =
      options.backward ? profile_training(options, *program) : profile_calls(options, *program);
  if (!files) return tl::unexpected(files.error());
  report_notes(*program);
  return write_files(options, *files);
}

/// What is wrong with the options together, or "".
std::string check_options(const Options& options) {
  std::string problem = check_usage(options.bench);
  if (problem.empty()) problem = check_strategy(options.strategy, options.bench.device);
  if (problem.empty()) {
    problem = check_dashes({}, {options.bench.json, options.html, options.trace});
  }
  return problem.empty() ? check_cpu_target(options.cpu, options.bench.device) : problem;
}

int run_profile(const CLI::App& command, const Options& options) {
  if (const std::string problem = check_options(options); !problem.empty()) {
    return report_usage(command, problem);
  }
  for (const std::string& file : {options.bench.json, options.html, options.trace}) {
    if (Status status = check_output(file); !status) return report(status.error());
  }
  std::optional<Graph> bound = load_bound(options.source);
  if (!bound) return kError;
  const Status status = profile_graph(options, *bound);
  return status ? kOk : report(status.error());
}

}  // namespace

void add_profile(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "profile", "Run a cell or network on random arrays and say where time goes, by launch");
  add_source(*command, options->source);
  add_bench_shape(*command, options->shape);
  add_sequence_features(*command, options->shape.features);
  add_given_states(*command, options->bench);
  add_bench_options(*command, options->bench);
  add_passes(*command, options->passes);
  add_strategy(*command, options->strategy);
  add_cpu_target(*command, options->cpu);
  add_tile_rank(*command, options->tile_rank);
  CLI::Option* backward = command->add_flag(
      "--backward", options->backward,
      "Training: forward and backward, with the gradients of all params and inputs");
  add_residuals(*command, options->residuals)->needs(backward);
  command
      ->add_option("--html", options->html,
                   "Write the page of `rnnc explain` to this file, with the times measured")
      ->type_name("FILE");
  command
      ->add_option("--trace", options->trace,
                   "Write what ran when to this file, for chrome://tracing and ui.perfetto.dev")
      ->type_name("FILE");
  command->footer(
      "Calls are first measured as `rnnc bench` does it, then some with each launch timed, by a\n"
      "clock on the CPU, by events on a GPU, where launches then go one by one. What is shown is\n"
      "one of these, the middle one by its length, beside the cost model and the floor.\n\n"
      "Examples:\n"
      "  rnnc profile examples/cells/lstm.rnn --dim I=80 --dim H=512\n"
      "  rnnc profile examples/cells/gru.rnn --dim I=80 --dim H=512 --backward --trace gru.json");
  command->callback(
      [command, options, &exit_code] { exit_code = run_profile(*command, *options); });
}

}  // namespace rnnc::tools
