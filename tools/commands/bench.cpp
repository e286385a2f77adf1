#include "tools/commands/bench.h"

#include <unistd.h>

#include <chrono>
#include <cstdlib>

#include "passes/build_plan.h"
#include "runtime/program/choose_plan.h"
#include "tools/command.h"
#include "tools/progress.h"

namespace rnnc::tools {
namespace {

struct Options {
  Source source;
  BenchShape shape;
  BenchOptions bench;
  PassSet passes = PassSet::all();
  Strategy strategy = Strategy::Any;
  CpuTarget cpu;
  bool no_graphs = false;
  bool compile = false;
  bool backward = false;
  std::string residuals = "auto";
  int64_t checkpoint = 0;
  int64_t tile_rank = 0;
};

nlohmann::json header(const Options& options, const Graph& graph) {
  const BenchOptions& bench = options.bench;
  return {{"name", graph.name},
          {"device", bench.device},
          {"dtype", bench.dtype},
          {"tf32", bench.tf32},
          {"batch", options.shape.batch},
          {"steps", options.shape.steps},
          {"lengths", options.shape.features.lengths},
          {"resets", options.shape.features.resets},
          {"given_states", bench.given_states},
          {"passes", options.passes.to_string()},
          {"strategy", to_string(options.strategy)},
          {"graphs", !options.no_graphs}};
}

std::string replayed_line(const std::optional<Timing>& replayed) {
  if (!replayed) return {};
  return fmt::format(
      "replayed       {:.3f} us (median of {} replays of a CUDA graph, four in a row)\n",
      replayed->seconds_per_step * 1e6, replayed->runs);
}

void add_replayed(const std::optional<Timing>& replayed, nlohmann::json& json) {
  if (!replayed) return;
  json.update({{"replayed_microseconds_per_step", replayed->seconds_per_step * 1e6},
               {"replayed_runs", replayed->runs}});
}

Status report_steps(const Options& options, const Graph& graph, const BenchProgram& bench,
                    const Measurement& measured) {
  const Prediction prediction = predict(bench, options.shape.steps);
  const Timing& plain = measured.plain;
  const std::optional<Timing>& replayed = measured.replayed;
  const double step = plain.seconds_per_step * 1e6;
  const double predicted = prediction.seconds_per_step * 1e6;
  const double floor = prediction.floor_seconds_per_step * 1e6;
  if (options.bench.json.empty()) {
    const std::string text =
        fmt::format("time per step  {:.3f} us (median of {} runs of {} steps)\n", step, plain.runs,
                    options.shape.steps);
    return print(text + replayed_line(replayed) +
                 fmt::format("predicted      {:.3f} us\n"
                             "floor          {:.3f} us\n"
                             "launches       {} per run\n",
                             predicted, floor, prediction.launches));
  }
  nlohmann::json json = header(options, graph);
  json.update({{"machine", bench.machine.name},
               {"microseconds_per_step", step},
               {"runs", plain.runs},
               {"predicted_microseconds_per_step", predicted},
               {"floor_microseconds_per_step", floor},
               {"launches_per_call", prediction.launches},
               {"tiles", tiles_of(bench.plan)},
               {"tile_rank", bench.tile_rank}});
  add_replayed(replayed, json);
  return write_json(options.bench, json);
}

Status report_training(const Options& options, const Graph& graph,
                       const TrainingMeasurement& measured) {
  const double forward = measured.forward.seconds_per_step * 1e6;
  const double both = measured.both.seconds_per_step * 1e6;
  const Prediction& prediction = measured.prediction;
  const TrainingSizes& sizes = measured.sizes;
  const size_t workspace = std::max(sizes.forward_workspace, sizes.backward_workspace);
  if (options.bench.json.empty()) {
    return print(fmt::format(
        "time per step  {:.3f} us (median of {} runs of {} steps), of which forward {:.3f} us\n"
        "{}"
        "predicted      {:.3f} us\n"
        "floor          {:.3f} us\n"
        "launches       {} per run\n"
        "reserve        {:.1f} MB\n"
        "workspace      {:.1f} MB\n",
        both, measured.both.runs, options.shape.steps, forward, replayed_line(measured.replayed),
        prediction.seconds_per_step * 1e6, prediction.floor_seconds_per_step * 1e6,
        prediction.launches, static_cast<double>(sizes.reserve) * 1e-6,
        static_cast<double>(workspace) * 1e-6));
  }
  nlohmann::json json = header(options, graph);
  json.update({{"backward", true},
               {"residuals", options.residuals},
               {"checkpoint", options.checkpoint},
               {"microseconds_per_step", both},
               {"forward_microseconds_per_step", forward},
               {"runs", measured.both.runs},
               {"predicted_microseconds_per_step", prediction.seconds_per_step * 1e6},
               {"floor_microseconds_per_step", prediction.floor_seconds_per_step * 1e6},
               {"launches_per_call", prediction.launches},
               {"reserve_bytes", sizes.reserve},
               {"workspace_bytes", workspace}});
  add_replayed(measured.replayed, json);
  return write_json(options.bench, json);
}

bool takes_replays(const CompileOptions& compile) {
  return compile.device.kind == Device::Kind::cuda && compile.graphs;
}

Status bench_training(const Options& options, const Graph& graph, const CompileOptions& compile) {
  Result<Program> program = Program::compile(graph, compile);
  if (!program) return tl::unexpected(program.error());
  Progress progress;
  progress.phase("measuring");
  Runner runner(*program);
  const Result<TrainingMeasurement> measured =
      measure_training(*program, runner, options.shape, options.bench,
                       {.residuals = parse_residual_choice(options.residuals).value(),
                        .checkpoint = options.checkpoint,
                        .replays = takes_replays(compile)});
  progress.stop();
  report_notes(*program);
  if (!measured) return tl::unexpected(measured.error());
  return report_training(options, graph, *measured);
}

/// Seconds to compile and prepare.
Result<double> time_compile(const Graph& graph, const CompileOptions& compile,
                            const BenchShape& shape) {
  const auto start = std::chrono::steady_clock::now();
  Result<Program> program = Program::compile(graph, compile);
  if (!program) return tl::unexpected(program.error());
  if (Status status = program->prepare(shape.batch, shape.steps, shape.features); !status) {
    return tl::unexpected(status.error());
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Another program goes first, uncached, so that the device's context and libraries are live. What
/// NVRTC and the driver have compiled in other processes, and keep, does not count.
Status bench_compile(const Options& options, const Graph& graph, CompileOptions compile) {
  ::setenv("CUDA_CACHE_DISABLE", "1", /*overwrite=*/1);
  CompileOptions warm = compile;
  warm.strategy = Strategy::Any;
  const Result<double> live = time_compile(ladder_network(1, 8), warm, {.batch = 1, .steps = 1});
  if (!live) return tl::unexpected(live.error());
  std::error_code error;
  const std::filesystem::path place = std::filesystem::temp_directory_path(error);
  if (error) return fail("no folder for temporary files: {}", error.message());
  compile.cache_directory = place / fmt::format("rnnc_bench_{}", ::getpid());
  const Result<double> cold = time_compile(graph, compile, options.shape);
  const Result<double> cached = time_compile(graph, compile, options.shape);
  std::filesystem::remove_all(compile.cache_directory, error);
  if (!cold) return tl::unexpected(cold.error());
  if (!cached) return tl::unexpected(cached.error());
  if (options.bench.json.empty()) {
    return print(fmt::format("compile  {:.1f} ms, {:.1f} ms from the kernel cache\n", *cold * 1e3,
                             *cached * 1e3));
  }
  nlohmann::json json = header(options, graph);
  json.update({{"cold_seconds", *cold}, {"cached_seconds", *cached}});
  return write_json(options.bench, json);
}

Status bench_graph(const Options& options, const Graph& graph) {
  CompileOptions compile = compile_options(options.bench);
  compile.passes = options.passes;
  compile.graphs = !options.no_graphs;
  compile.strategy = options.strategy;
  compile.cpu = options.cpu;
  compile.tile_rank = options.tile_rank;
  if (options.compile) return bench_compile(options, graph, compile);
  if (options.backward) return bench_training(options, graph, compile);
  Result<BenchProgram> bench = compile_bench(graph, compile, options.shape);
  if (!bench) return tl::unexpected(bench.error());
  Progress progress;
  progress.phase("measuring");
  Runner runner(bench->program);
  const Result<Measurement> measured =
      measure(bench->program, runner, options.shape, options.bench, takes_replays(compile));
  progress.stop();
  if (!measured) return tl::unexpected(measured.error());
  return report_steps(options, graph, *bench, *measured);
}

int run_bench(const CLI::App& command, const Options& options) {
  if (options.source.file.empty())
    return report_usage(command, "FILE is required, or `ladder` or `scan`");
  std::string problem = check_usage(options.bench);
  if (problem.empty()) problem = check_strategy(options.strategy, options.bench.device);
  if (problem.empty()) problem = check_cpu_target(options.cpu, options.bench.device);
  if (!problem.empty()) return report_usage(command, problem);
  if (Status status = check_json(options.bench); !status) return report(status.error());
  std::optional<Graph> bound = load_bound(options.source);
  if (!bound) return kError;
  const Status status = bench_graph(options, *bound);
  return status ? kOk : report(status.error());
}

}  // namespace

void add_bench(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("bench", "Measure a cell or network on random arrays");
  add_source(*command, options->source);
  command->get_option("FILE")->required(false);
  add_bench_shape(*command, options->shape);
  add_sequence_features(*command, options->shape.features);
  add_given_states(*command, options->bench);
  add_bench_options(*command, options->bench);
  add_passes(*command, options->passes);
  add_strategy(*command, options->strategy);
  add_cpu_target(*command, options->cpu);
  add_tile_rank(*command, options->tile_rank);
  command->add_flag("--no-graphs", options->no_graphs,
                    "Launch kernels one by one on a GPU, and replay no calls");
  CLI::Option* compile = command->add_flag(
      "--compile", options->compile, "Measure compiling instead, cold and from the kernel cache");
  CLI::Option* backward =
      command->add_flag("--backward", options->backward,
                        "Measure training: forward and backward, with the gradients of all params "
                        "and inputs");
  backward->excludes(compile);
  add_residuals(*command, options->residuals)->needs(backward);
  add_checkpoint(*command, options->checkpoint)->needs(backward);
  command->footer(
      "Times are medians of whole calls, divided by their steps: arrays stay on the device, and\n"
      "packed weights from call to call. On a GPU also of replays of a call that was captured\n"
      "once as a CUDA graph, four in a row.\n\n"
      "Examples:\n"
      "  rnnc bench examples/cells/lstm.rnn --dim I=512 --dim H=512 --device cuda --dtype bf16\n"
      "  rnnc bench ladder --device cuda --svg ladder.svg");
  const std::vector<CLI::Option*> own = command->get_options();
  add_ladder(*command, exit_code);
  add_scan(*command, exit_code);
  for (CLI::App* other : command->get_subcommands({})) {
    for (CLI::Option* option : own) other->excludes(option);  // it has its own
  }
  command->callback([command, options, &exit_code] {
    if (command->get_subcommands().empty()) exit_code = run_bench(*command, *options);
  });
}

}  // namespace rnnc::tools
