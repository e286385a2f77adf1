// 1. Lower and simplify a copy of the Graph (passes/graph/pipeline.h); refuse what cannot be
//    planned yet.
// 2. Find the stages (passes/graph/dependence.h), order their work (passes/schedule/schedule.h),
//    again where stages make values anew (passes/schedule/rematerialize.h), and, for a GPU, find
//    which recurrences may be put on top of which (passes/schedule/stacks.h); give values buffers
//    (passes/lower/layout.h) and write the launches (passes/lower/launches.h).
//    For a GPU also with products apart from the work behind them, if steps of many rows are faster
//    so; and, where recurrences may be one launch whose products have launches of their own so far,
//    with these formed for it (passes/schedule/phases.h).
// 3. Go through the plan's passes in the order that `plan_graph` lists. Where a pass has several
//    ways, the fastest is taken (passes/candidates.h).
#include "passes/build_plan.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "ir/graph/sweeps.h"
#include "ir/plan/scan_exchange.h"
#include "passes/candidates.h"
#include "passes/graph/dependence.h"
#include "passes/graph/histories.h"
#include "passes/graph/pipeline.h"
#include "passes/lower/launches.h"
#include "passes/lower/layout.h"
#include "passes/memory/memory.h"
#include "passes/persistent/absorb_products.h"
#include "passes/persistent/carries.h"
#include "passes/persistent/resident.h"
#include "passes/persistent/round_states.h"
#include "passes/persistent/stack.h"
#include "passes/plan/direct_stores.h"
#include "passes/plan/earlier_reads.h"
#include "passes/plan/long_products.h"
#include "passes/plan/merge_totals.h"
#include "passes/plan/one_step.h"
#include "passes/plan/own_products.h"
#include "passes/plan/pad_totals.h"
#include "passes/plan/padding.h"
#include "passes/plan/scans.h"
#include "passes/plan/split_gemms.h"
#include "passes/plan/split_kernels.h"
#include "passes/plan/wavefront.h"
#include "passes/reroll/reroll.h"
#include "passes/schedule/epilogues.h"
#include "passes/schedule/rematerialize.h"
#include "passes/schedule/schedule.h"
#include "passes/schedule/stacks.h"

namespace rnnc {
namespace {

Status check_options(const PlanOptions& options) {
  if (options.batch < 1) return fail("batch must be at least 1, got {}", options.batch);
  if (options.max_steps < 1) return fail("steps must be at least 1, got {}", options.max_steps);
  if (options.chunk < 0) return fail("chunk must not be negative, got {}", options.chunk);
  const std::string_view strategy = to_string(options.strategy);
  if (options.strategy == Strategy::Any) return {};
  const bool loops = is_of_loops(options.strategy);
  if (options.machine.kind != Machine::Kind::Cuda && !loops) {
    return fail("strategy `{}` is for a GPU", strategy);
  }
  if (!options.passes.has(loops ? Pass::Loop : Pass::Resident)) {
    return fail("strategy `{}` needs the pass `{}`", strategy, loops ? "loop" : "resident");
  }
  if (options.strategy == Strategy::Stacked && !options.passes.has(Pass::Stack)) {
    return fail("strategy `{}` needs the pass `stack`", strategy);
  }
  return {};
}

/// Matrices that vary over time are rows of their elements: what looks at their axes is refused.
Status check_matrices(const Graph& graph, const Dependence& dependence) {
  const std::vector<After> after = find_after(graph);
  for (const Node& node : graph.nodes) {
    if (node.op != Op::MatMul && node.op != Op::Transpose && !is_reduction(node.op)) continue;
    for (NodeId operand : node.operands) {
      const Shape& shape = graph[operand].type.shape;
      const bool varies =
          dependence.variation[operand] != Variation::Invariant && after[operand] != After::Steps;
      if (shape.size() < 2 || !varies) continue;
      return fail(
          "'{}' of a value of shape {}: matrices that vary over time are only stored, "
          "indexed and changed element by element so far",
          info(node.op).name, to_string(shape));
    }
  }
  return {};
}

/// Products of a GPU's library round what they write.
bool writes_narrow(const PlanOptions& options) {
  return options.machine.kind == Machine::Kind::Cuda && options.passes.has(Pass::Epilogue) &&
         options.passes.has(Pass::Pad);
}

/// Whether calls have one step, of which a GPU then makes as few launches as can be.
bool is_one_step(const PlanOptions& options) {
  return options.max_steps == 1 && options.machine.kind == Machine::Kind::Cuda &&
         options.strategy == Strategy::Any;
}

bool may_stack(const PlanOptions& options) {
  return options.machine.kind == Machine::Kind::Cuda && options.passes.has(Pass::Resident) &&
         options.passes.has(Pass::Stack);
}

/// Whether recurrences may multiply what they read themselves, at their one step.
bool may_absorb(const PlanOptions& options) {
  return is_one_step(options) && options.passes.has(Pass::Epilogue);
}

/// Stages and launches, all of one lag, for a chunk of one step. Nothing in them but buffers' bytes
/// depends on the chunk. Recurrences `in_phases` are formed to be one launch, and no device can run
/// them as they are.
Result<Plan> make_plan(Graph graph, const PlanOptions& options, const PassSet& passes,
                       const std::set<std::string>& in_phases = {}) {
  const std::vector<StateSteps> state_steps = make_histories(graph);
  Dependence dependence = analyse_dependence(graph);
  if (Status status = check_matrices(graph, dependence); !status) {
    return tl::unexpected(status.error());
  }
  Plan plan;
  plan.name = graph.name;
  plan.dtype = options.dtype;
  plan.tf32 = options.tf32 && options.dtype == DType::f32;
  plan.descending = graph.descending;
  plan.batch = options.batch;
  plan.chunk = 1;
  ScheduleOptions how = {.passes = passes, .in_phases = in_phases};
  Schedule schedule = make_schedule(graph, dependence, plan, how);
  if (passes.has(Pass::Fuse)) {
    if (auto anew = rematerialize(graph, dependence, schedule, plan.dtype)) {
      graph = std::move(anew->graph);
      how.homes = std::move(anew->homes);
      how.numbers = std::move(anew->numbers);
      dependence = analyse_dependence(graph);
      schedule = make_schedule(graph, dependence, plan, how);
    }
  }
  if (may_stack(options)) find_stacks(graph, schedule);
  const Result<Layout> layout =
      make_layout(graph, dependence, schedule, state_steps,
                  {.param_dtype = options.param_dtype.value_or(plan.dtype),
                   .narrow_products = writes_narrow(options) && !is_one_step(options)},
                  plan);
  if (!layout) return tl::unexpected(layout.error());
  make_launches(graph, dependence, schedule, *layout, plan);
  if (!may_stack(options) && !may_absorb(options)) forget_others_work(plan);
  if (is_one_step(options)) run_initial_values(plan);
  choose_own_products(plan);
  return plan;
}

TileChoice tile_choice(const PlanOptions& options) {
  return {.rank = options.tile_rank,
          .spare_registers = options.spare_registers,
          .split = options.passes.has(Pass::Split),
          .one_step = is_one_step(options),
          .strategy = is_of_loops(options.strategy) ? Strategy::Any : options.strategy};
}

/// A CPU's own kernels for products with an epilogue are for few rows.
PassSet first_passes(const PlanOptions& options) {
  const bool few = options.batch <= kMostEpilogueRows;
  const bool apart = options.machine.kind == Machine::Kind::Cpu && !few;
  return apart ? options.passes.without(Pass::Epilogue) : options.passes;
}

tl::unexpected<Error> refuse(const PlanOptions& options, const Plan& plan, const Error& error) {
  return refuse_strategy(plan.name, options.batch, options.strategy, error.message);
}

bool has_fused_steps(const Plan& plan) {
  return std::ranges::any_of(plan.stages, [](const Stage& stage) {
    return stage.domain == Domain::Step && std::ranges::any_of(stage.launches, [](const Launch& l) {
             return std::holds_alternative<FusedLaunch>(l);
           });
  });
}

/// With the launches that a plan has in the end where its recurrences stay launches. A CPU's has
/// them already.
Plan as_launches(Plan plan, const PlanOptions& options) {
  if (options.machine.kind == Machine::Kind::Cpu || !options.passes.has(Pass::Merge)) return plan;
  run_merge_totals(plan, options.machine);
  run_long_products(plan, options.machine);
  return plan;
}

/// With several recurrences, each has the whole machine, or all of them share it and run side by
/// side, whichever is faster.
Status put_on_chip(Plan& plan, const PlanOptions& options, const StepSeconds& formed,
                   const StepSeconds& other_launches) {
  Plan shared = plan;
  ResidentChoice choice = {tile_choice(options), options.passes.has(Pass::Pad), formed,
                           other_launches, is_one_step(options)};
  const Result<bool> made = run_resident(plan, options.machine, choice);
  if (!made) return refuse(options, plan, made.error());
  const int64_t beside = most_resident(plan);
  if (beside < 2 || !options.passes.has(Pass::Wavefront)) return {};
  choice.tile.beside = beside;
  const bool all_fit =
      run_resident(shared, options.machine, choice).has_value() && most_resident(shared) == beside;
  if (all_fit) take_faster(plan, std::move(shared), options);
  return {};
}

/// Those recurrences of `to` that stay launches stay for the reasons that `from` has.
void copy_reasons(const Plan& from, Plan& to) {
  std::map<std::string_view, std::string_view> reasons;  // by the recurrence's name
  for (const Stage& stage : from.stages) reasons.emplace(stage.name, stage.reason);
  for (Stage& stage : to.stages) {
    const bool stays = !stage.name.empty() && !is_resident(stage);
    if (stays) stage.reason = reasons.at(stage.name);
  }
}

// ---- The steps of the way ----

/// What becomes of a graph. `apart`: of each recurrence what a step takes in another way, if that
/// is faster on a GPU: with products and the work behind them in launches of their own. A library's
/// product is for many rows, rnnc's own for few.
struct Planned {
  Plan plan;
  std::optional<StepSeconds> apart;
};

/// Whether it runs a kernel over all steps that a GPU's compiler takes long for, or any. Values of a
/// loop are in registers: so many would not be. Of 85 to 128 states as a loop an H200 took 0.7 to 4
/// times what launches of a step took, a CPU 0.4 to 0.8 times.
bool is_long_loop(const Plan& plan, const Launch& launch, Machine::Kind machine) {
  const auto* loop = std::get_if<LoopLaunch>(&launch);
  if (loop == nullptr) return false;
  const Kernel& kernel = plan.kernels[loop->kernel];
  return machine == Machine::Kind::Cuda ? is_too_long(kernel)
                                        : kernel.body.size() > kMostInstructions;
}

bool has_long_loops(const Plan& plan, Machine::Kind machine) {
  return std::ranges::any_of(plan.stages, [&](const Stage& stage) {
    return std::ranges::any_of(
        stage.launches, [&](const Launch& launch) { return is_long_loop(plan, launch, machine); });
  });
}

/// Whether it still has some when its kernels have the loops that they can have.
bool keeps_long_loops(Plan plan, const Machine& machine) {
  if (!has_long_loops(plan, machine.kind)) return false;
  run_reroll(plan, machine);
  return has_long_loops(plan, machine.kind);
}

void explain_steps(Plan& plan, Machine::Kind machine) {
  const std::string arrays =
      machine == Machine::Kind::Cuda ? fmt::format(" or {} arrays", kMostArguments) : "";
  for (Stage& stage : plan.stages) {
    const bool is_alone = stage.recurrence == RecurrenceClass::Linear ||
                          stage.recurrence == RecurrenceClass::Elementwise;
    if (!is_alone) continue;
    stage.reason += fmt::format(
        "; not a loop over all steps, as one of the plan's would be of more than {} "
        "instructions{}",
        kMostInstructions, arrays);
  }
}

/// Takes the pass `loop` out of the options where it would make loops that are too long.
Status schedule(const Graph& graph, PlanOptions& options, Planned& planned) {
  Result<Plan> fused = make_plan(graph, options, first_passes(options));
  if (!fused) return tl::unexpected(fused.error());
  if (options.strategy == Strategy::Any && keeps_long_loops(*fused, options.machine)) {
    options.passes = options.passes.without(Pass::Loop);
    fused = make_plan(graph, options, first_passes(options));
    if (!fused) return tl::unexpected(fused.error());
    explain_steps(*fused, options.machine.kind);
  }
  planned.plan = *std::move(fused);
  if (options.machine.kind != Machine::Kind::Cuda || !has_fused_steps(planned.plan)) return {};
  Result<Plan> apart = make_plan(graph, options, options.passes.without(Pass::Epilogue));
  if (!apart) return tl::unexpected(apart.error());
  const Plan faster = as_launches(*apart, options);
  if (!has_faster_steps(faster, as_launches(planned.plan, options), options.machine)) return {};
  if (options.passes.has(Pass::Resident)) {
    planned.apart = step_seconds(faster, options.machine);
  } else {
    planned.plan = *std::move(apart);
  }
  return {};
}

/// As it is before recurrences go on the chip, with some formed for that.
Result<Plan> make_formed(const Graph& graph, const PlanOptions& options, const PassSet& passes,
                         const std::set<std::string>& in_phases) {
  Result<Plan> plan = make_plan(graph, options, passes, in_phases);
  if (plan && passes.has(Pass::Merge)) run_merge_totals(*plan, options.machine);
  return plan;
}

/// What does not stay on the chip is launches as it was.
Status put_formed_on_chip(Plan& plan, const Graph& graph, const PlanOptions& options,
                          const StepSeconds& other_launches) {
  std::set<std::string> names = recurrences_to_form(plan);
  if (names.empty()) return put_on_chip(plan, options, {}, other_launches);
  const StepSeconds launches = step_seconds(as_launches(plan, options), options.machine);
  Result<Plan> formed = make_formed(graph, options, first_passes(options), names);
  if (!formed) return tl::unexpected(formed.error());
  Status status = put_on_chip(*formed, options, launches, other_launches);
  if (!status) return status;
  const std::set<std::string> resident = resident_recurrences(*formed);
  if (std::erase_if(names, [&](const auto& name) { return !resident.contains(name); }) == 0) {
    plan = *std::move(formed);
    return {};
  }
  Result<Plan> rest = make_formed(graph, options, first_passes(options), names);
  if (!rest) return tl::unexpected(rest.error());
  status = put_on_chip(*rest, options, launches, other_launches);
  copy_reasons(*formed, *rest);
  plan = *std::move(rest);
  return status;
}

/// Of what stays launches take the faster way.
Status make_resident(Planned& planned, const Graph& graph, const PlanOptions& options) {
  auto& [plan, apart_seconds] = planned;
  const StepSeconds launches = step_seconds(as_launches(plan, options), options.machine);
  const StepSeconds others = apart_seconds.value_or(StepSeconds());
  if (Status status = put_formed_on_chip(plan, graph, options, others); !status) return status;
  if (!apart_seconds || !has_fused_steps(plan)) return {};
  Result<Plan> apart = make_formed(graph, options, options.passes.without(Pass::Epilogue),
                                   resident_recurrences(plan));
  if (!apart) return tl::unexpected(apart.error());
  if (!put_on_chip(*apart, options, launches, others)) return {};
  copy_reasons(plan, *apart);
  take_faster(plan, *std::move(apart), options);
  return {};
}

/// A backward half's stack of layers that looks so many times as slow as layers apart is slower. The
/// model holds stacks for slower than they are, and layers side by side, which share the GPU with
/// weight gradients, for faster: on an H100 stacks of 2 to 4 layers of LSTM and GRU, 11 shapes from
/// 16x256 to 128x384, took 0.56 to 0.99 times as long as layers apart and looked up to 1.9 times as
/// slow.
constexpr double kSlowerBackward = 2;

Status make_stacks(Plan& plan, const PlanOptions& options) {
  const bool wanted = options.strategy == Strategy::Stacked;
  const bool free = options.strategy == Strategy::Any || is_of_loops(options.strategy);
  Plan stacked = plan;
  if (!may_absorb(options)) forget_others_work(plan);
  if (!wanted && !free) return {};
  const Result<bool> made = run_stack(stacked, options.machine, tile_choice(options));
  if (!made) return refuse(options, plan, made.error());
  if (!*made) return {};
  if (!may_absorb(options)) forget_others_work(stacked);
  if (wanted) {
    plan = std::move(stacked);
  } else {
    take_faster(plan, std::move(stacked), options, plan.descending ? kSlowerBackward : 1);
  }
  return {};
}

bool has_loops(const Plan& plan) {
  return std::ranges::any_of(plan.stages, [](const Stage& stage) {
    return stage.launches.size() == 1 && std::holds_alternative<LoopLaunch>(stage.launches[0]);
  });
}

Status absorb_products(Plan& plan, const PlanOptions& options) {
  Plan absorbed = plan;
  if (run_absorb_products(absorbed, options.machine, tile_choice(options))) {
    take_faster(plan, std::move(absorbed), options);
  }
  forget_others_work(plan);
  return {};
}

Status round_states(Plan& plan) {
  run_round_states(plan);
  return {};
}

Status make_long_products(Plan& plan, const PlanOptions& options) {
  run_long_products(plan, options.machine);
  return {};
}

Status make_scans(Plan& plan, const PlanOptions& options) {
  if (is_of_loops(options.strategy) && !has_loops(plan)) {
    return refuse(options, plan, Error{"it has no recurrence without products"});
  }
  if (options.strategy == Strategy::Loop) return {};
  Plan scanned = plan;
  const ScanChanges changes = run_scans(scanned, options.machine);
  if (options.strategy == Strategy::Scan) {
    if (!changes.refusal.empty()) return refuse(options, plan, Error{changes.refusal});
    plan = std::move(scanned);
  } else if (changes.made > 0) {
    take_faster(plan, std::move(scanned), options);
  }
  return {};
}

Status merge_totals(Planned& planned, const PlanOptions& options) {
  run_merge_totals(planned.plan, options.machine);
  return {};
}

Status merge_unaligned(Plan& plan, const PlanOptions& options) {
  run_merge_unaligned_totals(plan, options.machine);
  return {};
}

Status split_gemms(Plan& plan, const PlanOptions& options) {
  run_split_gemms(plan, options.machine, {.max_steps = options.max_steps});
  return {};
}

Status pad(Plan& plan, const PlanOptions& options) {
  run_padding(plan, options.machine, {.max_steps = options.max_steps});
  run_pad_totals(plan, options.machine, {.max_steps = options.max_steps});
  return {};
}

Status store_directly(Plan& plan, const PlanOptions& options) {
  run_direct_stores(plan, /*products=*/writes_narrow(options));
  return {};
}

Status read_earlier(Plan& plan, const PlanOptions& options) {
  run_earlier_reads(plan, options.machine);
  return {};
}

Status set_chunk(Plan& plan, const PlanOptions& options) {
  plan.chunk = chunk_of(plan, options);
  fit_scan_partials(plan);
  return {};
}

Status keep_carries(Plan& plan) {
  run_carries(plan);
  return {};
}

Status reroll(Plan& plan, const PlanOptions& options) {
  run_reroll(plan, options.machine);
  return {};
}

Status split_kernels(Plan& plan, const PlanOptions& options) {
  run_split_kernels(plan, options.machine);
  return {};
}

Status part_states(Plan& plan) {
  run_one_step(plan);
  return {};
}

Status add_lags(Plan& plan, const PlanOptions& options) {
  run_wavefront(plan, options.machine);
  return {};
}

}  // namespace

Result<Plan> plan_graph(const Graph& graph, const PlanOptions& asked) {
  if (Status status = check_options(asked); !status) return tl::unexpected(status.error());
  PlanOptions options = asked;
  const bool several = options.max_steps > 1;
  // One step has no other that recurrences could be beside.
  if (!several) options.passes = options.passes.without(Pass::Wavefront);
  const PassSet& passes = options.passes;
  const bool resident = passes.has(Pass::Resident);
  const bool reuse = passes.has(Pass::Reuse);
  Planned planned;
  Plan& plan = planned.plan;
  struct Step {
    std::string_view name;
    std::function<Status()> run;
    bool wanted = true;
  };
  const Step steps[] = {
      // Stages, launches and buffers; most of what can be wrong with a graph is found here.
      {"schedule", [&] { return schedule(graph, options, planned); }},
      // What recurrences write for totals lies side by side, and so they read it, too.
      {"totals", [&] { return merge_totals(planned, options); }, passes.has(Pass::Merge)},
      // Recurrences whose weights fit run on the chip…
      {"resident", [&] { return make_resident(planned, graph, options); }, resident},
      // …and those of several layers in one launch, with the products between them, which are then
      // not left for what follows.
      {"stack", [&] { return make_stacks(plan, options); }, resident && passes.has(Pass::Stack)},
      // Of what stays launches.
      {"long", [&] { return make_long_products(plan, options); }, passes.has(Pass::Merge)},
      // Linear recurrences without products go through time in tiles, where that is faster.
      {"scan", [&] { return make_scans(plan, options); }, passes.has(Pass::Loop)},
      // One step gains nothing from products over all steps at once.
      {"absorb", [&] { return absorb_products(plan, options); }, may_absorb(options)},
      {"round", [&] { return round_states(plan); }, is_one_step(options) && resident},
      {"unaligned", [&] { return merge_unaligned(plan, options); },
       passes.has(Pass::Merge) && passes.has(Pass::Pad)},
      // Before the pads: parts have rows that a GPU loads fast.
      {"split", [&] { return split_gemms(plan, options); }, passes.has(Pass::Split)},
      {"pad", [&] { return pad(plan, options); }, passes.has(Pass::Pad)},
      // Behind the pads, which are made for what products write as it is.
      {"direct", [&] { return store_directly(plan, options); }, passes.has(Pass::Epilogue)},
      // Of rows as they are: neither split nor padded. And of tiles as they are.
      {"earlier", [&] { return read_earlier(plan, options); },
       passes.has(Pass::Merge) && passes.has(Pass::Pad)},
      // Of all launches that there will be…
      {"chunk", [&] { return set_chunk(plan, options); }},
      // …and before the lags, which are counted in chunks and make histories as long.
      {"wavefront", [&] { return add_lags(plan, options); }, passes.has(Pass::Wavefront)},
      // What lags have not made others' values of earlier steps.
      {"carries", [&] { return keep_carries(plan); }, several && resident && reuse},
      // Where nothing is carried on, states need no copies.
      {"one-step", [&] { return part_states(plan); }, !several},
      // Behind all that looks at kernels, or takes them apart.
      {"reroll", [&] { return reroll(plan, options); }, passes.has(Pass::Reroll)},
      // What is still long is several launches.
      {"pieces", [&] { return split_kernels(plan, options); }, passes.has(Pass::Fuse)},
      // Last: all buffers have their sizes.
      {reuse ? "reuse" : "memory", [&] { return assign_memory(plan, reuse); }},
  };
  for (const Step& step : steps) {
    if (!step.wanted) continue;
    const Status done = observe(options.observer, step.name, nullptr, &plan, step.run);
    if (!done) return tl::unexpected(done.error());
  }
  if (Status status = verify(plan); !status) {
    return fail_as(ErrorKind::Internal, "this is a bug in rnnc: plan of {}: {}", plan.name,
                   status.error().message);
  }
  return plan;
}

Result<Plan> build_plan(const Graph& graph, const PlanOptions& options) {
  if (Status status = check_options(options); !status) return tl::unexpected(status.error());
  Graph lowered = graph;
  const Status done = run_pipeline(lowered, {.passes = options.passes,
                                             .lengths = options.lengths,
                                             .resets = options.resets,
                                             .observer = options.observer});
  if (!done) return tl::unexpected(done.error());
  return plan_graph(lowered, options);
}

}  // namespace rnnc
