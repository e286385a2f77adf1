#include <algorithm>
#include <charconv>
#include <optional>

#include "runtime/arrays/npz.h"
#include "runtime/arrays/random_arrays.h"
#include "runtime/base/describe.h"
#include "runtime/debug/first_non_finite.h"
#include "runtime/debug/named_values.h"
#include "runtime/debug/statistics.h"
#include "tools/command.h"
#include "tools/commands/plots.h"
#include "tools/progress.h"
#include "tools/run_files.h"

namespace rnnc::tools {
namespace {

using debug::NamedValue;
using debug::NonFinite;
using debug::Observer;
using debug::Sequence;
using debug::Spread;
using debug::Statistics;

/// From the first to behind the last.
struct Range {
  size_t begin = 0, end = 0;
};

struct Options {
  Source source;
  RunFiles files;
  std::optional<uint64_t> seed;
  std::string dtype = "f32";
  std::string device = "cpu";
  bool f32_params = false;
  bool tf32 = false;
  int threads = 0;
  PassSet passes = PassSet::all();
  std::vector<std::string> watch;
  std::string steps = "0:4";
  std::string sequences = "0:1";
  std::string save;
  std::string svg;
};

/// More units of a value are not printed.
constexpr size_t kMostUnits = 8;

/// "3" or "0:4"; nothing if it is neither.
std::optional<Range> parse_range(std::string_view text) {
  const auto number = [](std::string_view digits) -> std::optional<size_t> {
    uint32_t value = 0;
    const char* const begin = digits.data();
    const char* const end = begin + digits.size();
    const auto [at, error] = std::from_chars(begin, end, value);
    return error == std::errc() && at == end ? std::optional<size_t>(value) : std::nullopt;
  };
  const size_t colon = text.find(':');
  const std::optional<size_t> begin = number(text.substr(0, colon));
  if (!begin) return std::nullopt;
  if (colon == text.npos) return Range{*begin, *begin + 1};
  const std::optional<size_t> end = number(text.substr(colon + 1));
  return end && *begin < *end ? std::optional(Range{*begin, *end}) : std::nullopt;
}

CLI::Validator range_value() {
  return {[](const std::string& text) {
            return parse_range(text) ? std::string()
                                     : fmt::format(
                                           "{} is neither a number nor FROM:TO, of which TO "
                                           "is left out",
                                           quote(text));
          },
          "", "range"};
}

CompileOptions compile_options(const Options& options) {
  CompileOptions compile;
  compile.device = Device::parse(options.device).value();
  compile.dtype = dtype_of(options.dtype);
  compile.param_dtype = param_dtype_of(options.f32_params);
  compile.allow_tf32 = options.tf32;
  compile.threads = options.threads;
  compile.cache_directory = cache_directory();
  compile.passes = options.passes;
  return compile;
}

/// A value that is shown.
struct Shown {
  NamedValue value;
  Type type;
  Sequence sequence;
  Statistics statistics;
};

Result<std::vector<Shown>> observe(const Options& options, const Observer& observer) {
  const Graph& graph = observer.graph();
  Result<std::vector<NamedValue>> values = debug::find_values(graph, options.watch);
  if (!values) return tl::unexpected(values.error());
  if (options.watch.empty()) *values = debug::named_values(graph);
  std::vector<NodeId> nodes;
  for (const NamedValue& value : *values) nodes.push_back(value.node);
  Result<std::vector<Sequence>> sequences = observer.observe(nodes);
  if (!sequences) return tl::unexpected(sequences.error());
  std::vector<Shown> shown;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const Node& node = graph[nodes[i]];
    Statistics statistics = statistics_of(node, (*sequences)[i], observer.args());
    shown.push_back(
        {std::move((*values)[i]), node.type, std::move((*sequences)[i]), std::move(statistics)});
  }
  return shown;
}

std::string shape_of(const Type& type) {
  std::vector<int64_t> shape;
  for (const Dim& dim : type.shape) shape.push_back(dim.constant().value_or(0));
  return shape_text(shape);
}

std::string table(const std::vector<Shown>& shown) {
  std::string text = fmt::format("{:16}{:>10}{:>11}{:>11}{:>11}{:>11}{:>11}  {}\n", "value",
                                 "shape", "least", "mean", "most", "deviation", "saturated", "at");
  for (const Shown& value : shown) {
    const Spread& all = value.statistics.all;
    text += fmt::format("{:16}{:>10}", value.value.name, shape_of(value.type));
    if (all.count > 0) {
      text += fmt::format("{:>11.4g}{:>11.4g}{:>11.4g}{:>11.4g}{:>11}", all.least, all.mean,
                          all.most, all.deviation,
                          all.saturated ? fmt::format("{:.1f} %", 100 * *all.saturated) : "");
    } else {
      text += fmt::format("{:55}", "");
    }
    text += fmt::format("  {}{}\n", value.value.place,
                        all.non_finite == 0 ? ""
                                            : fmt::format(", {} of {} not finite", all.non_finite,
                                                          all.non_finite + all.count));
  }
  return text;
}

/// What of a range there is.
Range within(const Range& range, size_t size) {
  return {std::min(range.begin, size), std::min(range.end, size)};
}

std::string print_values(const Options& options, const std::vector<Shown>& shown) {
  std::string text;
  for (const Shown& value : shown) {
    const Sequence& sequence = value.sequence;
    const Range steps = within(*parse_range(options.steps), sequence.steps);
    const Range sequences = within(*parse_range(options.sequences), sequence.batch);
    text += fmt::format("\n{}\n", value.value.name);
    for (size_t step = steps.begin; step < steps.end; ++step) {
      for (size_t b = sequences.begin; b < sequences.end; ++b) {
        text += fmt::format("  step {}, sequence {}:", step, b);
        const std::span<const double> row = sequence.row(step, b);
        for (const double x : row.first(std::min(row.size(), kMostUnits))) {
          text += fmt::format(" {:.6g}", x);
        }
        if (row.size() > kMostUnits) text += fmt::format(" ... of {}", row.size());
        text += '\n';
      }
    }
  }
  return text;
}

std::string_view kind_of(double value) {
  return value == value ? "infinity" : "NaN";
}

std::string describe(const std::optional<NonFinite>& found) {
  if (!found) return "\nall values of all steps are finite\n";
  std::string text = fmt::format("\nfirst {}: ", kind_of(found->value));
  if (found->is_of_step) {
    text += fmt::format("step {}, sequence {}", found->step, found->sequence);
    if (!found->element.empty()) text += ", ";
  }
  text += fmt::format("{}\n  {} = {}", found->element, found->name, found->value);
  if (!found->place.empty()) text += fmt::format("  at {}", found->place);
  text += '\n';
  for (const NonFinite::Operand& operand : found->operands) {
    text += fmt::format("  made of {} = {:.6g}{}\n", operand.name, operand.value,
                        operand.is_largest ? ", the largest of its units" : "");
  }
  return text;
}

SpreadChart chart_of(const Shown& value) {
  SpreadChart chart{.title = value.value.name,
                    .note = fmt::format("{}  over sequences and units: all, one deviation around "
                                        "the mean, the mean",
                                        value.value.place),
                    .steps = {}};
  for (const Spread& step : value.statistics.steps) {
    chart.steps.push_back({.empty = step.count == 0,
                           .least = step.least,
                           .most = step.most,
                           .mean = step.mean,
                           .deviation = step.deviation,
                           .marked = step.non_finite > 0});
  }
  return chart;
}

/// A name that stands for several values is numbered from the second on.
Result<std::string> archive(const std::vector<Shown>& shown) {
  std::vector<NamedArray> arrays;
  for (const Shown& value : shown) {
    const auto is_same = [&](const Shown& other) { return other.value.name == value.value.name; };
    const auto before = std::count_if(shown.data(), &value, is_same);
    std::vector<int64_t> shape = {static_cast<int64_t>(value.sequence.steps),
                                  static_cast<int64_t>(value.sequence.batch)};
    for (const Dim& dim : value.type.shape) shape.push_back(dim.constant().value_or(0));
    arrays.push_back(
        {before == 0 ? value.value.name : fmt::format("{}.{}", value.value.name, before + 1),
         Array::from_doubles(value.sequence.elements, shape, DType::f64)});
  }
  return format_npz(arrays);
}

Status write_files(const Options& options, const std::vector<Shown>& shown) {
  if (!options.save.empty()) {
    const Result<std::string> bytes = archive(shown);
    if (!bytes) return tl::unexpected(bytes.error());
    if (Status status = write_output(options.save, *bytes); !status) return status;
  }
  if (options.svg.empty()) return {};
  std::vector<SpreadChart> charts;
  for (const Shown& value : shown) charts.push_back(chart_of(value));
  return write_output(options.svg, draw_spreads(charts));
}

Result<RunArgs> complete_args(const Options& options, const Graph& graph, RunData data) {
  if (options.seed) {
    const Result<Program> program = Program::compile(graph, compile_options(options));
    if (!program) return tl::unexpected(program.error());
    Result<std::vector<NamedArray>> weights =
        random_weights(program->signature().params, *options.seed);
    if (!weights) return tl::unexpected(weights.error());
    data.args.params = *std::move(weights);
  }
  return std::move(data.args);
}

Status debug_graph(const Options& options, const Graph& graph, RunData data) {
  Progress progress;
  progress.phase("running");
  const CompileOptions compile = compile_options(options);
  const Result<RunArgs> args = complete_args(options, graph, std::move(data));
  if (!args) return tl::unexpected(args.error());
  const Observer observer(graph, compile, *args);
  const Result<std::vector<Shown>> shown = observe(options, observer);
  if (!shown) return tl::unexpected(shown.error());
  const Result<std::optional<NonFinite>> found = debug::first_non_finite(observer);
  if (!found) return tl::unexpected(found.error());
  progress.stop();
  if (Status status = write_files(options, *shown); !status) return status;
  std::string text = table(*shown);
  if (!options.watch.empty()) text += print_values(options, *shown);
  return print(text + describe(*found));
}

/// What is wrong with the options together, or "".
std::string check_usage(const Options& options) {
  if (!options.files.weights.tensors.empty() && options.seed) {
    return "--weights and --seed exclude each other";
  }
  if (!options.files.weights.map.empty() && options.files.weights.tensors.empty()) {
    return "--weight-map is for --weights, which is not given";
  }
  const std::string problem = check_tf32(options.tf32, options.dtype, options.device);
  return problem.empty() ? check_f32_params(options.f32_params, options.dtype) : problem;
}

int run_debug(const CLI::App& command, Options& options) {
  options.files.source = options.source.file;
  if (const std::string problem = check_usage(options); !problem.empty()) {
    return report_usage(command, problem);
  }
  for (const std::string& file : {options.save, options.svg}) {
    if (Status status = check_output(file); !status) return report(status.error());
  }
  std::optional<Definition> definition = load_definition(options.source);
  if (!definition) return kError;
  Result<RunData> data =
      read_run_data(options.files, definition->unit.integer_inputs(definition->name));
  if (!data) return report(data.error());
  const std::optional<Graph> graph =
      load_run_graph(options.files, options.source.dims, *definition, *data);
  if (!graph) return kError;
  if (options.files.weights.tensors.empty() && !options.seed && !graph->params.empty()) {
    return report({fmt::format("{} has {} params: give --weights FILE, or --seed N for random ones",
                               quote(graph->name), graph->params.size())});
  }
  const Status status = debug_graph(options, *graph, *std::move(data));
  return status ? kOk : report(status.error());
}

void add_array_options(CLI::App& command, Options& options) {
  RunFiles& files = options.files;
  add_weight_files(command, files.weights);
  command.add_option("--seed", options.seed, "Random weights instead, those of `rnnc run --seed`")
      ->check(seed_value())
      ->type_name("NUMBER");
  add_named_files(command, "--input", files.inputs, "An input [T, B, ...]; may be repeated");
  command.add_flag("--batch-first", files.batch_first,
                   "Inputs and --reset are [B, T, ...] in their files, not [T, B, ...]");
  add_named_files(command, "--init", files.initial_states,
                  "A state before the first step [B, ...]; may be repeated");
  command.add_option("--lengths", files.lengths, "Steps of each sequence [B], int32 or int64")
      ->type_name("FILE");
  command.add_option("--reset", files.reset, "Where sequences begin anew [T, B]")
      ->type_name("FILE");
}

void add_shown_options(CLI::App& command, Options& options) {
  command
      .add_option(
          "--watch", options.watch,
          "Values to print, as the text calls them, such as i,f; in a network LSTM.0.i, or i "
          "of each layer")
      ->delimiter(',')
      ->type_name("NAMES");
  command.add_option("--steps", options.steps, "Of them: a step, or FROM:TO without TO itself")
      ->type_name("RANGE")
      ->check(range_value())
      ->capture_default_str();
  command.add_option("--sequences", options.sequences, "Of the batch, likewise")
      ->type_name("RANGE")
      ->check(range_value())
      ->capture_default_str();
  command
      .add_option(
          "--save", options.save,
          "Write the values watched, or all that have names, at all steps to this .npz file")
      ->type_name("FILE");
  command.add_option("--svg", options.svg, "Draw how they are spread at each step, in this file")
      ->type_name("FILE");
}

}  // namespace

void add_debug(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "debug", "Show values inside a step, how they are spread, and the first NaN or infinity");
  add_source(*command, options->source);
  add_array_options(*command, *options);
  add_shown_options(*command, *options);
  add_dtype(*command, options->dtype, "Element type to run in; arrays are converted");
  add_f32_params(*command, options->f32_params);
  add_device(*command, options->device);
  add_tf32(*command, options->tf32);
  add_threads(*command, options->threads);
  add_passes(*command, options->passes);
  command->footer(
      "Values are those of `rnnc run` with these options, stored by the program that computes "
      "them,\n"
      "so that last bits may differ where it would not store them. Saturated is the share of a\n"
      "sigmoid below 0.05 or above 0.95, or of a tanh beyond 0.9 either way.\n\n"
      "Examples:\n"
      "  rnnc debug lstm.rnn --weights w.safetensors --input x=x.npy --watch i,f --steps 0:3\n"
      "  rnnc debug lstm.rnn --dim H=64 --seed 1 --input x=x.npy --svg gates.svg");
  command->callback([command, options, &exit_code] { exit_code = run_debug(*command, *options); });
}

}  // namespace rnnc::tools
