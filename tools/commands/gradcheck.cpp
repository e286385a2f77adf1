#include <algorithm>
#include <cmath>
#include <limits>

#include "ir/graph/sweeps.h"
#include "passes/gradient/finite_differences.h"
#include "passes/graph/delays.h"
#include "passes/graph/pipeline.h"
#include "runtime/arrays/random_arrays.h"
#include "runtime/base/host_memory.h"
#include "runtime/program/run.h"
#include "tools/command.h"

namespace rnnc::tools {
namespace {

/// Kinks of an array that are listed one by one.
constexpr size_t kMostListed = 20;

/// Of the largest norm of a gradient, by what a device's error is divided at least: where terms
/// cancel, what a device rounds is left of them, and more than the sum.
constexpr double kLeastNorm = 0.1;

struct Options {
  Source source;
  int64_t batch = 3;
  int64_t steps = 7;
  int64_t elements = 100;
  int64_t most_kinks = static_cast<int64_t>(100 * kMostKinks);  // percent
  bool given = false;
  std::string residuals = "auto";
  uint64_t seed = 0;
  std::string device = "cpu";
  std::string dtype = "f64";
  bool tf32 = false;
};

/// An array's gradient by the interpreter, against differences and against the device's.
struct Check {
  DifferenceReport differences;
  std::vector<int64_t> shape;  // of the array
  double device_error = 0;     // the norm of the difference over that of the gradient
};

ArrayInfo info_of(const std::string& name, const Type& type, std::vector<int64_t> leading) {
  for (const Dim& dim : type.shape) leading.push_back(dim.constant().value());
  return {name, std::move(leading), DType::f64};
}

std::vector<double> random_values(const ArrayInfo& info, double bound, uint64_t seed) {
  return random_array(info, bound, seed).to_doubles();
}

/// Random arrays in the order of the graph's declarations; the gradients of outputs and final
/// states too, within 1.
GradientArgs random_arguments(const Graph& graph, const Options& options) {
  GradientArgs args;
  InterpreterArgs& forward = args.forward;
  forward.steps = options.steps;
  forward.batch = options.batch;
  const uint64_t seed = options.seed;
  for (uint32_t i = 0; i < graph.inputs.size(); ++i) {
    const InputDecl& input = graph.inputs[i];
    ArrayInfo info = info_of(input.name, input.type, {options.steps, options.batch});
    if (input.integer) info.dtype = DType::i32;
    for (const NodeId table : tables_of(graph, i)) {
      const int64_t rows = graph[table].type.shape[0].constant().value();
      if (info.table_rows == 0 || rows < info.table_rows) info.table_rows = rows;
    }
    forward.inputs.push_back(random_values(info, 1, seed));
  }
  for (const ParamDecl& param : graph.params) {
    const ArrayInfo info = info_of(param.name, param.type, {});
    forward.params.push_back(random_values(info, weight_bound(info), seed));
  }
  for (const StateDecl& state : graph.states) {
    const ArrayInfo info = info_of(state.name, state.type, {options.batch});
    forward.initial_states.push_back(options.given ? random_values(info, 1, seed)
                                                   : std::vector<double>());
    args.final_state_gradients.push_back(
        random_values(info_of("final." + state.name, state.type, {options.batch}), 1, seed));
  }
  for (const OutputDecl& output : graph.outputs) {
    const Type& type = graph[output.value].type;
    const ArrayInfo info = info_of("gradient." + output.name, type, {options.steps, options.batch});
    args.output_gradients.push_back(random_values(info, 1, seed));
  }
  return args;
}

/// What the interpreter holds, at most: every value of a step, and those of all steps of what varies
/// over them, which may be saved; about as much again of the backward half.
Status check_memory(const Graph& graph, const Options& options) {
  const double rows = static_cast<double>(options.steps) * static_cast<double>(options.batch);
  const std::vector<Direction> directions = find_directions(graph);
  double elements = 0;
  for (NodeId id = 0; id < graph.nodes.size(); ++id) {
    const auto width = static_cast<double>(element_count(graph[id].type.shape));
    elements += directions[id] == Direction::Invariant ? width : width * (rows + 1);
  }
  return check_host_memory("the interpreter's arrays take", 2 * elements * sizeof(double));
}

/// Of the norm of an array's gradient, that a device's may be off.
double most_device_error(const Options& options) {
  switch (dtype_of(options.dtype)) {
    case DType::f64:
      return 1e-9;
    case DType::f32:
      return options.tf32 ? 1e-2 : 1e-4;
    case DType::f16:
      return 1e-2;
    case DType::bf16:
    case DType::i32:
      break;
  }
  return 3e-2;
}

NamedArray named(const std::string& name, const Type& type, std::vector<int64_t> leading,
                 const std::vector<double>& values) {
  ArrayInfo info = info_of(name, type, std::move(leading));
  return {name, Array::from_doubles(values, std::move(info.shape), DType::f64)};
}

/// All gradients as the device computes them.
Result<RunGradients> run_on_device(const Graph& graph, const GradientArgs& args,
                                   const Options& options) {
  const int64_t steps = options.steps;
  const int64_t batch = options.batch;
  RunArgs run;
  LossGradients loss;
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    const InputDecl& input = graph.inputs[i];
    run.inputs.push_back(named(input.name, input.type, {steps, batch}, args.forward.inputs[i]));
  }
  for (size_t i = 0; i < graph.params.size(); ++i) {
    const ParamDecl& param = graph.params[i];
    run.params.push_back(named(param.name, param.type, {}, args.forward.params[i]));
  }
  for (size_t i = 0; i < graph.states.size(); ++i) {
    const StateDecl& state = graph.states[i];
    loss.final_states.push_back(
        named(state.name, state.type, {batch}, args.final_state_gradients[i]));
    const std::vector<double>& initial = args.forward.initial_states[i];
    if (initial.empty()) continue;
    run.initial_states.push_back(named(state.name, state.type, {batch}, initial));
  }
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    const OutputDecl& output = graph.outputs[i];
    loss.outputs.push_back(
        named(output.name, graph[output.value].type, {steps, batch}, args.output_gradients[i]));
  }
  Result<Program> program =
      Program::compile(graph, {.dtype = dtype_of(options.dtype),
                               .device = Device::parse(options.device).value(),
                               .allow_tf32 = options.tf32,
                               .cache_directory = cache_directory()});
  if (!program) return tl::unexpected(program.error());
  Runner runner(*program);
  Result<RunGradients> gradients =
      runner.gradients(run, loss, parse_residual_choice(options.residuals).value());
  report_notes(*program);
  return gradients;
}

/// The norm of the difference over that of `expected`, or over `least` where that is more; infinite
/// where just one is finite.
double relative_error(const std::vector<double>& actual, const std::vector<double>& expected,
                      double least) {
  double difference = 0;
  double norm = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const bool alike = std::isfinite(actual[i]) == std::isfinite(expected[i]);
    if (!alike) return std::numeric_limits<double>::infinity();
    if (!std::isfinite(expected[i])) continue;
    difference += (actual[i] - expected[i]) * (actual[i] - expected[i]);
    norm += expected[i] * expected[i];
  }
  return difference == 0 ? 0 : std::sqrt(difference) / std::max(std::sqrt(norm), least);
}

/// Of the arrays that are checked, a part of the largest norm.
double least_norm(const std::vector<Check>& checks) {
  double largest = 0;
  for (const Check& check : checks) {
    const double norm = check.differences.norm;
    if (std::isfinite(norm)) largest = std::max(largest, norm);
  }
  return kLeastNorm * largest;
}

/// Adds the device's errors, and shapes, to checks of arrays of one kind.
template <typename Decl>
void add_device_errors(std::string_view kind, const std::vector<Decl>& decls,
                       const std::vector<std::vector<double>>& expected,
                       const std::vector<NamedArray>& actual, std::vector<Check>& checks) {
  const double least = least_norm(checks);
  for (Check& check : checks) {
    const std::string& name = check.differences.name;
    if (check.differences.kind != kind) continue;
    const auto decl = std::ranges::find(decls, name, &Decl::name);
    const auto array = std::ranges::find(actual, name, &NamedArray::name);
    RNNC_CHECK(decl != decls.end() && array != actual.end());
    const auto index = static_cast<size_t>(decl - decls.begin());
    check.device_error = relative_error(array->array.to_doubles(), expected[index], least);
    check.shape = array->array.shape;
  }
}

Result<std::vector<Check>> compare(Graph graph, const Options& options) {
  run_delays(graph);
  Graph lowered = graph;
  if (Status status = run_pipeline(lowered, {.training = true}); !status) {
    return tl::unexpected(status.error());
  }
  if (Status fits = check_memory(lowered, options); !fits) return tl::unexpected(fits.error());
  DifferentiateOptions wanted =
      DifferentiateOptions::all(lowered, std::vector<bool>(lowered.states.size(), options.given));
  wanted.residuals = parse_residual_choice(options.residuals).value();
  const Derivative derivative = differentiate(lowered, wanted);
  GradientArgs args = random_arguments(graph, options);
  const Gradients gradients = interpret_gradients(lowered, derivative, args);
  const Result<RunGradients> device = run_on_device(graph, args, options);
  if (!device) return tl::unexpected(device.error());
  Graph stopped = graph;
  freeze_stops(stopped, args.forward);
  const auto run = [&](const InterpreterArgs& arrays) { return interpret(stopped, arrays); };
  std::vector<Check> checks;
  for (DifferenceReport& report : compare_with_differences(
           stopped, args, gradients, run,
           {.elements = static_cast<size_t>(options.elements), .seed = options.seed})) {
    checks.push_back({.differences = std::move(report), .shape = {}});
  }
  add_device_errors("input", graph.inputs, gradients.inputs, device->inputs, checks);
  add_device_errors("param", graph.params, gradients.params, device->params, checks);
  add_device_errors("state", graph.states, gradients.initial_states, device->initial_states,
                    checks);
  return checks;
}

bool has_many_kinks(const Check& check, const Options& options) {
  return 100 * check.differences.kink_share() > static_cast<double>(options.most_kinks);
}

bool is_good(const Check& check, const Options& options) {
  return check.differences.error <= kMostDifference && !has_many_kinks(check, options) &&
         check.device_error <= most_device_error(options);
}

/// "x[3, 0, 2]".
std::string name_element(const Check& check, size_t element) {
  std::vector<size_t> position(check.shape.size());
  for (size_t axis = position.size(); axis-- > 0;) {
    const auto size = static_cast<size_t>(check.shape[axis]);
    position[axis] = element % size;
    element /= size;
  }
  return fmt::format("{}[{}]", check.differences.name, fmt::join(position, ", "));
}

std::string list_kinks(const std::vector<Check>& checks) {
  std::string text;
  for (const Check& check : checks) {
    const std::vector<Kink>& kinks = check.differences.kinks;
    for (size_t i = 0; i < std::min(kinks.size(), kMostListed); ++i) {
      const Kink& kink = kinks[i];
      text += fmt::format("  {} {}: {:.6g}, by differences {:.6g} below and {:.6g} above\n",
                          check.differences.kind, name_element(check, kink.element),
                          kink.gradient + 0.0,  // not -0
                          kink.below, kink.above);
    }
    if (kinks.size() > kMostListed) {
      text += fmt::format("  {} {}: and {} more\n", check.differences.kind, check.differences.name,
                          kinks.size() - kMostListed);
    }
  }
  return text.empty() ? text : "kinks, where the function bends or jumps:\n" + text;
}

std::string table(const std::vector<Check>& checks, const Options& options) {
  std::string text =
      fmt::format("{:5} {:20} {:>9} {:>9} {:>6} {:>10} {:>8} {:>8}\n", "", "gradient of",
                  "elements", "compared", "kinks", "norm", "error", "device");
  for (const Check& check : checks) {
    const DifferenceReport& report = check.differences;
    text +=
        fmt::format("{:5} {:20} {:>9} {:>9} {:>6} {:>10.3g} {:>8.1e} {:>8.1e}{}\n", report.kind,
                    report.name, report.elements, report.compared, report.kinks.size(), report.norm,
                    report.error, check.device_error, is_good(check, options) ? "" : "  wrong");
  }
  return text + list_kinks(checks);
}

/// What is wrong with the first that is, or "".
std::string problem_of(const std::vector<Check>& checks, const Options& options) {
  const double most_device = most_device_error(options);
  for (const Check& check : checks) {
    const DifferenceReport& wrong = check.differences;
    if (wrong.error > kMostDifference) {
      return fmt::format("the gradient of {} `{}` is {:.9g} at element {}, by differences {:.9g}",
                         wrong.kind, wrong.name, wrong.gradient, wrong.worst, wrong.difference);
    }
    if (has_many_kinks(check, options)) {
      return fmt::format(
          "{} of {} elements of {} `{}` stand at kinks, more than {} %\n  hint: try another "
          "--seed, more --elements where not all are tried, or, if the cell is made of kinks, "
          "--most-kinks",
          wrong.kinks.size(), wrong.tried(), wrong.kind, wrong.name, options.most_kinks);
    }
    if (check.device_error > most_device) {
      return fmt::format(
          "the gradient of {} `{}` on {} in {} is off by {:.2g} of {}; at most {:.2g} is good",
          wrong.kind, wrong.name, options.device, options.dtype, check.device_error,
          wrong.norm < least_norm(checks) ? "a tenth of the largest norm" : "its norm",
          most_device);
    }
  }
  return "";
}

int run_gradcheck(const CLI::App& command, const Options& options) {
  if (const std::string problem = check_tf32(options.tf32, options.dtype, options.device);
      !problem.empty()) {
    return report_usage(command, problem);
  }
  std::optional<Graph> bound = load_bound(options.source);
  if (!bound) return kError;
  const Result<std::vector<Check>> checks = compare(*std::move(bound), options);
  if (!checks) return report(checks.error());
  if (Status status = print(table(*checks, options)); !status) {
    return report(status.error());
  }
  const std::string problem = problem_of(*checks, options);
  return problem.empty() ? kOk : report({problem});
}

}  // namespace

void add_gradcheck(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("gradcheck", "Compare gradients with finite differences and a device's");
  add_source(*command, options->source);
  add_size(*command, "--batch", options->batch, "Sequences of the batch");
  add_size(*command, "--steps", options->steps, "Steps of a sequence");
  add_size(*command, "--elements", options->elements, "Of each array, at random; 4 or 8 runs each");
  command
      ->add_option("--most-kinks", options->most_kinks,
                   "Of the elements tried of an array, in percent: with more at kinks it is wrong")
      ->type_name("PERCENT")
      ->check(whole_number(0, 100))
      ->capture_default_str();
  command->add_flag("--given-states", options->given,
                    "Give all initial states, and check their gradients too");
  add_residuals(*command, options->residuals);
  add_seed(*command, options->seed);
  add_device(*command, options->device);
  add_dtype(*command, options->dtype, "Element type on the device");
  add_tf32(*command, options->tf32);
  command->footer(
      "Example:\n"
      "  rnnc gradcheck examples/cells/lstm.rnn --dim I=5 --dim H=7\n"
      "\n"
      "On random arrays, of a random sum of outputs and final states: every input and param. The\n"
      "interpreter's gradients, in float64, against differences: an error is one over the norm of\n"
      "the array's gradient, and more than 1e-6 is wrong. Each element is moved by two widths: "
      "where\n"
      "these disagree, the function bends or jumps. Such kinks are listed; the gradient must lie\n"
      "between the differences to both sides there. The device's against the interpreter's: the "
      "norm\n"
      "of the difference over that of the gradient; good are 1e-9 in f64, 1e-4 in f32, 1e-2 in "
      "TF32\n"
      "and f16, 3e-2 in bf16.");
  command->callback(
      [command, options, &exit_code] { exit_code = run_gradcheck(*command, *options); });
}

}  // namespace rnnc::tools
