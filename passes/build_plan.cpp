// 1. Lower and simplify a copy of the Graph (passes/graph/pipeline.h); refuse what cannot be
//    planned yet.
// 2. Find the stages (passes/graph/dependence.h), order their work (passes/schedule/schedule.h),
//    give its values buffers (passes/lower/layout.h) and write the launches
//    (passes/lower/launches.h). For a GPU also with products apart from the work behind them, if
//    steps of many rows are faster so.
// 3. On a GPU, let recurrences whose weights fit run on the chip (passes/persistent/resident.h):
//    one after the other or, if that is faster, side by side, each on a share of it; or stacked in
//    one launch (passes/persistent/stack.h), if that is faster still. Of what stays launches take
//    the faster plan.
// 4. Let large f32 products that are left run in parts on tensor cores (passes/plan/split_gemms.h):
//    what a stack has taken in its launch multiplies.
// 5. Let rows of products' operands begin where a GPU loads them fast (passes/plan/padding.h);
//    those of parts do.
// 6. Choose the chunk by what the plan would cost.
// 7. Let recurrences run side by side (passes/plan/wavefront.h), place the buffers
//    (passes/memory/memory.h) and verify the plan.
#include "passes/build_plan.h"

#include <algorithm>
#include <optional>

#include "passes/cost/cost.h"
#include "passes/graph/dependence.h"
#include "passes/graph/pipeline.h"
#include "passes/lower/launches.h"
#include "passes/lower/layout.h"
#include "passes/memory/memory.h"
#include "passes/persistent/resident.h"
#include "passes/persistent/stack.h"
#include "passes/plan/padding.h"
#include "passes/plan/split_gemms.h"
#include "passes/plan/wavefront.h"
#include "passes/schedule/epilogues.h"
#include "passes/schedule/schedule.h"

namespace rnnc {
namespace {

Status check_options(const PlanOptions& options) {
  if (options.batch < 1) return fail("batch must be at least 1, got {}", options.batch);
  if (options.max_steps < 1) return fail("steps must be at least 1, got {}", options.max_steps);
  if (options.chunk < 0) return fail("chunk must not be negative, got {}", options.chunk);
  const std::string_view strategy = to_string(options.strategy);
  if (options.strategy == Strategy::Any) return {};
  if (options.machine.kind != Machine::Kind::Cuda) {
    return fail("strategy `{}` is for a GPU", strategy);
  }
  if (!options.passes.has(Pass::Resident)) {
    return fail("strategy `{}` needs the pass `resident`", strategy);
  }
  if (options.strategy == Strategy::Stacked && !options.passes.has(Pass::Stack)) {
    return fail("strategy `{}` needs the pass `stack`", strategy);
  }
  return {};
}

/// Matrices that vary over time are rows of their elements: what looks at their axes is refused.
Status check_matrices(const Graph& graph, const Dependence& dependence) {
  for (const Node& node : graph.nodes) {
    if (node.op != Op::MatMul && node.op != Op::Transpose && !is_reduction(node.op)) continue;
    for (NodeId operand : node.operands) {
      const Shape& shape = graph[operand].type.shape;
      if (shape.size() < 2 || dependence.variation[operand] == Variation::Invariant) continue;
      return fail(
          "'{}' of a value of shape {}: matrices that vary over time are only stored, "
          "indexed and changed element by element so far",
          info(node.op).name, to_string(shape));
    }
  }
  return {};
}

/// Stages and launches, all of one lag, for a chunk of one step. Nothing in them but buffers' bytes
/// depends on the chunk.
Result<Plan> make_plan(const Graph& graph, const PlanOptions& options, const PassSet& passes) {
  const Dependence dependence = analyse_dependence(graph);
  if (Status status = check_matrices(graph, dependence); !status) {
    return tl::unexpected(status.error());
  }
  Plan plan;
  plan.name = graph.name;
  plan.dtype = options.dtype;
  plan.tf32 = options.tf32 && options.dtype == DType::f32;
  plan.batch = options.batch;
  plan.chunk = 1;
  const Schedule schedule = make_schedule(graph, dependence, plan, passes);
  const Result<Layout> layout = make_layout(graph, dependence, schedule, plan);
  if (!layout) return tl::unexpected(layout.error());
  make_launches(graph, dependence, schedule, *layout, plan);
  return plan;
}

int64_t chunk_of(const Plan& plan, const PlanOptions& options) {
  if (options.chunk > 0) return std::min(options.chunk, options.max_steps);
  return choose_chunk(plan, options.max_steps, options.passes.has(Pass::Wavefront),
                      options.machine);
}

bool split_gemms(Plan& plan, const PlanOptions& options) {
  return run_split_gemms(plan, options.machine, {.max_steps = options.max_steps});
}

/// Of a call, as the cost model holds.
double seconds(Plan plan, const PlanOptions& options) {
  if (options.passes.has(Pass::Split)) split_gemms(plan, options);
  plan.chunk = chunk_of(plan, options);
  if (options.passes.has(Pass::Wavefront)) run_wavefront(plan, options.machine);
  return cost_of(plan, options.max_steps, options.machine).seconds;
}

TileChoice tile_choice(const PlanOptions& options) {
  return {.rank = options.tile_rank,
          .spare_registers = options.spare_registers,
          .split = options.passes.has(Pass::Split),
          .strategy = options.strategy};
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

/// With several recurrences, each has the whole machine, or all of them share it and run side by
/// side, whichever is faster.
Status make_resident(Plan& plan, const PlanOptions& options, const Plan* apart) {
  Plan shared = plan;
  ResidentChoice choice = {tile_choice(options), options.passes.has(Pass::Pad), apart};
  const Result<bool> made = run_resident(plan, options.machine, choice);
  if (!made) return refuse(options, plan, made.error());
  const int64_t beside = most_resident(plan);
  if (beside < 2 || !options.passes.has(Pass::Wavefront)) return {};
  choice.tile.beside = beside;
  const bool all_fit =
      run_resident(shared, options.machine, choice).has_value() && most_resident(shared) == beside;
  if (all_fit && seconds(shared, options) < seconds(plan, options)) plan = std::move(shared);
  return {};
}

/// `apart` has other launches of the same stages. Takes it where `plan` has left recurrences as
/// launches, with the reasons for that.
void take_if_faster(Plan& apart, Plan& plan, const PlanOptions& options) {
  if (!has_fused_steps(plan) || !make_resident(apart, options, nullptr)) return;
  if (seconds(apart, options) >= seconds(plan, options)) return;
  for (size_t i = 0; i < plan.stages.size(); ++i) {
    if (!is_resident(apart.stages[i])) apart.stages[i].reason = plan.stages[i].reason;
  }
  plan = std::move(apart);
}

Status make_stacks(Plan& plan, const PlanOptions& options) {
  const bool wanted = options.strategy == Strategy::Stacked;
  if (!wanted && options.strategy != Strategy::Any) return {};
  Plan stacked = plan;
  const Result<bool> made = run_stack(stacked, options.machine, tile_choice(options));
  if (!made) return refuse(options, plan, made.error());
  if (*made && (wanted || seconds(stacked, options) < seconds(plan, options))) {
    plan = std::move(stacked);
  }
  return {};
}

/// A step of each recurrence that runs step by step.
double step_seconds(const Plan& plan, const Machine& machine) {
  double seconds = 0;
  for (const Stage& stage : plan.stages) {
    if (stage.domain == Domain::Step) seconds += cost_of(plan, stage, machine).seconds;
  }
  return seconds;
}

/// `plan` with products and the work behind them in launches of their own, if that is faster on a
/// GPU: a library's product is for many rows, rnnc's own for few.
Result<std::optional<Plan>> make_apart(const Graph& graph, const Plan& plan,
                                       const PlanOptions& options) {
  if (options.machine.kind != Machine::Kind::Cuda || !has_fused_steps(plan)) return std::nullopt;
  Result<Plan> apart = make_plan(graph, options, options.passes.without(Pass::Epilogue));
  if (!apart) return tl::unexpected(apart.error());
  const bool faster = step_seconds(*apart, options.machine) < step_seconds(plan, options.machine);
  return faster ? std::optional(*std::move(apart)) : std::nullopt;
}

}  // namespace

Result<Plan> build_plan(const Graph& source, const PlanOptions& options) {
  if (Status status = check_options(options); !status) return tl::unexpected(status.error());
  Graph graph = source;
  const Status lowered = run_pipeline(graph, {.passes = options.passes,
                                              .lengths = options.lengths,
                                              .resets = options.resets,
                                              .observer = options.observer});
  if (!lowered) return tl::unexpected(lowered.error());

  Plan plan;
  std::optional<Plan> apart;
  const PassSet& passes = options.passes;
  const auto run = [&](std::string_view name, auto pass) {
    return observe(options.observer, name, nullptr, &plan, pass);
  };
  const Status made = run("schedule", [&]() -> Status {
    Result<Plan> launches = make_plan(graph, options, first_passes(options));
    if (!launches) return tl::unexpected(launches.error());
    plan = std::move(*launches);
    Result<std::optional<Plan>> others = make_apart(graph, plan, options);
    if (!others) return tl::unexpected(others.error());
    apart = std::move(*others);
    if (apart && !passes.has(Pass::Resident)) plan = *apart;
    return {};
  });
  if (!made) return tl::unexpected(made.error());
  if (passes.has(Pass::Resident)) {
    const Status resident = run("resident", [&]() -> Status {
      const Status status = make_resident(plan, options, apart ? &*apart : nullptr);
      if (status && apart) take_if_faster(*apart, plan, options);
      return status;
    });
    if (!resident) return tl::unexpected(resident.error());
  }
  if (passes.has(Pass::Resident) && passes.has(Pass::Stack)) {
    const Status stacked = run("stack", [&] { return make_stacks(plan, options); });
    if (!stacked) return tl::unexpected(stacked.error());
  }
  if (passes.has(Pass::Split)) {
    run("split", [&] { return split_gemms(plan, options); });
  }
  if (passes.has(Pass::Pad)) {
    run("pad",
        [&] { return run_padding(plan, options.machine, {.max_steps = options.max_steps}); });
  }
  run("chunk", [&] { return plan.chunk = chunk_of(plan, options); });
  if (passes.has(Pass::Wavefront)) {
    run("wavefront", [&] { return run_wavefront(plan, options.machine); });
  }
  const bool reuse = passes.has(Pass::Reuse);
  const Status placed = run(reuse ? "reuse" : "memory", [&] { return assign_memory(plan, reuse); });
  if (!placed) return tl::unexpected(placed.error());
  if (Status status = verify(plan); !status) {
    return fail("this is a bug in rnnc: plan of {}: {}", plan.name, status.error().message);
  }
  return plan;
}

}  // namespace rnnc
