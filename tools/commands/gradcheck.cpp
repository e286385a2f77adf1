#include <algorithm>

#include "ir/graph/sweeps.h"
#include "passes/gradient/finite_differences.h"
#include "passes/graph/delays.h"
#include "passes/graph/pipeline.h"
#include "runtime/arrays/random_arrays.h"
#include "runtime/base/host_memory.h"
#include "tools/command.h"

namespace rnnc::tools {
namespace {

/// Of the norm of an array's gradient.
constexpr double kMostError = 1e-6;
/// Of the elements that were tried: with more kinks, differences prove too little.
constexpr double kMostKinks = 0.5;

struct Options {
  Source source;
  int64_t batch = 3;
  int64_t steps = 7;
  int64_t elements = 30;
  bool given = false;
  std::string residuals = "auto";
  uint64_t seed = 0;
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
  for (const InputDecl& input : graph.inputs) {
    const ArrayInfo info = info_of(input.name, input.type, {options.steps, options.batch});
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

Result<std::vector<DifferenceReport>> compare(Graph graph, const Options& options) {
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
  freeze_stops(graph, args.forward);
  const auto run = [&](const InterpreterArgs& arrays) { return interpret(graph, arrays); };
  return compare_with_differences(
      graph, args, gradients, run,
      {.elements = static_cast<size_t>(options.elements), .seed = options.seed});
}

bool is_good(const DifferenceReport& report) {
  const auto tried = static_cast<double>(report.compared + report.kinks);
  return report.error <= kMostError && static_cast<double>(report.kinks) <= kMostKinks * tried;
}

std::string table(const std::vector<DifferenceReport>& reports) {
  std::string text = fmt::format("{:5} {:20} {:>9} {:>9} {:>6} {:>10} {:>8}\n", "", "gradient of",
                                 "elements", "compared", "kinks", "norm", "error");
  for (const DifferenceReport& report : reports) {
    text += fmt::format("{:5} {:20} {:>9} {:>9} {:>6} {:>10.3g} {:>8.1e}{}\n", report.kind,
                        report.name, report.elements, report.compared, report.kinks, report.norm,
                        report.error, is_good(report) ? "" : "  wrong");
  }
  return text;
}

int run_gradcheck(const Options& options) {
  std::optional<Definition> definition = load_definition(options.source);
  if (!definition) return kError;
  const std::optional<Graph> graph = lower_definition(*definition, options.source.dims);
  if (!graph) return kError;
  Result<Graph> bound = bind_all(*graph, options.source.dims);
  if (!bound) return report(bound.error());
  const Result<std::vector<DifferenceReport>> reports = compare(*std::move(bound), options);
  if (!reports) return report(reports.error());
  if (Status status = print(table(*reports)); !status) return report(status.error());
  const auto wrong = std::ranges::find_if_not(*reports, is_good);
  if (wrong == reports->end()) return kOk;
  if (wrong->error <= kMostError) {
    return report(
        {fmt::format("{} of {} elements of {} `{}` stand at kinks: try another --seed",
                     wrong->kinks, wrong->kinks + wrong->compared, wrong->kind, wrong->name)});
  }
  return report(
      {fmt::format("the gradient of {} `{}` is {:.9g} at element {}, by differences {:.9g}",
                   wrong->kind, wrong->name, wrong->gradient, wrong->worst, wrong->difference)});
}

}  // namespace

void add_gradcheck(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("gradcheck", "Compare gradients with finite differences, in float64");
  add_source(*command, options->source);
  add_size(*command, "--batch", options->batch, "Sequences of the batch");
  add_size(*command, "--steps", options->steps, "Steps of a sequence");
  add_size(*command, "--elements", options->elements, "Of each array, at random; 4 runs each");
  command->add_flag("--given-states", options->given,
                    "Give all initial states, and check their gradients too");
  add_residuals(*command, options->residuals);
  add_seed(*command, options->seed);
  command->footer(
      "Example:\n"
      "  rnnc gradcheck examples/cells/lstm.rnn --dim I=5 --dim H=7\n"
      "\n"
      "On random arrays, of a random sum of outputs and final states: every input and param. An\n"
      "error is a difference over the norm of the array's gradient; more than 1e-6 is wrong.\n"
      "Kinks, where a function bends, are left out.");
  command->callback([options, &exit_code] { exit_code = run_gradcheck(*options); });
}

}  // namespace rnnc::tools
