#include <map>

#include "ir/base/dtype.h"
#include "ir/graph/text.h"
#include "passes/build_plan.h"
#include "passes/gradient/differentiate.h"
#include "passes/graph/pipeline.h"
#include "runtime/explain/emit_code.h"
#include "tools/command.h"
#include "tools/pass_log.h"

namespace rnnc::tools {
namespace {

enum class Form : uint8_t { ast, graph, dot, plan, llvm, assembly, cuda, ptx, cubin };

const std::map<std::string, Form> kForms = {
    {"ast", Form::ast},   {"graph", Form::graph}, {"dot", Form::dot},
    {"plan", Form::plan}, {"llvm", Form::llvm},   {"asm", Form::assembly},
    {"cuda", Form::cuda}, {"ptx", Form::ptx},     {"cubin", Form::cubin},
};

struct Options {
  Source source;
  std::string form;
  std::string dtype = "f32";
  bool tf32 = false;
  std::string arch = "sm_90";
  int64_t batch = 1;
  int64_t steps = 100;
  std::string device = "cpu";
  std::string output;
  PassSet passes = PassSet::all();
  Strategy strategy = Strategy::Any;
  CpuTarget cpu;
  PassLog log;
  bool backward = false;
};

/// Forms from plan on, which run passes.
bool has_plan(Form form) {
  return form != Form::ast && form != Form::graph && form != Form::dot;
}

/// The form's own device, or for the plan the one that is asked for.
Machine::Kind device_of(const Options& options) {
  const Form form = kForms.at(options.form);
  const bool cuda = form == Form::cuda || form == Form::ptx || form == Form::cubin ||
                    (form == Form::plan && options.device == "cuda");
  return cuda ? Machine::Kind::Cuda : Machine::Kind::Cpu;
}

/// The half of the derivative that runs from the last step to the first: all gradients, with initial
/// states as declared.
Result<Graph> backward_half(Graph graph, const PassSet& passes) {
  const Status lowered = run_pipeline(graph, {.passes = passes, .training = true});
  if (!lowered) return tl::unexpected(lowered.error());
  const std::vector<bool> given(graph.states.size(), false);
  Derivative derivative = differentiate(graph, DifferentiateOptions::all(graph, given));
  const Status simple = run_simplifications(derivative.backward, {.passes = passes});
  if (!simple) return tl::unexpected(simple.error());
  return std::move(derivative.backward);
}

/// The forms that come after the syntax tree.
Result<std::string> emit_graph_form(Options& options, const Graph& graph) {
  const Form form = kForms.at(options.form);
  if (form == Form::graph || form == Form::dot) {
    Result<Graph> bound = options.backward ? bind_all(graph, options.source.dims)
                                           : bind_known(graph, options.source.dims);
    if (bound && options.backward) bound = backward_half(*std::move(bound), options.passes);
    if (!bound) return tl::unexpected(bound.error());
    return form == Form::graph ? to_string(*bound) : to_dot(*bound);
  }
  Result<Graph> bound = bind_all(graph, options.source.dims);
  if (bound && options.backward) bound = backward_half(*std::move(bound), options.passes);
  if (!bound) return tl::unexpected(bound.error());
  // A half has been through the passes over graphs.
  const auto make = options.backward ? plan_graph : build_plan;
  const Result<Plan> plan =
      make(*bound, {.dtype = dtype_of(options.dtype),
                    .batch = options.batch,
                    .max_steps = options.steps,
                    .slack = options.backward
                                 ? slack_in_training(ResidualChoice::Auto, dtype_of(options.dtype))
                                 : ChunkSlack(),
                    .tf32 = options.tf32,
                    .passes = options.passes,
                    .machine = choose_machine(device_of(options)),
                    .strategy = options.strategy,
                    .observer = options.log.observer()});
  if (!plan) return tl::unexpected(plan.error());
  if (Status status = options.log.finish(); !status) return tl::unexpected(status.error());
  if (form == Form::plan) return to_string(*plan);
  const bool cpu = device_of(options) == Machine::Kind::Cpu;
  const Status storage = check_storage(plan->dtype, cpu ? Device::Kind::cpu : Device::Kind::cuda);
  if (!storage) return tl::unexpected(storage.error());
  return explain::emit_code(*plan, options.form, {options.cpu, options.arch});
}

int run_emit(const CLI::App& command, Options& options) {
  const Form form = kForms.at(options.form);
  if (form == Form::cubin && options.output.empty()) {
    return report_usage(command, "--as cubin: its bytes are not text: give -o FILE");
  }
  const std::string device = device_of(options) == Machine::Kind::Cuda ? "cuda" : "cpu";
  std::string problem = check_tf32(options.tf32, options.dtype, device);
  if (problem.empty()) problem = check_strategy(options.strategy, device);
  if (problem.empty()) problem = check_cpu_target(options.cpu, device);
  if (options.backward && form == Form::ast) {
    problem = "--backward: a syntax tree has no derivative: --as graph has";
  }
  if (!problem.empty()) return report_usage(command, problem);
  if (options.log.is_wanted() && !has_plan(form)) {
    return report_usage(command, fmt::format("--as {} runs no passes", options.form));
  }
  if (Status status = check_output(options.output); !status) return report(status.error());
  std::optional<Definition> definition = load_definition(options.source);
  if (!definition) return kError;
  Result<std::string> text;
  if (form == Form::ast) {
    text = definition->unit.print_ast(definition->name);
  } else {
    const std::optional<Graph> graph = lower_definition(*definition, options.source.dims);
    if (!graph) return kError;
    text = emit_graph_form(options, *graph);
  }
  if (!text) return report(text.error());
  if (form != Form::cubin && !text->ends_with('\n')) *text += '\n';
  const Status status = write_output(options.output, *text);
  return status ? kOk : report(status.error());
}

}  // namespace

void add_emit(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("emit", "Print what the compiler makes of a cell, after any stage");
  add_source(*command, options->source);
  command->add_option("--as", options->form, "What to print")
      ->required()
      ->type_name("FORM")
      ->check(one_of({"ast", "graph", "dot", "plan", "llvm", "asm", "cuda", "ptx", "cubin"}));
  command->add_flag("--backward", options->backward,
                    "The half of the derivative that computes the gradients, in any form but ast");
  add_dtype(*command, options->dtype, "Element type of arrays");
  command->add_flag("--tf32", options->tf32, "Products of f32 on a GPU may round to TF32");
  command->add_option("--arch", options->arch, "GPU architecture, for ptx and cubin")
      ->type_name("ARCH")
      ->capture_default_str();
  add_size(*command, "--batch", options->batch, "Batch size, from plan on");
  add_size(*command, "--steps", options->steps, "Greatest number of steps, from plan on");
  command->add_option("--device", options->device, "Whose plan: cpu, or cuda for an H200's")
      ->type_name("DEVICE")
      ->check(one_of({"cpu", "cuda"}))
      ->capture_default_str();
  add_passes(*command, options->passes);
  add_strategy(*command, options->strategy);
  add_cpu_target(*command, options->cpu);
  options->log.add_options(*command);
  add_output(*command, options->output);
  command->footer(
      "No form needs a GPU. Forms from plan on need a value for every dim.\n\n"
      "Examples:\n"
      "  rnnc emit examples/cells/lstm.rnn --as graph\n"
      "  rnnc emit examples/cells/lstm.rnn --as graph --backward --dim I=80 --dim H=512\n"
      "  rnnc emit examples/cells/lstm.rnn --as ptx --dim I=80 --dim H=512 --arch sm_90 -o "
      "lstm.ptx");
  command->callback([command, options, &exit_code] { exit_code = run_emit(*command, *options); });
}

}  // namespace rnnc::tools
