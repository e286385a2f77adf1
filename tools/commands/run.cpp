#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "runtime/arrays/histories.h"
#include "runtime/arrays/random_arrays.h"
#include "runtime/base/describe.h"
#include "tools/command.h"
#include "tools/progress.h"
#include "tools/run_files.h"

namespace rnnc::tools {
namespace {

struct Options {
  Source source;
  RunFiles files;
  std::string dtype = "f32";
  std::string device = "cpu";
  std::optional<uint64_t> seed;
  int64_t piece = 0;
  std::string residuals = "auto";
  int64_t checkpoint = 0;
  bool reverse = false;
  bool tf32 = false;
  bool f32_params = false;
  int threads = 0;
  PassSet passes = PassSet::all();
  bool tune = false;
  Strategy strategy = Strategy::Any;
  CpuTarget cpu;
  bool no_graphs = false;
  bool time = false;
  bool json = false;
};

/// Whether the program may begin or end amid a sequence, if it is asked to.
Status check_streaming(const Options& options, const Signature& signature) {
  const char* flag = options.piece > 0                  ? "--chunk"
                     : !options.files.carry_in.empty()  ? "--carry-in"
                     : !options.files.carry_out.empty() ? "--carry-out"
                                                        : nullptr;
  if (flag == nullptr || signature.streams) return {};
  return fail("{}: {}", flag, why_not_in_pieces(signature));
}

/// For runs that keep nothing: what there would be to keep.
std::string describe_results(const RunResult& result, bool batch_first) {
  std::string text;
  for (const NamedArray& output : result.outputs) {
    std::vector<int64_t> shape = output.array.shape;
    if (batch_first) std::swap(shape[0], shape[1]);
    text += fmt::format("--output {} {}\n", output.name, shape_text(shape));
  }
  for (const NamedArray& state : result.final_states) {
    text += fmt::format("--final {} {}\n", state.name, shape_text(state.array.shape));
  }
  return text;
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

struct Times {
  double compile_seconds = 0;  // preparing, too
  double seconds_per_step = 0;
  int runs = 0;  // of which that is the median
};

/// The median time per step of as many runs as fit into about a second.
Result<Times> measure(Runner& runner, Result<double> (Runner::*time)(int), int64_t steps,
                      double compile_seconds) {
  const Result<double> first = (runner.*time)(1);
  if (!first) return tl::unexpected(first.error());
  const double run_seconds = std::max(*first * static_cast<double>(steps), 1e-9);
  const int runs = static_cast<int>(std::clamp(1 / run_seconds, 1.0, 200.0));
  const Result<double> median = (runner.*time)(runs);
  if (!median) return tl::unexpected(median.error());
  return Times{compile_seconds, *median, runs};
}

std::string text_of(const Times& times, int64_t steps) {
  return fmt::format(
      "compile        {:.1f} ms\ntime per step  {:.3f} us (median of {} runs of {} steps)\n",
      times.compile_seconds * 1e3, times.seconds_per_step * 1e6, times.runs, steps);
}

/// Keys as in `rnnc bench --json`.
std::string json_of(const Times& times, const Options& options, const std::string& name,
                    const std::vector<int64_t>& input) {
  const nlohmann::json json = {{"name", name},
                               {"device", options.device},
                               {"dtype", options.dtype},
                               {"tf32", options.tf32},
                               {"steps", input[0]},
                               {"batch", input[1]},
                               {"passes", options.passes.to_string()},
                               {"strategy", to_string(options.strategy)},
                               {"graphs", !options.no_graphs},
                               {"cold_seconds", times.compile_seconds},
                               {"microseconds_per_step", times.seconds_per_step * 1e6},
                               {"runs", times.runs}};
  return json.dump(2) + "\n";
}

Result<Program> compile(const Options& options, const Graph& graph) {
  CompileOptions compile_options;
  compile_options.dtype = dtype_of(options.dtype);
  compile_options.param_dtype = param_dtype_of(options.f32_params);
  compile_options.device = Device::parse(options.device).value();
  compile_options.allow_tf32 = options.tf32;
  compile_options.threads = options.threads;
  compile_options.cache_directory = cache_directory();
  compile_options.reverse = options.reverse;
  compile_options.passes = options.passes;
  compile_options.graphs = !options.no_graphs;
  compile_options.tune = options.tune;
  compile_options.strategy = options.strategy;
  compile_options.cpu = options.cpu;
  return Program::compile(graph, compile_options);
}

/// What only a compiled program can check or say: random weights, carried states.
Status complete_args(const Options& options, const Signature& signature, RunData& data) {
  if (Status status = check_streaming(options, signature); !status) return status;
  RunArgs& args = data.args;
  args.piece = options.piece;
  if (options.seed) {
    Result<std::vector<NamedArray>> weights = random_weights(signature.params, *options.seed);
    if (!weights) return tl::unexpected(weights.error());
    args.params = std::move(*weights);
  }
  // Gradients are of what is given, and nothing comes before a sequence that does not stream.
  if (options.files.gradients.empty() && signature.streams) {
    args.initial_states = fill_histories(signature.states, std::move(args.initial_states));
  }
  if (!data.carried) return {};
  Result<std::vector<NamedArray>> states =
      take_carried(options.files, signature, *data.carried, args.inputs);
  if (!states) return tl::unexpected(states.error());
  args.initial_states = std::move(*states);
  return {};
}

/// Compiles, runs, writes the results and prints the times asked for.
Status run_graph(const Options& options, const Graph& graph, RunData data, Progress& progress) {
  progress.phase("compiling");
  const auto start = std::chrono::steady_clock::now();
  Result<Program> program = compile(options, graph);
  if (!program) return tl::unexpected(program.error());
  double compile_seconds = seconds_since(start);
  if (Status status = complete_args(options, program->signature(), data); !status) return status;

  const RunFiles& files = options.files;
  const bool trains = !files.gradients.empty();
  Runner runner(*program);
  const auto prepare_start = std::chrono::steady_clock::now();
  if (!trains) {
    if (Status status = runner.prepare(data.args); !status) return status;
  }
  compile_seconds += seconds_since(prepare_start);
  const auto report_all_notes = [&] {
    if (!program->notes().empty()) progress.stop();
    report_notes(*program);
  };
  if (!trains) report_all_notes();

  progress.phase("running");
  std::optional<RunGradients> gradients;
  Result<RunResult> result;
  if (trains) {
    const ResidualChoice residuals = parse_residual_choice(options.residuals).value();
    Result<RunGradients> both =
        runner.gradients(data.args, data.loss, residuals, options.checkpoint);
    report_all_notes();
    if (!both) return tl::unexpected(both.error());
    gradients = *std::move(both);
    result = gradients->result;
  } else {
    result = runner.run(data.args);
  }
  if (!result) return tl::unexpected(result.error());
  progress.phase("writing");
  if (Status status = write_results(files, *result, gradients ? &*gradients : nullptr); !status) {
    return status;
  }
  if (trains && !options.time) return {};
  if (files.outputs.empty() && files.final_states.empty() && files.carry_out.empty() &&
      !options.time) {
    return print(describe_results(*result, files.batch_first));
  }
  if (!options.time) return {};
  progress.phase("measuring");
  const std::vector<int64_t>& shape = data.args.inputs.front().array.shape;
  const auto time = trains ? &Runner::time_training_per_step : &Runner::time_per_step;
  const Result<Times> times = measure(runner, time, shape[0], compile_seconds);
  progress.stop();
  if (!times) return tl::unexpected(times.error());
  return print(options.json ? json_of(*times, options, program->signature().name, shape)
                            : text_of(*times, shape[0]));
}

/// What is wrong with the options together, or "".
std::string check_usage(const Options& options) {
  const RunFiles& files = options.files;
  if (std::string problem =
          check_dashes(files_read(files), files_written(files), options.time ? "--time" : "");
      !problem.empty()) {
    return problem;
  }
  if (!files.weights.tensors.empty() && options.seed) {
    return "--weights and --seed exclude each other";
  }
  if (!files.weights.map.empty() && files.weights.tensors.empty()) {
    return "--weight-map is for --weights, which is not given";
  }
  if (std::string problem = check_tf32(options.tf32, options.dtype, options.device);
      !problem.empty()) {
    return problem;
  }
  if (std::string problem = check_f32_params(options.f32_params, options.dtype); !problem.empty()) {
    return problem;
  }
  if (std::string problem = check_tune(options.tune, options.device); !problem.empty()) {
    return problem;
  }
  if (std::string problem = check_strategy(options.strategy, options.device); !problem.empty()) {
    return problem;
  }
  if (std::string problem = check_cpu_target(options.cpu, options.device); !problem.empty()) {
    return problem;
  }
  const bool has_loss = !files.output_gradients.empty() || !files.final_gradients.empty();
  if (files.gradients.empty() && has_loss) {
    return "--output-gradient and --final-gradient are for --gradients, which is not given";
  }
  if (!files.gradients.empty() && !has_loss) {
    return "--gradients: of what? Give --output-gradient or --final-gradient";
  }
  if (!files.gradients.empty() && options.piece > 0) {
    return "--gradients are of whole runs: it excludes --chunk";
  }
  if (!files.carry_in.empty() && !files.initial_states.empty()) {
    return fmt::format("--carry-in gives every state, {} too: it excludes --init",
                       quote(files.initial_states.front().name));
  }
  return "";
}

int run_run(const CLI::App& command, Options& options) {
  options.files.source = options.source.file;
  if (const std::string problem = check_usage(options); !problem.empty()) {
    return report_usage(command, problem);
  }
  if (Status status = check_outputs(options.files); !status) return report(status.error());
  std::optional<Definition> definition = load_definition(options.source);
  if (!definition) return kError;
  if (options.reverse && definition->unit.is_network(definition->name)) {
    return report(
        {fmt::format("--reverse is for a cell, and {} is a network, which says `reverse` "
                     "before the layers that it is for",
                     quote(definition->name))});
  }
  Result<RunData> data =
      read_run_data(options.files, definition->unit.integer_inputs(definition->name));
  if (!data) return report(data.error());
  if (const std::string doubt = doubt_leading_axes(options.files, *data); !doubt.empty()) {
    report_note(doubt);
  }
  const std::optional<Graph> graph =
      load_run_graph(options.files, options.source.dims, *definition, *data);
  if (!graph) return kError;
  if (options.files.weights.tensors.empty() && !options.seed && !graph->params.empty()) {
    return report({fmt::format("{} has {} params: give --weights FILE, or --seed N for random ones",
                               quote(graph->name), graph->params.size())});
  }
  Progress progress;
  const Status status = run_graph(options, *graph, std::move(*data), progress);
  progress.stop();
  return status ? kOk : report(status.error());
}

void add_array_options(CLI::App& command, Options& options) {
  RunFiles& files = options.files;
  add_weight_files(command, files.weights);
  command
      .add_option(
          "--seed", options.seed,
          "Random weights instead, the same for the same number on every machine: uniform in "
          "[-1/sqrt(n), 1/sqrt(n)] for a param whose last axis has n elements")
      ->check(seed_value())
      ->type_name("NUMBER");
  add_named_files(command, "--input", files.inputs, "An input [T, B, ...]; may be repeated");
  command.add_flag("--batch-first", files.batch_first,
                   "Inputs, outputs and --reset are [B, T, ...] in their files, not [T, B, ...]");
  add_named_files(command, "--init", files.initial_states,
                  "A state before the first step [B, ...]; may be repeated");
  add_named_files(command, "--output", files.outputs,
                  "Where to write an output [T, B, ...]; may be repeated");
  add_named_files(command, "--final", files.final_states,
                  "Where to write a state after the last step [B, ...]; may be repeated");
}

void add_gradient_options(CLI::App& command, Options& options) {
  RunFiles& files = options.files;
  add_named_files(command, "--output-gradient", files.output_gradients,
                  "The gradient of a loss by an output [T, B, ...]; may be repeated");
  add_named_files(
      command, "--final-gradient", files.final_gradients,
      "The gradient of a loss by a state after the last step [B, ...]; may be repeated");
  CLI::Option* gradients =
      command
          .add_option(
              "--gradients", files.gradients,
              "Where to write the gradients by all params, inputs and states given with --init, "
              "under these names: a .safetensors or .npz file")
          ->type_name("FILE");
  add_residuals(command, options.residuals)->needs(gradients);
  add_checkpoint(command, options.checkpoint)->needs(gradients);
}

void add_sequence_options(CLI::App& command, Options& options) {
  RunFiles& files = options.files;
  command
      .add_option("--lengths", files.lengths,
                  "Steps of each sequence [B], int32 or int64: past its end a sequence's outputs "
                  "are zero and its states stay")
      ->type_name("FILE");
  command
      .add_option("--reset", files.reset,
                  "Where sequences begin anew [T, B], bool, uint8 or float: there states return to "
                  "their declared initial values")
      ->type_name("FILE");
  command.add_flag("--reverse", options.reverse,
                   "Run a cell from each sequence's last step to its first");
  command
      .add_option("--chunk", options.piece,
                  "Run in pieces of so many steps, each going on from the one before it")
      ->type_name("NUMBER")
      ->check(whole_number(1, int64_t{1} << 40));
  command
      .add_option("--carry-out", files.carry_out,
                  "Where to write all that a later run needs to go on: every state and delay by "
                  "its name, as an .npz file")
      ->type_name("FILE");
  command.add_option("--carry-in", files.carry_in, "Go on from what --carry-out has written")
      ->type_name("FILE");
}

}  // namespace

void add_run(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("run", "Run a cell or network on NumPy arrays");
  add_source(*command, options->source);
  add_array_options(*command, *options);
  add_sequence_options(*command, *options);
  add_gradient_options(*command, *options);
  add_dtype(*command, options->dtype, "Element type to run in; arrays are converted");
  add_f32_params(*command, options->f32_params);
  add_device(*command, options->device);
  add_tf32(*command, options->tf32);
  add_threads(*command, options->threads);
  add_passes(*command, options->passes);
  add_tune(*command, options->tune);
  add_strategy(*command, options->strategy);
  add_cpu_target(*command, options->cpu);
  command->add_flag("--no-graphs", options->no_graphs,
                    "GPU: launch every kernel anew, without CUDA graphs");
  CLI::Option* time =
      command->add_flag("--time", options->time, "Print compile time and the median time per step");
  command->add_flag("--json", options->json, "As JSON, with the keys of `rnnc bench --json`")
      ->needs(time);
  command->footer(
      "Arrays are NumPy .npy files of float64, float32 or float16. Results are written as float64\n"
      "for f64 and as float32 otherwise. Dims that are not given follow from the arrays. A run in\n"
      "pieces gives the same bits as one run if they are multiples of the plan's chunk, which\n"
      "`rnnc emit --as plan` prints.\n\n"
      "Examples:\n"
      "  rnnc run lstm.rnn --weights w.safetensors --input x=x.npy --output h=y.npy --final "
      "c=c.npy\n"
      "  rnnc run lstm.rnn --dim H=512 --seed 1 --input x=x.npy --device cuda --time\n"
      "  rnnc run lstm.rnn --weights w.safetensors --input x=x.npy --output-gradient h=dh.npy "
      "--gradients g.safetensors\n"
      "  rnnc run lstm.rnn --weights torch.safetensors --weight-map torch --batch-first "
      "--input x=x.npy\n"
      "  rnnc run lstm.rnn --weights w.safetensors --input x=today.npy --carry-in s.npz "
      "--carry-out "
      "s.npz");
  command->callback([command, options, &exit_code] { exit_code = run_run(*command, *options); });
}

}  // namespace rnnc::tools
