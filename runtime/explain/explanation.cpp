// 1. Plan the graph, with every pass and with none, and keep the graph that the plan is made of.
// 2. Describe each launch of each stage and ask the cost model for its cost.
// 3. Run the stages on a clock of those costs, add them up, and map the memory.
#include "runtime/explain/explanation.h"

#include <algorithm>

#include "ir/base/arithmetic.h"
#include "ir/plan/waves.h"
#include "runtime/explain/describe_launch.h"
#include "runtime/explain/launch_lines.h"
#include "runtime/explain/launch_picture.h"

namespace rnnc::explain {
namespace {

/// How often launches of a stage run in a call.
int64_t runs_per_call(const Plan& plan, Domain domain, int64_t steps) {
  switch (domain) {
    case Domain::Once:
    case Domain::Last:
      return 1;
    case Domain::Sequence:
      return chunks_of(plan, steps);
    case Domain::Step:
      break;
  }
  return steps;
}

Bound bound_of(const Cost& cost) {
  if (cost.seconds > 2 * cost.floor_seconds) return Bound::Latency;
  return cost.arithmetic_seconds < cost.floor_seconds ? Bound::Memory : Bound::Arithmetic;
}

std::string reason_of(const Plan& plan, const Stage& stage) {
  if (!stage.reason.empty()) return stage.reason;
  switch (stage.domain) {
    case Domain::Once:
      return "depends on params and constants alone";
    case Domain::Last:
      return "made of totals: after all steps";
    case Domain::Sequence:
      return fmt::format("no recurrence passes through it: {} steps of a chunk at once",
                         plan.chunk);
    case Domain::Step:
      break;
  }
  return "no recurrence passes through it, but nothing is hoisted: step by step";
}

std::string title_of(const Stage& stage) {
  if (stage.recurrence != RecurrenceClass::None) return stage.name;
  switch (stage.domain) {
    case Domain::Once:
      return "once a call";
    case Domain::Last:
      return "after all steps";
    case Domain::Sequence:
      return "time-parallel";
    case Domain::Step:
      break;
  }
  return "time-parallel, step by step";
}

/// Whether both copy into the same array, with other weights.
bool is_stacked(const LaunchInfo& before, const LaunchInfo& launch) {
  return before.copies && launch.copies && before.writes == launch.writes;
}

/// Adds launch `number` of the stage to those before it.
void stack(LaunchInfo& sum, const LaunchInfo& launch, size_t number) {
  ++sum.count;
  sum.id = fmt::format("{}-{}", sum.id.substr(0, sum.id.find('-')), number);
  sum.weights.insert(sum.weights.end(), launch.weights.begin(), launch.weights.end());
  sum.reads.insert(sum.reads.end(), launch.reads.begin(), launch.reads.end());
  for (const std::string& line : launch.lines) {
    if (std::ranges::find(sum.lines, line) == sum.lines.end()) sum.lines.push_back(line);
  }
  sum.what = fmt::format("{} stacked", join_names(sum.weights));
  sum.strategy = sum.summary = fmt::format("{} copies", sum.count);
  sum.cost += launch.cost;
}

StageInfo describe_stage(const Plan& plan, const Stage& stage, const LaunchDescriber& describer,
                         const LaunchLines& lines, const CacheUse& cache,
                         const Explanation& explanation) {
  StageInfo info;
  info.id = std::to_string(explanation.stages.size() + 1);
  info.title = title_of(stage);
  info.domain = stage.domain;
  info.recurrence = stage.recurrence;
  info.reason = reason_of(plan, stage);
  info.phases = stage.phases;
  info.sweep = stage.sweep;
  info.lag = stage.lag;
  size_t number = 1;
  for (const Launch& launch : stage.launches) {
    LaunchInfo entry = describer.describe(stage, launch);
    entry.lines = lines.of(describer.touches_of_step(stage, launch), entry.weights);
    entry.runs = runs_per_call(plan, stage.domain, explanation.steps);
    entry.cost = cost_of(plan, cache, stage, launch, explanation.machine);
    info.cost += entry.cost;
    entry.bound = bound_of(entry.cost);
    entry.id = fmt::format("{}.{}", info.id, number);
    if (!info.launches.empty() && is_stacked(info.launches.back(), entry)) {
      stack(info.launches.back(), entry, number);
    } else {
      info.launches.push_back(std::move(entry));
    }
    ++number;
  }
  return info;
}

Totals totals_of(const Plan& plan, int64_t steps, const Machine& machine) {
  Totals totals;
  totals.cost = cost_of(plan, steps, machine);
  for (const Stage& stage : plan.stages) {
    if (stage.domain == Domain::Once) continue;
    totals.launches += static_cast<double>(stage.launches.size()) *
                       static_cast<double>(runs_per_call(plan, stage.domain, steps));
  }
  return totals;
}

void add_arrays(const Graph& graph, Explanation& explanation) {
  const auto add = [&](const char* kind, const std::string& name, const Shape& shape) {
    explanation.arrays.push_back({kind, name, shape});
  };
  for (const InputDecl& input : graph.inputs) add("input", input.name, input.type.shape);
  for (const ParamDecl& param : graph.params) {
    add("param", param.name, param.type.shape);
    int64_t elements = 1;
    for (const Dim& dim : param.type.shape) elements *= dim.constant().value_or(1);
    explanation.param_elements += elements;
  }
  for (const StateDecl& state : graph.states) add("state", state.name, state.type.shape);
  for (const OutputDecl& output : graph.outputs) {
    add("output", output.name, graph[output.value].type.shape);
  }
  for (const ResultDecl& result : graph.results) {
    add("result", result.name, graph[result.value].type.shape);
  }
}

/// All files but the prelude, which is the last.
void add_sources(const Graph& graph, Explanation& explanation) {
  if (graph.sources == nullptr) return;
  for (size_t i = 0; i + 1 < graph.sources->size(); ++i) {
    const SourceFile& file = (*graph.sources)[i];
    explanation.sources.push_back({file.name(), std::string(file.text())});
  }
}

/// `make` is build_plan, or plan_graph of a half.
template <typename Make>
Result<Plan> plan_and_observe(Make make, const Graph& graph, const PlanOptions& options,
                              Graph& last) {
  PlanOptions observed = options;
  observed.observer.after = [&](std::string_view name, double seconds, const Graph* current,
                                const Plan* plan) {
    if (current != nullptr) last = *current;
    if (options.observer.after) options.observer.after(name, seconds, current, plan);
  };
  return make(graph, observed);
}

}  // namespace

Result<Explanation> explain_plan(const Graph& graph, const PlanOptions& options, int64_t steps,
                                 const SavedNames* saved) {
  const auto make = saved != nullptr ? plan_graph : build_plan;
  Graph planned = graph;
  Result<Plan> plan = plan_and_observe(make, graph, options, planned);
  if (!plan) return tl::unexpected(plan.error());
  const LaunchLines lines(planned, *plan);
  const SavedNames names = saved != nullptr ? *saved : SavedNames();
  name_as_text(planned, names, *plan);

  Explanation explanation;
  explanation.name = graph.name;
  add_sources(graph, explanation);
  add_arrays(graph, explanation);
  explanation.dtype = options.dtype;
  explanation.tf32 = options.tf32;
  explanation.batch = options.batch;
  explanation.steps = steps;
  explanation.chunk = plan->chunk;
  explanation.passes = options.passes;
  explanation.machine = options.machine;
  explanation.product_rate = product_flops(options.machine, options.dtype, options.tf32);
  explanation.elementwise_rate = product_flops(options.machine, compute_type(options.dtype), false);
  explanation.before = picture_of(graph);
  explanation.simplified = picture_of(planned);
  name_as_text(names, explanation.before);
  name_as_text(names, explanation.simplified);

  const LaunchDescriber describer(*plan, options.machine.kind);
  explanation.after = picture_of(*plan, describer, lines);
  std::vector<Cost> costs;
  const CacheUse cache(*plan);
  for (const Stage& stage : plan->stages) {
    explanation.stages.push_back(
        describe_stage(*plan, stage, describer, lines, cache, explanation));
    costs.push_back(explanation.stages.back().cost);
    if (stage.domain == Domain::Once) explanation.once += costs.back();
  }
  explanation.totals = totals_of(*plan, steps, options.machine);
  explanation.waves = run_waves(*plan, costs, steps, options.machine);
  explanation.memory = map_memory(*plan, steps);
  if (options.passes == PassSet::none()) return explanation;

  PlanOptions untouched = options;
  untouched.passes = PassSet::none();
  untouched.strategy = Strategy::Any;
  untouched.observer = {};
  const Result<Plan> naive = make(graph, untouched);
  if (naive) explanation.naive = totals_of(*naive, steps, options.machine);
  return explanation;
}

std::string_view name_of(Bound bound) {
  switch (bound) {
    case Bound::Arithmetic:
      return "arithmetic";
    case Bound::Memory:
      return "memory";
    case Bound::Latency:
      break;
  }
  return "latency";
}

}  // namespace rnnc::explain
