// From each resident recurrence on, for as many of those behind it as may be on top, which the
// schedule has found (passes/schedule/stacks.h), on copies of the plan:
// 1. Of the work between two of them what the upper one waits for goes ahead, and what it does not
//    need goes behind both. The rest are its own products: they become products of the phases that
//    load their results (passes/persistent/phase_products.h). The phases are a side of the lower
//    ones' launch.
// 2. Of the stacks that come about the tallest is taken that fits on the machine. Where one does
//    not, its layers are shared out over several, as equally as can be.
#include "passes/persistent/stack.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "ir/base/arithmetic.h"
#include "ir/base/launch_limits.h"
#include "ir/plan/kernel_facts.h"
#include "ir/plan/plan_touches.h"
#include "ir/plan/plan_verify_parts.h"
#include "passes/lower/once_stages.h"
#include "passes/lower/unused_buffers.h"
#include "passes/persistent/merge_sums.h"
#include "passes/persistent/phase_products.h"
#include "passes/persistent/recurrence_buffers.h"

namespace rnnc {
namespace {

RecurrenceLaunch& recurrence_of(Stage& stage) {
  return std::get<RecurrenceLaunch>(stage.launches[0]);
}

// ---- Two recurrences ----

bool writes_one_of(const Plan& plan, const Launch& launch, const std::vector<BufferId>& buffers) {
  return std::ranges::any_of(touches(plan, launch), [&](const Touch& touch) {
    return touch.write && std::ranges::find(buffers, touch.access.buffer) != buffers.end();
  });
}

/// Puts a recurrence on top of another one, which may be a stack.
class Joint {
 public:
  /// Stages of the plan. Between them is at most one.
  Joint(Plan& plan, size_t lower, size_t upper) : plan_(plan), lower_(lower), upper_(upper) {}

  /// The number of the stage that both have become; none if a phase cannot have a product.
  std::optional<size_t> run() {
    if (!sort_between()) return std::nullopt;
    turn_weights();
    const std::optional<std::vector<FusedLaunch>> phases =
        products_.as_products_of(plan_, recurrence_of(plan_.stages[upper_]).phases);
    if (!phases) return std::nullopt;
    RecurrenceLaunch& stack = recurrence_of(plan_.stages[lower_]);
    stack.tile.sides.push_back(stack.phases.size());
    const std::vector<BufferId>& sums = recurrence_of(plan_.stages[upper_]).sums;
    stack.sums.insert(stack.sums.end(), sums.begin(), sums.end());
    stack.phases.insert(stack.phases.end(), phases->begin(), phases->end());
    join_stages();
    return lower_;
  }

 private:
  bool sort_between() {
    if (upper_ == lower_ + 1) return true;
    const StackPlace& place = plan_.stages[upper_].stack;
    const std::vector<Launch>& launches = plan_.stages[lower_ + 1].launches;
    for (size_t i = 0; i < launches.size(); ++i) {
      if (writes_one_of(plan_, launches[i], place.products)) {
        const auto* gemm = std::get_if<GemmLaunch>(&launches[i]);
        if (gemm == nullptr || !products_.add(*gemm, {lower_ + 1, i})) return false;
      } else {
        (writes_one_of(plan_, launches[i], place.ahead) ? ahead_ : behind_).push_back(launches[i]);
      }
    }
    return true;
  }

  void turn_weights() {
    const std::vector<Launch> once = products_.turn_weights(plan_);
    const size_t stages = plan_.stages.size();
    append_once(plan_, once);
    lower_ += plan_.stages.size() - stages;
    upper_ += plan_.stages.size() - stages;
  }

  void join_stages() {
    const auto at = [this](size_t index) {
      return plan_.stages.begin() + static_cast<std::ptrdiff_t>(index);
    };
    Stage& stage = plan_.stages[lower_];
    const Stage& upper = plan_.stages[upper_];
    stage.name += ", " + upper.name;
    stage.recurrence = std::max(stage.recurrence, upper.recurrence);
    stage.phases = std::max(stage.phases, upper.phases);
    plan_.stages.erase(at(lower_ + 1), at(upper_ + 1));
    const uint32_t sweep = stage.sweep;
    const auto has_parallel = [&](size_t index) {
      return index < plan_.stages.size() && is_time_parallel(plan_.stages[index]) &&
             plan_.stages[index].sweep == sweep;
    };
    if (!behind_.empty()) {
      if (!has_parallel(lower_ + 1)) plan_.stages.insert(at(lower_ + 1), Stage{.sweep = sweep});
      std::vector<Launch>& after = plan_.stages[lower_ + 1].launches;
      after.insert(after.begin(), behind_.begin(), behind_.end());
    }
    if (ahead_.empty()) return;
    if (lower_ == 0 || !has_parallel(lower_ - 1)) {
      plan_.stages.insert(at(lower_), Stage{.sweep = sweep});
      ++lower_;
    }
    std::vector<Launch>& before = plan_.stages[lower_ - 1].launches;
    before.insert(before.end(), ahead_.begin(), ahead_.end());
  }

  Plan& plan_;
  size_t lower_, upper_;
  // Of what is between them:
  std::vector<Launch> ahead_, behind_;
  PhaseProducts products_;
};

// ---- Stacks ----

/// The recurrence behind a stack, if that may be below it and there is but a stage of time-parallel
/// work between.
std::optional<size_t> next_recurrence(Plan& plan, size_t stage) {
  const auto is_at = [&](size_t i) {
    return i < plan.stages.size() && plan.stages[i].sweep == plan.stages[stage].sweep;
  };
  size_t next = stage + 1;
  if (is_at(next) && is_time_parallel(plan.stages[next])) ++next;
  const bool may_be_on_top =
      is_at(next) && is_resident(plan.stages[next]) &&
      plan.stages[next].stack.below >= recurrence_of(plan.stages[stage]).tile.sides.size();
  return may_be_on_top ? std::optional(next) : std::nullopt;
}

/// A plan in which a stage is a stack, that has no tile yet.
struct Stack {
  Plan plan;
  size_t stage = 0;
};

/// Of one more layer each, from a stage on that is a recurrence.
std::vector<Stack> stacks_from(const Plan& plan, size_t stage) {
  std::vector<Stack> stacks = {{plan, stage}};
  while (true) {
    Stack taller = stacks.back();
    const std::optional<size_t> next = next_recurrence(taller.plan, taller.stage);
    const std::optional<size_t> made =
        next ? Joint(taller.plan, taller.stage, *next).run() : std::nullopt;
    if (!made) return stacks;
    taller.stage = *made;
    stacks.push_back(std::move(taller));
  }
}

/// Where it is too tall for a kernel, whatever the machine: why layers have several.
std::string limit_of(const Stack& stack) {
  const auto& launch = std::get<RecurrenceLaunch>(stack.plan.stages[stack.stage].launches[0]);
  const size_t layers = launch.tile.sides.size();
  const int64_t arrays = count_arrays(stack.plan, launch.phases, layers);
  if (arrays <= kMostArrays) return "";
  return fmt::format(
      "`{}` at batch {} runs its {} layers in several launches: the kernel of one would take {} "
      "arrays, and may take {}",
      stack.plan.name, stack.plan.batch, layers, arrays, kMostArrays);
}

/// Chooses the tile.
Status finish(Stack& stack, const Machine& machine, TileChoice choice) {
  Stage& stage = stack.plan.stages[stack.stage];
  RecurrenceLaunch& launch = recurrence_of(stage);
  const std::vector<Launch> once = merge_sums(stack.plan, launch.phases);
  if (Status status = verify_arrays(stack.plan, launch); !status) return status;
  choice.sides = launch.tile.sides;
  Result<RecurrenceTile> tile = choose_recurrence_tile(stack.plan, launch.phases, machine, choice);
  if (!tile) return tl::unexpected(tile.error());
  launch.tile = *std::move(tile);
  add_exchange(stack.plan, launch);
  launch.stream = kNoBuffer;  // all weights of a stack are on the chip
  stage.reason +=
      "; stacked: each layer on its own share of the GPU, the ones below some steps "
      "ahead";
  const Status status = verify_recurrence(stack.plan, launch);
  const size_t stages = stack.plan.stages.size();
  append_once(stack.plan, once);
  stack.stage += stack.plan.stages.size() - stages;
  remove_unread_copies(stack.plan);
  return status;
}

}  // namespace

Result<bool> run_stack(Plan& plan, const Machine& machine, const TileChoice& choice) {
  if (machine.kind != Machine::Kind::Cuda) return false;
  bool changed = false;
  std::string reason = "no recurrence of it reads another by products alone, at the same step";
  for (size_t i = 0; i < plan.stages.size(); ++i) {
    if (!is_resident(plan.stages[i])) continue;
    std::vector<Stack> stacks = stacks_from(plan, i);
    const size_t layers = stacks.size();
    const std::string limit = limit_of(stacks.back());
    for (size_t parts = 1; parts < layers; ++parts) {
      Stack& stack = stacks[ceil_div(layers, parts) - 1];
      if (Status status = finish(stack, machine, choice); !status) {
        reason = fmt::format("{}: {}", stack.plan.stages[stack.stage].name, status.error().message);
        continue;
      }
      remove_unused_temporaries(stack.plan);
      if (stack.plan.note.empty()) stack.plan.note = limit;
      plan = std::move(stack.plan);
      i = stack.stage;
      changed = true;
      break;
    }
  }
  if (!changed && choice.strategy == Strategy::Stacked) return fail("{}", reason);
  return changed;
}

void forget_stack_places(Plan& plan) {
  for (Stage& stage : plan.stages) stage.stack = {};
}

}  // namespace rnnc
