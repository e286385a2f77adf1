#include <algorithm>

#include "passes/build_plan.h"
#include "runtime/backend/backend.h"
#include "runtime/base/files.h"
#include "runtime/explain/print.h"
#include "tools/command.h"
#include "tools/commands/measure.h"
#include "tools/pass_log.h"
#include "tools/standard_streams.h"

namespace rnnc::tools {
namespace {

using explain::Explanation;
using explain::Format;
using explain::HalfOptions;
using explain::TrainingExplanation;

struct Options {
  Source source;
  std::string dtype = "f32";
  std::string device = "cpu";
  BenchShape shape = {.batch = 1};
  int64_t chunk = 0;
  int threads = 0;
  bool tf32 = false;
  PassSet passes = PassSet::all();
  Strategy strategy = Strategy::Any;
  CpuTarget cpu;
  PassLog log;
  bool json = false;
  bool html = false;
  bool backward = false;
  std::string residuals = "auto";
  bool measure = false;
  std::string against;
  std::string output;
};

/// The largest explanation that is read; one of 10,000 operations has 8 MiB.
constexpr int64_t kLargestExplanation = int64_t{256} << 20;

/// What is wrong with the options together, or "".
std::string check_usage(const Options& options) {
  if (is_dash(options.source.file) && is_dash(options.against)) {
    return check_dashes({options.source.file, options.against}, {});
  }
  if (options.threads > 0 && options.device != "cpu") {
    return fmt::format("--threads is for the CPU, not for {}", options.device);
  }
  std::string problem = check_tf32(options.tf32, options.dtype, options.device);
  if (problem.empty()) problem = check_strategy(options.strategy, options.device);
  return problem.empty() ? check_cpu_target(options.cpu, options.device) : problem;
}

Device device_of(const Options& options) {
  return Device::parse(options.device).value();
}

/// Of the device, if there is one; else a model of one.
Machine machine_of(const Options& options) {
  CompileOptions compile;
  compile.device = device_of(options);
  compile.threads = options.threads;
  compile.cpu = options.cpu;
  KernelCache cache({});
  const auto backend = make_backend(compile, cache);
  if (backend) return (*backend)->machine();
  return choose_machine(options.device == "cpu" ? Machine::Kind::Cpu : Machine::Kind::Cuda);
}

CompileOptions compile_options(const Options& options) {
  return {.dtype = dtype_of(options.dtype),
          .device = device_of(options),
          .allow_tf32 = options.tf32,
          .threads = options.threads,
          .cache_directory = cache_directory(),
          .chunk = options.chunk,
          .passes = options.passes,
          .strategy = options.strategy};
}

/// Whether resident recurrences are for this machine's GPU, if there is one, shows when they are
/// compiled: the plan that a program runs there. Gives back what it says of itself.
std::vector<std::string> ask_gpu(const Options& options, const Graph& graph, PlanOptions& plan) {
  if (options.device != "cuda" || !options.passes.has(Pass::Resident)) return {};
  Result<Program> program = Program::compile(graph, compile_options(options));
  if (!program) return {};  // no GPU: a model of one
  const SequenceFeatures features{plan.lengths, plan.resets};
  if (Status status = program->prepare(plan.batch, plan.max_steps, features); !status) {
    return {status.error().message};
  }
  const PreparedPlan prepared =
      program->prepared(plan.batch, plan.max_steps, features).value_or(PreparedPlan{});
  plan.passes = prepared.passes;
  plan.tile_rank = prepared.tile_rank;
  plan.spare_registers = prepared.spare_registers;
  return program->notes();
}

PlanOptions plan_options(Options& options) {
  return {.dtype = dtype_of(options.dtype),
          .batch = options.shape.batch,
          .max_steps = options.shape.steps,
          .chunk = options.chunk,
          .lengths = options.shape.features.lengths,
          .resets = options.shape.features.resets,
          .tf32 = options.tf32,
          .passes = options.passes,
          .machine = machine_of(options),
          .strategy = options.strategy,
          .observer = options.log.observer()};
}

/// As `ask_gpu`, of both halves of a derivative.
std::vector<std::string> ask_gpu(const Options& options, const Graph& graph,
                                 const TrainingOptions& training, HalfOptions& halves) {
  if (options.device != "cuda" || !options.passes.has(Pass::Resident)) return {};
  Result<Program> program = Program::compile(graph, compile_options(options));
  if (!program) return {};  // no GPU: a model of one
  const auto& [batch, steps, features] = options.shape;
  const Status status = program->prepare_training(batch, steps, training, features);
  if (!status) return {status.error().message};
  const TrainingPlans plans =
      program->training_plans(batch, steps, features).value_or(TrainingPlans{});
  const auto take = [](const PreparedPlan& prepared, PlanOptions& half) {
    half.passes = prepared.passes;
    half.tile_rank = prepared.tile_rank;
    half.spare_registers = prepared.spare_registers;
  };
  take(plans.forward, halves.forward);
  take(plans.backward, halves.backward);
  return program->notes();
}

/// Of all gradients but those of initial states, which begin as declared.
Result<TrainingExplanation> explain_both_halves(const Options& options, const Graph& graph,
                                                PlanOptions plan) {
  const Result<Planner> planner = Planner::make(graph, compile_options(options));
  if (!planner) return tl::unexpected(planner.error());
  const Result<TrainingOptions> training = planner->complete(
      training_options(planner->signature(), parse_residual_choice(options.residuals).value()));
  if (!training) return tl::unexpected(training.error());
  const Result<TrainingGraphs> graphs = planner->differentiate(
      {plan.lengths, plan.resets}, *training, plan.machine, /*decisions=*/true);
  if (!graphs) return tl::unexpected(graphs.error());
  plan.slack = slack_in_training(training->residuals, plan.dtype);
  HalfOptions halves{plan, plan};
  const std::vector<std::string> of_gpu = ask_gpu(options, graph, *training, halves);
  Result<TrainingExplanation> explanation =
      explain::explain_training(*graphs, halves, *training, options.shape.steps);
  if (!explanation) return tl::unexpected(explanation.error());
  for (const std::string& note : of_gpu) {
    std::vector<std::string>& notes = explanation->notes;
    if (std::ranges::find(notes, note) == notes.end()) notes.push_back(note);
  }
  for (const std::string& note : explanation->notes) report_note(note);
  return explanation;
}

Result<Explanation> explain_inference(const Options& options, const Graph& graph,
                                      PlanOptions plan) {
  const std::vector<std::string> notes = ask_gpu(options, graph, plan);
  for (const std::string& note : notes) report_note(note);
  Result<Explanation> explanation = explain::explain_plan(graph, plan, options.shape.steps);
  if (explanation) explanation->notes = notes;
  return explanation;
}

/// Compares it with what `--against` names, and says it all.
template <typename Explained>
Result<std::string> printed(Options& options, Explained& explanation) {
  if (Status status = options.log.finish(); !status) return tl::unexpected(status.error());
  if (!options.against.empty()) {
    const auto read = [](const std::filesystem::path& file) {
      return read_file(file, kLargestExplanation);
    };
    const auto as_it_is = [](std::string bytes, std::string_view) -> Result<std::string> {
      return bytes;
    };
    const Result<std::string> other = read_input(options.against, read, as_it_is);
    if (!other) return tl::unexpected(other.error());
    const Status compared =
        explain::compare_with(explanation, name_of_input(options.against), *other);
    if (!compared) return tl::unexpected(compared.error());
  }
  return explain::print(explanation, options.html   ? Format::Page
                                     : options.json ? Format::Json
                                                    : Format::Text);
}

/// Of what a program runs, which it does.
Result<std::string> explain_measured(Options& options, const Graph& bound) {
  CompileOptions compile = compile_options(options);
  compile.cpu = options.cpu;
  Result<Program> program = Program::compile(bound, compile);
  if (!program) return tl::unexpected(program.error());
  const auto text = [&](auto measured) -> Result<std::string> {
    if (!measured) return tl::unexpected(measured.error());
    report_notes(*program);
    return printed(options, measured->explanation);
  };
  if (!options.backward) return text(measure_calls(*program, options.shape, {}));
  return text(measure_training_calls(*program, options.shape, {},
                                     parse_residual_choice(options.residuals).value()));
}

Result<std::string> explain_graph(Options& options, const Graph& graph) {
  if (Status status = check_storage(dtype_of(options.dtype), device_of(options).kind); !status) {
    return tl::unexpected(status.error());
  }
  const Result<Graph> bound = bind_all(graph, options.source.dims);
  if (!bound) return tl::unexpected(bound.error());
  if (options.measure) return explain_measured(options, *bound);
  const PlanOptions plan = plan_options(options);
  const auto text = [&](auto explanation) -> Result<std::string> {
    if (!explanation) return tl::unexpected(explanation.error());
    return printed(options, *explanation);
  };
  return options.backward ? text(explain_both_halves(options, *bound, plan))
                          : text(explain_inference(options, *bound, plan));
}

int run_explain(const CLI::App& command, Options& options) {
  if (const std::string problem = check_usage(options); !problem.empty()) {
    return report_usage(command, problem);
  }
  if (Status status = check_output(options.output); !status) return report(status.error());
  std::optional<Definition> definition = load_definition(options.source);
  if (!definition) return kError;
  const std::optional<Graph> graph = lower_definition(*definition, options.source.dims);
  if (!graph) return kError;
  const Result<std::string> text = explain_graph(options, *graph);
  if (!text) return report(text.error());
  const Status status = write_output(options.output, *text);
  return status ? kOk : report(status.error());
}

}  // namespace

void add_explain(CLI::App& app, int& exit_code,
                 std::function<Result<Unit>(const std::string& file)> read) {
  auto options = std::make_shared<Options>();
  options->source.read = std::move(read);
  CLI::App* command = app.add_subcommand(
      "explain", "Say how a cell will run: stages, launches, what each costs, memory");
  add_source(*command, options->source);
  add_bench_shape(*command, options->shape);
  command->add_option("--chunk", options->chunk, "Steps per chunk; chosen if not given")
      ->type_name("NUMBER")
      ->check(whole_number(1, int64_t{1} << 24));
  add_dtype(*command, options->dtype, "Element type of arrays");
  command->add_flag("--tf32", options->tf32, "Products of f32 on a GPU round to TF32");
  command
      ->add_option("--device", options->device,
                   "The CPU, or cuda: this machine's GPU, or where there is none an H200")
      ->type_name("DEVICE")
      ->check(one_of({"cpu", "cuda"}))
      ->capture_default_str();
  add_threads(*command, options->threads);
  add_sequence_features(*command, options->shape.features);
  add_passes(*command, options->passes);
  add_strategy(*command, options->strategy);
  add_cpu_target(*command, options->cpu);
  options->log.add_options(*command);
  CLI::Option* json =
      command->add_flag("--json", options->json, "For programs; docs/explain.md lists the keys");
  command->add_flag("--html", options->html, "A page with pictures, in one file")->excludes(json);
  CLI::Option* backward = command->add_flag(
      "--backward", options->backward,
      "Training: both halves of the derivative, and what is saved from one for the other and why");
  add_residuals(*command, options->residuals)->needs(backward);
  command->add_flag("--measure", options->measure,
                    "Run it, on random arrays, and show what it takes beside what is predicted");
  command
      ->add_option("--against", options->against,
                   "Say what differs from this file, which --json wrote")
      ->type_name("FILE");
  add_output(*command, options->output);
  command->footer(
      "Times are predictions of the cost model, floors what the machine's arithmetic and memory\n"
      "allow. Without --measure nothing is run, and no GPU is needed.\n\n"
      "Examples:\n"
      "  rnnc explain examples/cells/lstm.rnn --dim I=80 --dim H=512 --batch 16\n"
      "  rnnc explain examples/cells/lstm.rnn --dim I=80 --dim H=512 --batch 16 --backward\n"
      "  rnnc explain examples/cells/lstm.rnn --dim I=80 --dim H=512 --batch 16 --measure\n"
      "  rnnc explain examples/networks/stacked_lstm.rnn --dim F=512 --dim H=512 --dim L=4 \\\n"
      "       --batch 64 --device cuda --html -o stacked_lstm.html");
  command->callback(
      [command, options, &exit_code] { exit_code = run_explain(*command, *options); });
}

}  // namespace rnnc::tools
