#include <algorithm>
#include <chrono>

#include "runtime/describe.h"
#include "runtime/files.h"
#include "runtime/npy.h"
#include "runtime/run.h"
#include "runtime/safetensors.h"
#include "tools/command.h"
#include "tools/progress.h"
#include "tools/random_weights.h"

namespace rnnc::tools {
namespace {

namespace fs = std::filesystem;

struct Options {
  Source source;
  std::string dtype = "f32";
  std::string device = "cpu";
  std::string weights;
  std::optional<uint64_t> seed;
  std::vector<NamedFile> inputs, initial_states, outputs, final_states;
  bool tf32 = false;
  int threads = 0;
  bool time = false;
};

/// Outputs must be writable, different from each other, and not what is read.
Status check_outputs(const Options& options) {
  std::vector<fs::path> read{options.source.file};
  if (!options.weights.empty()) read.emplace_back(options.weights);
  for (const auto* files : {&options.inputs, &options.initial_states}) {
    for (const NamedFile& named : *files) read.push_back(named.file);
  }
  std::vector<fs::path> written;
  std::error_code ignored;
  for (const auto* files : {&options.outputs, &options.final_states}) {
    for (const NamedFile& named : *files) {
      if (Status status = check_writable(named.file); !status) return status;
      for (const fs::path& input : read) {
        if (!fs::equivalent(input, named.file, ignored)) continue;
        return fail("cannot write {}: it is an input of this run", quote(named.file.string()));
      }
      const fs::path place = fs::weakly_canonical(fs::absolute(named.file), ignored);
      const bool regular = !fs::exists(place, ignored) || fs::is_regular_file(place, ignored);
      if (regular && std::ranges::find(written, place) != written.end()) {
        return fail("two results would be written to {}", quote(named.file.string()));
      }
      written.push_back(place);
    }
  }
  return {};
}

/// Whether the graph has what --output and --final ask for.
Status check_result_names(const Options& options, const Graph& graph) {
  std::vector<std::string> outputs;
  std::vector<std::string> states;
  outputs.reserve(graph.outputs.size());
  states.reserve(graph.states.size());
  for (const OutputDecl& output : graph.outputs) outputs.push_back(output.name);
  for (const StateDecl& state : graph.states) states.push_back(state.name);
  std::vector<std::string> problems;
  const auto check = [&](const char* kind, const std::vector<NamedFile>& wanted,
                         const std::vector<std::string>& names) {
    for (const NamedFile& named : wanted) {
      if (std::ranges::find(names, named.name) != names.end()) continue;
      const std::string nearest = nearest_name(named.name, names);
      const std::string hint = !nearest.empty() ? fmt::format(" (did you mean `{}`?)", nearest)
                               : names.empty()  ? "; it has none"
                                               : fmt::format("; it has {}", fmt::join(names, ", "));
      problems.push_back(
          fmt::format("{} has no {} {}{}", quote(graph.name), kind, quote(named.name), hint));
    }
  };
  check("output", options.outputs, outputs);
  check("state", options.final_states, states);
  if (problems.empty()) return {};
  return fail("{}", fmt::join(problems, "\n  "));
}

Result<std::vector<NamedArray>> read_arrays(const std::vector<NamedFile>& files) {
  std::vector<NamedArray> arrays;
  for (const NamedFile& named : files) {
    Result<Array> array = read_npy(named.file);
    if (!array) return tl::unexpected(array.error());
    arrays.push_back({named.name, std::move(*array)});
  }
  return arrays;
}

Result<RunArgs> read_args(const Options& options) {
  RunArgs args;
  Result<std::vector<NamedArray>> inputs = read_arrays(options.inputs);
  if (!inputs) return tl::unexpected(inputs.error());
  args.inputs = std::move(*inputs);
  Result<std::vector<NamedArray>> states = read_arrays(options.initial_states);
  if (!states) return tl::unexpected(states.error());
  args.initial_states = std::move(*states);
  if (!options.weights.empty()) {
    Result<std::vector<NamedArray>> params = read_safetensors(options.weights);
    if (!params) return tl::unexpected(params.error());
    args.params = std::move(*params);
  }
  return args;
}

/// Those given and those that the arrays decide.
Result<DimBindings> choose_dims(const Options& options, const Graph& graph, const RunArgs& args) {
  if (Status status = check_result_names(options, graph); !status) {
    return tl::unexpected(status.error());
  }
  return infer_dims(graph, options.source.dims, args);
}

/// The step Graph, bound. Nothing if there is an error, which is then already printed.
std::optional<Graph> load_graph(const Options& options, Definition& definition,
                                const RunArgs& args) {
  const std::optional<Graph> graph = lower_definition(definition, options.source.dims);
  if (!graph) return std::nullopt;
  const Result<DimBindings> dims = choose_dims(options, *graph, args);
  if (!dims) {
    report(dims.error());
    return std::nullopt;
  }
  Result<Graph> bound = bind_all(*graph, *dims);
  if (!bound) {
    report(bound.error());
    return std::nullopt;
  }
  return std::move(*bound);
}

Status write_results(const Options& options, const RunResult& result) {
  FileTransaction files;
  const auto add = [&](const std::vector<NamedFile>& wanted,
                       const std::vector<NamedArray>& arrays) -> Status {
    for (const NamedFile& named : wanted) {
      const auto found = std::ranges::find(arrays, named.name, &NamedArray::name);
      if (Status status = files.add(named.file, format_npy(found->array)); !status) return status;
    }
    return {};
  };
  if (Status status = add(options.outputs, result.outputs); !status) return status;
  if (Status status = add(options.final_states, result.final_states); !status) return status;
  return files.commit();
}

/// For runs that keep nothing: what there would be to keep.
std::string describe_results(const RunResult& result) {
  std::string text;
  for (const NamedArray& output : result.outputs) {
    text += fmt::format("--output {} {}\n", output.name, shape_text(output.array.shape));
  }
  for (const NamedArray& state : result.final_states) {
    text += fmt::format("--final {} {}\n", state.name, shape_text(state.array.shape));
  }
  return text;
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// The median time per step of as many runs as fit into about a second.
Result<std::string> measure(Runner& runner, int64_t steps, double compile_seconds) {
  const Result<double> first = runner.time_per_step(1);
  if (!first) return tl::unexpected(first.error());
  const double run_seconds = std::max(*first * static_cast<double>(steps), 1e-9);
  const int repeats = static_cast<int>(std::clamp(1 / run_seconds, 1.0, 200.0));
  const Result<double> median = runner.time_per_step(repeats);
  if (!median) return tl::unexpected(median.error());
  return fmt::format(
      "compile        {:.1f} ms\ntime per step  {:.3f} us (median of {} runs of {} steps)\n",
      compile_seconds * 1e3, *median * 1e6, repeats, steps);
}

/// Compiles, runs, writes the results and prints the times asked for.
Status run_graph(const Options& options, const Graph& graph, RunArgs args, Progress& progress) {
  progress.phase("compiling");
  const auto start = std::chrono::steady_clock::now();
  CompileOptions compile_options;
  compile_options.dtype = dtype_of(options.dtype);
  compile_options.device = Device::parse(options.device).value();
  compile_options.allow_tf32 = options.tf32;
  compile_options.threads = options.threads;
  compile_options.cache_directory = cache_directory();
  Result<Program> program = Program::compile(graph, compile_options);
  if (!program) return tl::unexpected(program.error());
  double compile_seconds = seconds_since(start);

  if (options.seed) {
    Result<std::vector<NamedArray>> weights =
        random_weights(program->signature().params, *options.seed);
    if (!weights) return tl::unexpected(weights.error());
    args.params = std::move(*weights);
  }
  Runner runner(*program);
  const auto prepare_start = std::chrono::steady_clock::now();
  if (Status status = runner.prepare(args); !status) return status;
  compile_seconds += seconds_since(prepare_start);

  progress.phase("running");
  const Result<RunResult> result = runner.run(args);
  if (!result) return tl::unexpected(result.error());
  progress.phase("writing");
  if (Status status = write_results(options, *result); !status) return status;
  if (options.outputs.empty() && options.final_states.empty() && !options.time) {
    return print(describe_results(*result));
  }
  if (!options.time) return {};
  progress.phase("measuring");
  const int64_t steps = args.inputs.front().array.shape[0];
  const Result<std::string> times = measure(runner, steps, compile_seconds);
  progress.stop();
  return times ? print(*times) : tl::unexpected(times.error());
}

int run_run(const CLI::App& command, const Options& options) {
  if (!options.weights.empty() && options.seed) {
    return report_usage(command, "--weights and --seed exclude each other");
  }
  if (Status status = check_outputs(options); !status) return report(status.error());
  std::optional<Definition> definition = load_definition(options.source);
  if (!definition) return kError;
  Result<RunArgs> args = read_args(options);
  if (!args) return report(args.error());
  const std::optional<Graph> graph = load_graph(options, *definition, *args);
  if (!graph) return kError;
  if (options.weights.empty() && !options.seed && !graph->params.empty()) {
    return report({fmt::format("{} has {} params: give --weights FILE, or --seed N for random ones",
                               quote(graph->name), graph->params.size())});
  }
  Progress progress;
  const Status status = run_graph(options, *graph, std::move(*args), progress);
  progress.stop();
  return status ? kOk : report(status.error());
}

std::string check_device(const std::string& text) {
  const Result<Device> device = Device::parse(text);
  return device ? "" : device.error().message;
}

void add_array_options(CLI::App& command, Options& options) {
  command
      .add_option("--weights", options.weights,
                  "A safetensors file with the params; `rnnc weights` lists them")
      ->type_name("FILE");
  command
      .add_option(
          "--seed", options.seed,
          "Random weights instead, the same for the same number on every machine: uniform in "
          "[-1/sqrt(n), 1/sqrt(n)] for a param whose last axis has n elements")
      ->check(CLI::NonNegativeNumber)
      ->type_name("NUMBER");
  add_named_files(command, "--input", options.inputs, "An input [T, B, ...]; may be repeated");
  add_named_files(command, "--init", options.initial_states,
                  "A state before the first step [B, ...]; may be repeated");
  add_named_files(command, "--output", options.outputs,
                  "Where to write an output [T, B, ...]; may be repeated");
  add_named_files(command, "--final", options.final_states,
                  "Where to write a state after the last step [B, ...]; may be repeated");
}

}  // namespace

void add_run(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("run", "Run a cell or network on NumPy arrays");
  add_source(*command, options->source);
  add_array_options(*command, *options);
  add_dtype(*command, options->dtype, "Element type to run in; arrays are converted");
  command->add_option("--device", options->device, "cpu, cuda or cuda:1")
      ->type_name("DEVICE")
      ->check(check_device)
      ->capture_default_str();
  command->add_flag("--tf32", options->tf32, "Let products of f32 on a GPU round to TF32");
  command->add_option("--threads", options->threads, "CPU threads; 0: one per hardware thread")
      ->type_name("NUMBER")
      ->check(CLI::Range(0, 4096))
      ->capture_default_str();
  command->add_flag("--time", options->time, "Print compile time and the median time per step");
  command->footer(
      "Arrays are NumPy .npy files of float64, float32 or float16. Results are written as float64\n"
      "for f64 and as float32 otherwise. Dims that are not given follow from the arrays.\n\n"
      "Examples:\n"
      "  rnnc run lstm.rnn --weights w.safetensors --input x=x.npy --output h=y.npy --final "
      "c=c.npy\n"
      "  rnnc run lstm.rnn --dim H=512 --seed 1 --input x=x.npy --device cuda --time");
  command->callback([command, options, &exit_code] { exit_code = run_run(*command, *options); });
}

}  // namespace rnnc::tools
