#include <algorithm>
#include <cmath>

#include "ir/plan/waves.h"
#include "passes/cost/cost.h"
#include "runtime/arrays/random_arrays.h"
#include "runtime/backend/backend.h"
#include "tools/command.h"
#include "tools/commands/bench.h"

namespace rnnc::tools {
namespace {

constexpr uint64_t kSeed = 1;

/// Weights and, in [-1, 1], inputs and states; lengths and resets.
Result<RunArgs> random_args(const Signature& signature, const BenchShape& shape,
                            const BenchOptions& options) {
  RunArgs args;
  Result<std::vector<NamedArray>> params = random_weights(signature.params, kSeed);
  if (!params) return tl::unexpected(params.error());
  args.params = std::move(*params);
  for (ArrayInfo input : signature.inputs) {
    input.shape.insert(input.shape.begin(), {shape.steps, shape.batch});
    args.inputs.push_back({input.name, random_array(input, 1, kSeed)});
  }
  if (options.given_states) {
    for (ArrayInfo state : signature.states) {
      state.shape.insert(state.shape.begin(), shape.batch);
      args.initial_states.push_back({state.name, random_array(state, 1, kSeed)});
    }
  }
  if (shape.features.lengths) args.lengths = random_lengths(shape.batch, shape.steps, kSeed);
  if (shape.features.resets) args.reset = random_resets(shape.batch, shape.steps, kSeed);
  return args;
}

int64_t count_launches(const Plan& plan, int64_t steps) {
  int64_t count = 0;
  for (const Stage& stage : plan.stages) {
    const int64_t chunks = chunks_of(plan, steps);
    const int64_t times = stage.domain == Domain::Step       ? steps
                          : stage.domain == Domain::Sequence ? chunks
                          : stage.domain == Domain::Last     ? 1
                                                             : 0;
    count += times * std::ssize(stage.launches);
  }
  return count;
}

/// How many calls of `step_seconds` a step are timed.
int choose_runs(const BenchOptions& options, const BenchShape& shape, double step_seconds) {
  if (options.runs > 0) return options.runs;
  const double call_seconds = std::max(step_seconds * static_cast<double>(shape.steps), 1e-9);
  return static_cast<int>(std::clamp(options.seconds / call_seconds, 5.0, 1000.0));
}

/// `time` is one of the runner's.
Result<Timing> time_runs(Runner& runner, Result<double> (Runner::*time)(int),
                         const BenchOptions& options, const BenchShape& shape) {
  // Clocks rise and caches fill before what counts.
  const Result<double> first = (runner.*time)(1);
  if (!first) return tl::unexpected(first.error());
  int runs = choose_runs(options, shape, *first);
  const Result<double> warm = (runner.*time)((runs + 3) / 4);
  if (!warm) return tl::unexpected(warm.error());
  runs = choose_runs(options, shape, *warm);
  const Result<double> median = (runner.*time)(runs);
  if (!median) return tl::unexpected(median.error());
  return Timing{.seconds_per_step = *median, .runs = runs};
}

}  // namespace

void add_bench_options(CLI::App& command, BenchOptions& options) {
  add_device(command, options.device);
  add_dtype(command, options.dtype, "Element type to run in");
  add_f32_params(command, options.f32_params);
  add_tune(command, options.tune);
  add_tf32(command, options.tf32);
  command
      .add_option("--spare-multiprocessors", options.spare_multiprocessors,
                  "GPU: that resident kernels leave to what else runs there, such as NCCL's")
      ->type_name("NUMBER")
      ->check(whole_number(0, 1024))
      ->capture_default_str();
  add_threads(command, options.threads);
  command.add_option("--runs", options.runs, "Calls to time; 0: as many as fit into --seconds")
      ->type_name("NUMBER")
      ->check(whole_number(0, 1000000))
      ->capture_default_str();
  command.add_option("--seconds", options.seconds, "Time for each measurement")
      ->type_name("NUMBER")
      ->check(number(0, 3600))
      ->capture_default_str();
  command.add_option("--json", options.json, "Write JSON to this file")->type_name("FILE");
}

std::string check_usage(const BenchOptions& options) {
  std::string problem = check_tf32(options.tf32, options.dtype, options.device);
  if (problem.empty()) problem = check_f32_params(options.f32_params, options.dtype);
  if (problem.empty() && options.spare_multiprocessors > 0 && options.device == "cpu") {
    problem = "--spare-multiprocessors is for a GPU, not for cpu";
  }
  return problem.empty() ? check_tune(options.tune, options.device) : problem;
}

CompileOptions compile_options(const BenchOptions& options) {
  CompileOptions compile;
  compile.device = Device::parse(options.device).value();
  compile.dtype = dtype_of(options.dtype);
  compile.param_dtype = param_dtype_of(options.f32_params);
  compile.allow_tf32 = options.tf32;
  compile.threads = options.threads;
  compile.tune = options.tune;
  compile.spare_multiprocessors = options.spare_multiprocessors;
  compile.cache_directory = cache_directory();
  return compile;
}

Status check_json(const BenchOptions& options) {
  return check_output(options.json);
}

Status write_json(const BenchOptions& options, const nlohmann::json& json) {
  return write_output(options.json, json.dump(2) + "\n");
}

void add_bench_shape(CLI::App& command, BenchShape& shape) {
  add_size(command, "--batch", shape.batch, "Batch size");
  add_size(command, "--steps", shape.steps, "Steps of a call");
}

void add_sequence_features(CLI::App& command, SequenceFeatures& features) {
  command.add_flag("--lengths", features.lengths, "Calls come with the sequences' lengths");
  command.add_flag("--resets", features.resets, "Calls come with a mask of resets");
}

void add_given_states(CLI::App& command, BenchOptions& options) {
  command.add_flag("--given-states", options.given_states,
                   "Calls come with initial states, and with --backward have gradients by them");
}

Result<BenchProgram> compile_bench(const Graph& graph, const CompileOptions& options,
                                   const BenchShape& shape) {
  Result<Program> program = Program::compile(graph, options);
  if (!program) return tl::unexpected(program.error());
  const auto& [batch, steps, features] = shape;
  if (Status status = program->prepare(batch, steps, features); !status) {
    return tl::unexpected(status.error());
  }
  report_notes(*program);
  const Result<PreparedPlan> prepared = program->prepared(batch, steps, features);
  if (!prepared) return tl::unexpected(prepared.error());
  BenchProgram bench{.program = std::move(*program),
                     .plan = *prepared->plan,
                     .tile_rank = prepared->tile_rank,
                     .machine = {}};
  bench.machine = bench.program.backend().machine();
  return bench;
}

Prediction predict(const Plan& plan, const Machine& machine, int64_t steps) {
  const Cost cost = cost_of(plan, steps, machine);
  return {.seconds_per_step = cost.seconds / static_cast<double>(steps),
          .floor_seconds_per_step = cost.floor_seconds / static_cast<double>(steps),
          .launches = count_launches(plan, steps)};
}

Prediction predict(const BenchProgram& bench, int64_t steps) {
  return predict(bench.plan, bench.machine, steps);
}

Result<Measurement> measure(Program& program, Runner& runner, const BenchShape& shape,
                            const BenchOptions& options, bool replays) {
  const Result<RunArgs> args = random_args(program.signature(), shape, options);
  if (!args) return tl::unexpected(args.error());
  Result<RunResult> result = runner.run(*args);
  if (!result) return tl::unexpected(result.error());
  const Result<Timing> plain = time_runs(runner, &Runner::time_per_step, options, shape);
  if (!plain) return tl::unexpected(plain.error());
  Measurement measured{.result = std::move(*result), .plain = *plain, .replayed = {}};
  if (!replays) return measured;
  const Result<Timing> replayed =
      time_runs(runner, &Runner::time_replayed_per_step, options, shape);
  if (!replayed) return tl::unexpected(replayed.error());
  measured.replayed = *replayed;
  return measured;
}

Result<TrainingMeasurement> measure_training(Program& program, Runner& runner,
                                             const BenchShape& shape, const BenchOptions& options,
                                             const TrainingChoice& choice) {
  const Signature& signature = program.signature();
  const Result<RunArgs> args = random_args(signature, shape, options);
  if (!args) return tl::unexpected(args.error());
  LossGradients loss;
  for (ArrayInfo output : signature.outputs) {
    output.shape.insert(output.shape.begin(), {shape.steps, shape.batch});
    loss.outputs.push_back({output.name, random_array(output, 1, kSeed)});
  }
  if (const auto run = runner.gradients(*args, loss, choice.residuals, choice.checkpoint); !run) {
    return tl::unexpected(run.error());
  }
  TrainingMeasurement measured;
  const Result<Timing> forward = time_runs(runner, &Runner::time_per_step, options, shape);
  if (!forward) return tl::unexpected(forward.error());
  measured.forward = *forward;
  const Result<Timing> both = time_runs(runner, &Runner::time_training_per_step, options, shape);
  if (!both) return tl::unexpected(both.error());
  measured.both = *both;
  if (choice.replays) {
    const Result<Timing> replayed =
        time_runs(runner, &Runner::time_replayed_training_per_step, options, shape);
    if (!replayed) return tl::unexpected(replayed.error());
    measured.replayed = *replayed;
  }
  const auto& [batch, steps, features] = shape;
  const Result<TrainingPlans> plans = program.training_plans(batch, steps, features);
  if (!plans) return tl::unexpected(plans.error());
  const Machine machine = program.backend().machine();
  for (const Plan* plan : {plans->forward.plan, plans->backward.plan}) {
    const Prediction half = predict(*plan, machine, steps);
    measured.prediction.seconds_per_step += half.seconds_per_step;
    measured.prediction.floor_seconds_per_step += half.floor_seconds_per_step;
    measured.prediction.launches += half.launches;
  }
  const Result<TrainingSizes> sizes = program.training_sizes(batch, steps, features);
  if (!sizes) return tl::unexpected(sizes.error());
  measured.sizes = *sizes;
  return measured;
}

}  // namespace rnnc::tools
