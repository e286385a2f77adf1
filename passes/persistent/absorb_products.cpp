// For each recurrence whose launches have products, on a copy of the plan:
// 1. Of the time-parallel stage before it take the products that may be its own, which the schedule
//    has found (passes/schedule/product_readers.h), one array of results after the other
//    (passes/persistent/phase_products.h). A loop that has products is a step.
// 2. Of a resident one choose the tile anew, with room for the weights of these.
#include "passes/persistent/absorb_products.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "ir/plan/plan_verify_parts.h"
#include "passes/lower/checkpoint.h"
#include "passes/lower/once_stages.h"
#include "passes/lower/unused_buffers.h"
#include "passes/persistent/phase_products.h"
#include "passes/persistent/recurrence_buffers.h"
#include "passes/plan/one_step.h"

namespace rnnc {
namespace {

const LoopLaunch* loop_of(const Stage& stage) {
  return stage.launches.size() == 1 ? std::get_if<LoopLaunch>(&stage.launches[0]) : nullptr;
}

/// Of a recurrence, if all its launches may have products.
std::optional<std::vector<FusedLaunch>> phases_of(const Stage& stage) {
  if (is_resident(stage)) return std::get<RecurrenceLaunch>(stage.launches[0]).phases;
  if (const LoopLaunch* loop = loop_of(stage)) {
    return {{{.kernel = loop->kernel, .accesses = loop->accesses, .products = {}}}};
  }
  if (stage.domain != Domain::Step || stage.recurrence == RecurrenceClass::None) return {};
  std::vector<FusedLaunch> phases;
  for (const Launch& launch : stage.launches) {
    const auto* fused = std::get_if<FusedLaunch>(&launch);
    if (fused == nullptr) return {};
    phases.push_back(*fused);
  }
  return phases;
}

/// Results of products that no other stage reads.
std::set<BufferId> own_products(const Plan& plan, size_t stage) {
  std::set<BufferId> own(plan.stages[stage].products.begin(), plan.stages[stage].products.end());
  for (size_t i = 0; i < plan.stages.size(); ++i) {
    if (i == stage) continue;
    for (const BufferId id : plan.stages[i].products) own.erase(id);
  }
  return own;
}

class Absorber {
 public:
  Absorber(Plan& plan, size_t stage, std::vector<FusedLaunch> phases)
      : plan_(plan), stage_(stage), phases_(std::move(phases)) {}

  /// Step 1. True if there are any.
  bool run() {
    for (const BufferId id : own_products(plan_, stage_)) take(id);
    if (absorbed_.empty()) return false;
    set_phases();
    remove_absorbed();
    const size_t stages = plan_.stages.size();
    append_once(plan_, once_);  // perhaps in a new stage
    stage_ += plan_.stages.size() - stages;
    return true;
  }

  /// Step 2, if it is resident.
  Status choose_tile(const Machine& machine, TileChoice choice) {
    if (!is_resident(plan_.stages[stage_])) return {};
    auto& launch = std::get<RecurrenceLaunch>(plan_.stages[stage_].launches[0]);
    if (Status status = verify_arrays(plan_, launch); !status) return status;
    choice.sides = launch.tile.sides;
    Result<RecurrenceTile> tile = choose_recurrence_tile(plan_, launch.phases, machine, choice);
    if (!tile) return tl::unexpected(tile.error());
    launch.tile = *std::move(tile);
    add_exchange(plan_, launch);
    return verify_recurrence(plan_, launch);
  }

 private:
  std::vector<Launch>& work_before() { return plan_.stages[stage_ - 1].launches; }

  /// Products that write the buffer.
  void take(BufferId id) {
    PhaseProducts products;
    for (const Launch& launch : work_before()) {
      const auto* gemm = std::get_if<GemmLaunch>(&launch);
      const bool is_part = gemm != nullptr && gemm->out.buffer == id;
      if (is_part && !products.add(*gemm)) return;
    }
    if (products.empty()) return;  // they are elsewhere
    const Checkpoint before(plan_);
    const std::vector<Launch> once = products.turn_weights(plan_);
    std::optional<std::vector<FusedLaunch>> phases = products.as_products_of(plan_, phases_);
    if (!phases) return before.restore(plan_);
    phases_ = *std::move(phases);
    once_.insert(once_.end(), once.begin(), once.end());
    absorbed_.insert(id);
    std::erase(plan_.stages[stage_].products, id);
  }

  void set_phases() {
    Stage& stage = plan_.stages[stage_];
    if (is_resident(stage)) {
      std::get<RecurrenceLaunch>(stage.launches[0]).phases = std::move(phases_);
    } else {
      stage.domain = Domain::Step;
      std::ranges::move(phases_, stage.launches.begin());
    }
  }

  void remove_absorbed() {
    std::erase_if(work_before(), [this](const Launch& launch) {
      const auto* gemm = std::get_if<GemmLaunch>(&launch);
      return gemm != nullptr && absorbed_.contains(gemm->out.buffer);
    });
    if (!work_before().empty()) return;
    --stage_;
    plan_.stages.erase(plan_.stages.begin() + static_cast<std::ptrdiff_t>(stage_));
  }

  Plan& plan_;
  size_t stage_;
  std::vector<FusedLaunch> phases_;
  std::set<BufferId> absorbed_;  // results
  std::vector<Launch> once_;
};

}  // namespace

bool run_absorb_products(Plan& plan, const Machine& machine, const TileChoice& choice) {
  if (machine.kind != Machine::Kind::Cuda) return false;
  run_one_step(plan);  // whose loops then load and store different places, as steps do
  bool changed = false;
  // From the last on: what comes and goes is before it.
  for (size_t i = plan.stages.size(); i-- > 1;) {
    const bool follows =
        is_time_parallel(plan.stages[i - 1]) && plan.stages[i - 1].sweep == plan.stages[i].sweep;
    std::optional<std::vector<FusedLaunch>> phases = phases_of(plan.stages[i]);
    if (!follows || !phases) continue;
    Plan trial = plan;
    Absorber absorber(trial, i, *std::move(phases));
    if (!absorber.run() || !absorber.choose_tile(machine, choice)) continue;
    remove_unused_temporaries(trial);
    plan = std::move(trial);
    changed = true;
  }
  return changed;
}

}  // namespace rnnc
