// From each resident recurrence on, for as many of those behind it as may be on top, which the
// schedule has found (passes/schedule/stacks.h):
// 1. Of the work between two of them what the upper one waits for goes ahead, and what it does not
//    need goes behind both. The rest are its own products: they become products of the phases that
//    load their results (passes/persistent/phase_products.h). The phases are a side of the lower
//    ones' launch. A `Stack` says all that of one height, and the plan has what it uses.
// 2. Of these stacks the tallest that fits on the machine takes the place of its layers' stages.
//    Where one does not fit, its layers are shared out over several, as equally as can be.
#include "passes/persistent/stack.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "ir/base/arithmetic.h"
#include "ir/base/launch_limits.h"
#include "ir/plan/kernel_facts.h"
#include "ir/plan/plan_touches.h"
#include "ir/plan/plan_verify_parts.h"
#include "passes/lower/checkpoint.h"
#include "passes/lower/once_stages.h"
#include "passes/lower/unused_buffers.h"
#include "passes/persistent/merge_sums.h"
#include "passes/persistent/phase_products.h"
#include "passes/persistent/recurrence_buffers.h"
#include "passes/plan/weights_along_k.h"

namespace rnnc {
namespace {

RecurrenceLaunch& recurrence_of(Stage& stage) {
  return std::get<RecurrenceLaunch>(stage.launches[0]);
}

const RecurrenceLaunch& recurrence_of(const Stage& stage) {
  return std::get<RecurrenceLaunch>(stage.launches[0]);
}

/// What takes the place of some layers' stages, and of what is between them.
struct Stack {
  std::vector<Launch> once = {};    // fills weights of products that have become phases'
  std::vector<Launch> ahead = {};   // at the end of the time-parallel work before it
  Stage stage;                      // whose launch has no tile yet, but all sides
  std::vector<Launch> behind = {};  // at the beginning of the time-parallel work behind it
  size_t last = 0;                  // the plan's stage that is the topmost layer
  Checkpoint plan;                  // with what it uses
};

size_t height(const Stack& stack) {
  return recurrence_of(stack.stage).tile.sides.size();
}

// ---- One layer more ----

bool writes_one_of(const Plan& plan, const Launch& launch, const std::vector<BufferId>& buffers) {
  return std::ranges::any_of(touches(plan, launch), [&](const Touch& touch) {
    return touch.write && std::ranges::find(buffers, touch.access.buffer) != buffers.end();
  });
}

/// The time-parallel stage of the sweep at an index, if there is one.
bool has_parallel(const Plan& plan, size_t index, uint32_t sweep) {
  return index < plan.stages.size() && is_time_parallel(plan.stages[index]) &&
         plan.stages[index].sweep == sweep;
}

/// The recurrence behind a stack, if that may be below it and there is but a stage of time-parallel
/// work between.
std::optional<size_t> next_recurrence(const Plan& plan, const Stack& stack) {
  size_t next = stack.last + 1;
  if (has_parallel(plan, next, stack.stage.sweep)) ++next;
  const bool may_be_on_top =
      next < plan.stages.size() && plan.stages[next].sweep == stack.stage.sweep &&
      is_resident(plan.stages[next]) && plan.stages[next].stack.below >= height(stack);
  return may_be_on_top ? std::optional(next) : std::nullopt;
}

/// Puts the recurrence of a stage on top of a stack.
class Joint {
 public:
  Joint(Plan& plan, const Stack& lower, size_t upper)
      : plan_(plan), upper_(plan.stages[upper]), stack_(lower) {
    between_ = std::exchange(stack_.behind, {});
    for (size_t i = lower.last + 1; i < upper; ++i) {
      const std::vector<Launch>& launches = plan.stages[i].launches;
      between_.insert(between_.end(), launches.begin(), launches.end());
    }
    stack_.last = upper;
  }

  /// None if a phase cannot have a product; then the plan is as it was.
  std::optional<Stack> run() {
    const Checkpoint before(plan_);
    if (!sort_between()) return std::nullopt;
    const std::vector<Launch> once = products_.turn_weights(plan_);
    const std::optional<std::vector<FusedLaunch>> phases =
        products_.as_products_of(plan_, recurrence_of(upper_).phases);
    if (!phases) {
      before.restore(plan_);
      return std::nullopt;
    }
    stack_.once.insert(stack_.once.end(), once.begin(), once.end());
    add_side(*phases);
    stack_.plan = Checkpoint(plan_);
    return std::move(stack_);
  }

 private:
  bool sort_between() {
    for (const Launch& launch : between_) {
      if (writes_one_of(plan_, launch, upper_.stack.ahead)) {
        stack_.ahead.push_back(launch);
      } else if (writes_one_of(plan_, launch, upper_.products)) {
        const auto* gemm = std::get_if<GemmLaunch>(&launch);
        if (gemm == nullptr || !products_.add(*gemm)) return false;
      } else {
        stack_.behind.push_back(launch);
      }
    }
    return true;
  }

  void add_side(const std::vector<FusedLaunch>& phases) {
    RecurrenceLaunch& launch = recurrence_of(stack_.stage);
    launch.tile.sides.push_back(launch.phases.size());
    launch.phases.insert(launch.phases.end(), phases.begin(), phases.end());
    const std::vector<BufferId>& sums = recurrence_of(upper_).sums;
    launch.sums.insert(launch.sums.end(), sums.begin(), sums.end());
    Stage& stage = stack_.stage;
    stage.name += ", " + upper_.name;
    stage.recurrence = std::max(stage.recurrence, upper_.recurrence);
    stage.phases = std::max(stage.phases, upper_.phases);
    std::ranges::copy_if(upper_.products, std::back_inserter(stage.products), [&](BufferId id) {
      return !products_.make(id) && std::ranges::count(stage.products, id) == 0;
    });
  }

  Plan& plan_;
  const Stage& upper_;
  Stack stack_;
  std::vector<Launch> between_;
  PhaseProducts products_;
};

/// Of one more layer each, from a stage on that is a recurrence. The plan has what all of them use.
std::vector<Stack> stacks_from(Plan& plan, size_t stage) {
  std::vector<Stack> stacks = {
      {.stage = plan.stages[stage], .last = stage, .plan = Checkpoint(plan)}};
  while (true) {
    const std::optional<size_t> next = next_recurrence(plan, stacks.back());
    std::optional<Stack> taller = next ? Joint(plan, stacks.back(), *next).run() : std::nullopt;
    if (!taller) return stacks;
    stacks.push_back(*std::move(taller));
  }
}

// ---- A stack in its plan ----

/// Where it is too tall for a kernel, whatever the machine: why layers have several.
std::string limit_of(const Plan& plan, const Stack& stack) {
  const int64_t arrays = count_arrays(plan, recurrence_of(stack.stage).phases, height(stack));
  if (arrays <= kMostArrays) return "";
  return fmt::format(
      "`{}` at batch {} runs its {} layers in several launches: the kernel of one would take {} "
      "arrays, and may take {}",
      plan.name, plan.batch, height(stack), arrays, kMostArrays);
}

/// Puts it where its layers are, from the stage `first` on. The number of its stage.
size_t replace_layers(Plan& plan, size_t first, const Stack& stack) {
  const auto at = [&plan](size_t index) {
    return plan.stages.begin() + static_cast<std::ptrdiff_t>(index);
  };
  const uint32_t sweep = stack.stage.sweep;
  plan.stages[first] = stack.stage;
  plan.stages.erase(at(first + 1), at(stack.last + 1));
  if (!stack.behind.empty()) {
    if (!has_parallel(plan, first + 1, sweep)) {
      plan.stages.insert(at(first + 1), Stage{.sweep = sweep});
    }
    std::vector<Launch>& after = plan.stages[first + 1].launches;
    after.insert(after.begin(), stack.behind.begin(), stack.behind.end());
  }
  if (!stack.ahead.empty()) {
    if (first == 0 || !has_parallel(plan, first - 1, sweep)) {
      plan.stages.insert(at(first), Stage{.sweep = sweep});
      ++first;
    }
    std::vector<Launch>& before = plan.stages[first - 1].launches;
    before.insert(before.end(), stack.ahead.begin(), stack.ahead.end());
  }
  const size_t stages = plan.stages.size();
  append_once(plan, stack.once);
  return first + plan.stages.size() - stages;
}

/// Of the stack that a stage is now.
Status choose_tile(Plan& plan, size_t index, const Machine& machine, TileChoice choice) {
  RecurrenceLaunch& launch = recurrence_of(plan.stages[index]);
  const std::vector<Launch> once = merge_sums(plan, launch.phases);
  if (Status status = verify_arrays(plan, launch); !status) return status;
  choice.sides = launch.tile.sides;
  Result<RecurrenceTile> tile = choose_recurrence_tile(plan, launch.phases, machine, choice);
  if (!tile) return tl::unexpected(tile.error());
  launch.tile = *std::move(tile);
  add_exchange(plan, launch);
  launch.stream = kNoBuffer;  // all weights of a stack are on the chip
  plan.stages[index].reason +=
      "; stacked: each layer on its own share of the GPU, the ones below some steps "
      "ahead";
  if (Status status = verify_recurrence(plan, launch); !status) return status;
  append_once(plan, once);
  remove_unread_copies(plan);
  return {};
}

/// The number of its stage; if it does not fit on the machine, the plan's stages are as they were.
Result<size_t> put_in_place(Plan& plan, size_t first, const Stack& stack, const Machine& machine,
                            const TileChoice& choice) {
  stack.plan.restore(plan);
  std::vector<Stage> layers = plan.stages;
  const size_t index = replace_layers(plan, first, stack);
  const size_t stages = plan.stages.size();
  if (Status status = choose_tile(plan, index, machine, choice); !status) {
    plan.stages = std::move(layers);
    return tl::unexpected(status.error());
  }
  return index + plan.stages.size() - stages;
}

}  // namespace

Result<bool> run_stack(Plan& plan, const Machine& machine, const TileChoice& choice) {
  if (machine.kind != Machine::Kind::Cuda) return false;
  bool changed = false;
  std::string reason = "no recurrence of it reads another by products alone, at the same step";
  for (size_t i = 0; i < plan.stages.size(); ++i) {
    if (!is_resident(plan.stages[i])) continue;
    const std::vector<Stack> stacks = stacks_from(plan, i);
    const size_t layers = stacks.size();
    const std::string limit = limit_of(plan, stacks.back());
    size_t tried = 0;  // layers
    bool made = false;
    for (size_t parts = 1; parts < layers && !made; ++parts) {
      const Stack& stack = stacks[ceil_div(layers, parts) - 1];
      if (std::exchange(tried, height(stack)) == height(stack)) continue;
      const Result<size_t> stage = put_in_place(plan, i, stack, machine, choice);
      made = stage.has_value();
      if (made) {
        i = *stage;
      } else {
        reason = fmt::format("{}: {}", stack.stage.name, stage.error().message);
      }
    }
    if (!made) {
      stacks[0].plan.restore(plan);
      continue;
    }
    remove_unused_temporaries(plan);
    if (plan.note.empty()) plan.note = limit;
    changed = true;
  }
  if (!changed && choice.strategy == Strategy::Stacked) return fail("{}", reason);
  return changed;
}

void forget_others_work(Plan& plan) {
  for (Stage& stage : plan.stages) {
    stage.products.clear();
    stage.stack = {};
  }
}

}  // namespace rnnc
