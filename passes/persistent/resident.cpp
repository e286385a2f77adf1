// For each stage that runs a recurrence of class Block or Dense step by step:
// 1. Its launches become phases, each as it is: which products which kernel takes, the schedule has
//    said (passes/schedule/phases.h).
// 2. Values of one step that products read become chunks: no step's are stored where others are
//    read.
// 3. Choose a tile (passes/tile/recurrence_tiles.h), for recurrences that are alike once, and check
//    that what the phases hand to each other can go the ways that a RecurrenceLaunch has.
// 4. Products whose results are added up become one (passes/persistent/merge_sums.h), where that is
//    faster with the tile that they then have.
// 5. If anything of that fails, or steps would be much slower than as launches, the stage stays as
//    it was, and its reason says so; if a strategy was asked for, that is an error.
#include "passes/persistent/resident.h"

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "ir/plan/buffer_uses.h"
#include "ir/plan/plan_accesses.h"
#include "ir/plan/plan_verify_parts.h"
#include "ir/plan/recurrence_kernel.h"
#include "passes/cost/cost.h"
#include "passes/lower/checkpoint.h"
#include "passes/lower/once_stages.h"
#include "passes/lower/unused_buffers.h"
#include "passes/persistent/carried_totals.h"
#include "passes/persistent/merge_sums.h"
#include "passes/persistent/recurrence_buffers.h"
#include "passes/plan/weights_along_k.h"
#include "passes/tile/recurrence_tiles.h"
#include "passes/tile/recurrence_time.h"

namespace rnnc {
namespace {

/// A recurrence that looks so many times as slow as its launches would be is slower: on an H200
/// resident ones took 0.4 to 0.9 times what their model says, launches 0.7 to 1.6 times. (From 1.4
/// to 1.7 the choices of 100 LSTMs and GRUs of 128 to 512 rows come alike. But launches of products
/// whose rows are not aligned, and will not be, take up to 50 times as long.)
constexpr double kMuchSlower = 1.6;
/// Likewise of exact f32, whose products of few rows a library gives few and large tiles.
constexpr double kMuchSlowerExact = 2;
constexpr int64_t kAlignedBytes = 16;

/// Phases and what they use of their plan, numbered as it comes and without names: equal for equal
/// layers, of which each has buffers of its own.
struct Excerpt {
  Excerpt(const Plan& whole, const std::vector<FusedLaunch>& of) {
    plan.dtype = whole.dtype;
    plan.tf32 = whole.tf32;
    plan.batch = whole.batch;
    plan.chunk = whole.chunk;
    RecurrenceLaunch recurrence;
    recurrence.phases = of;
    std::map<uint32_t, uint32_t> kernels;  // of the plan → of the excerpt
    for (FusedLaunch& phase : recurrence.phases) {
      const auto next = static_cast<uint32_t>(plan.kernels.size());
      const auto [kernel, fresh] = kernels.try_emplace(phase.kernel, next);
      if (fresh) plan.kernels.emplace_back(whole.kernels[phase.kernel]).name.clear();
      phase.kernel = kernel->second;
    }
    std::map<BufferId, BufferId> buffers;  // likewise
    Launch launch = std::move(recurrence);
    for_each_access(launch, [&](Access& access) {
      const auto next = static_cast<BufferId>(plan.buffers.size());
      const auto [buffer, fresh] = buffers.try_emplace(access.buffer, next);
      if (fresh) add(whole.buffers[access.buffer]);
      access.buffer = buffer->second;
    });
    phases = std::move(std::get<RecurrenceLaunch>(launch).phases);
  }

  friend bool operator==(const Excerpt& a, const Excerpt& b) {
    return a.phases == b.phases && a.plan.kernels == b.plan.kernels &&
           a.plan.buffers == b.plan.buffers;
  }

  Plan plan;  // without stages
  std::vector<FusedLaunch> phases;

 private:
  void add(Buffer buffer) {
    buffer.name.clear();
    buffer.slot = 0;  // which of the caller's arrays it is
    plan.buffers.push_back(std::move(buffer));
  }
};

/// Chooses tiles of a plan's recurrences. They depend on nothing but the excerpt that they are
/// chosen from, so that those of equal ones are equal, too.
class Tiles {
 public:
  Tiles(const Machine& machine, const TileChoice& choice) : machine_(machine), choice_(choice) {}

  bool has_strategy() const { return choice_.strategy != Strategy::Any; }

  const Result<RecurrenceTile>& choose(const Plan& plan, const std::vector<FusedLaunch>& phases) {
    Excerpt excerpt(plan, phases);
    const auto known = std::ranges::find(known_, excerpt, &Known::excerpt);
    if (known != known_.end()) return known->tile;
    Result<RecurrenceTile> tile =
        choose_recurrence_tile(excerpt.plan, excerpt.phases, machine_, choice_);
    known_.push_back({std::move(excerpt), std::move(tile)});
    return known_.back().tile;
  }

 private:
  struct Known {
    Excerpt excerpt;
    Result<RecurrenceTile> tile;
  };

  const Machine& machine_;
  TileChoice choice_;
  std::deque<Known> known_;
};

Result<std::vector<FusedLaunch>> as_phases(const Stage& stage) {
  std::vector<FusedLaunch> phases;
  for (const Launch& launch : stage.launches) {
    if (const auto* fused = std::get_if<FusedLaunch>(&launch)) {
      phases.push_back(*fused);
    } else if (const auto* kernel = std::get_if<ElementwiseLaunch>(&launch)) {
      phases.push_back({.kernel = kernel->kernel, .accesses = kernel->accesses, .products = {}});
    } else {
      return fail("it has a launch that is no phase");
    }
  }
  return phases;
}

class Resident {
 public:
  Resident(Plan& plan, const Machine& machine, Tiles& tiles, const ResidentChoice& choice,
           size_t stage)
      : plan_(plan),
        machine_(machine),
        tiles_(tiles),
        choice_(choice),
        stage_(plan.stages[stage]) {}

  /// If it fails, the plan is as it was.
  Status run() {
    const Checkpoint before(plan_);
    Status status = put_on_chip();
    if (status) return status;
    for (auto& [id, buffer] : addressed_) plan_.buffers[id] = std::move(buffer);
    before.restore(plan_);
    return status;
  }

 private:
  /// If it fails, the stage and the plan's other stages are as they were.
  Status put_on_chip() {
    RecurrenceLaunch recurrence;
    const double launches = seconds_of_launches();
    Result<std::vector<FusedLaunch>> phases = as_phases(stage_);
    if (!phases) return tl::unexpected(phases.error());
    recurrence.phases = *std::move(phases);
    if (Status status = verify_arrays(plan_, recurrence); !status) return status;
    give_addresses(recurrence);
    const Result<RecurrenceTile>& tile = tiles_.choose(plan_, recurrence.phases);
    if (!tile) return tl::unexpected(tile.error());
    recurrence.tile = *tile;
    const std::vector<Launch> once = merge_sums_of(recurrence);
    const std::vector<LaunchPlace> totals = carry_totals_of(recurrence);
    add_exchange(plan_, recurrence);
    add_stream(recurrence);
    const double step = seconds_of_step(recurrence);
    const bool exact = plan_.dtype == DType::f32 && !plan_.tf32;
    const double much_slower = exact ? kMuchSlowerExact : kMuchSlower;
    if (step > much_slower * launches && has_aligned_products(recurrence) &&
        !tiles_.has_strategy()) {
      return fail("a step would take {:.1f} us on the chip, and takes {:.1f} us as launches",
                  step * 1e6, launches * 1e6);
    }
    const std::vector<BufferId> sums = recurrence.sums;
    std::vector<Launch> before =
        std::exchange(stage_.launches, std::vector<Launch>{std::move(recurrence)});
    Status status = verify_recurrence(plan_, std::get<RecurrenceLaunch>(stage_.launches[0]));
    if (!status) {
      stage_.launches = std::move(before);
      return status;
    }
    stage_.domain = Domain::Sequence;
    move_carried_totals(plan_, totals, sums);  // stages come and go
    append_once(plan_, once);                  // likewise
    return status;
  }

  /// Of a step.
  double seconds_of_launches() const {
    const auto formed = choice_.formed.find(stage_.name);
    const double seconds =
        formed == choice_.formed.end() ? cost_of(plan_, stage_, machine_).seconds : formed->second;
    const auto others = choice_.other_launches.find(stage_.name);
    return others == choice_.other_launches.end() ? seconds : std::min(seconds, others->second);
  }

  double seconds_of_step(const RecurrenceLaunch& recurrence) const {
    const RecurrenceTime time = predicted_time(plan_, recurrence, machine_);
    return choice_.one_step ? machine_.launch_seconds + time.start + time.step : time.step;
  }

  /// Where that is faster. What fills the weights.
  std::vector<Launch> merge_sums_of(RecurrenceLaunch& recurrence) {
    std::vector<FusedLaunch> phases = recurrence.phases;
    std::vector<Launch> once = merge_sums(plan_, phases);
    if (once.empty()) return {};
    const Result<RecurrenceTile>& tile = tiles_.choose(plan_, phases);
    if (!tile || are_faster_apart(*tile)) return {};
    recurrence.phases = std::move(phases);
    recurrence.tile = *tile;
    return once;
  }

  /// If that makes a step longer by less than it takes to read what is added up, where the model
  /// holds elementwise work of a step for about twice as long as it is. The totals that the phases
  /// add up then.
  std::vector<LaunchPlace> carry_totals_of(RecurrenceLaunch& recurrence) {
    std::vector<LaunchPlace> totals = totals_to_carry(plan_, recurrence.phases);
    if (totals.empty()) return {};
    const Checkpoint before(plan_);
    RecurrenceLaunch carrying = recurrence;
    carrying.sums = carry_totals(plan_, carrying.phases, totals);
    int64_t width = 0;
    for (const BufferId sum : carrying.sums) width += plan_.buffers[sum].width;
    const auto bytes =
        static_cast<double>(plan_.batch * width) * static_cast<double>(size_of(plan_.dtype));
    const Result<RecurrenceTile>& tile = tiles_.choose(plan_, carrying.phases);
    const double limit = recurrence.tile.step_seconds + 2 * bytes / machine_.memory_bandwidth;
    if (tile && tile->streamed_words == 0 && tile->step_seconds < limit &&
        verify_arrays(plan_, carrying)) {
      carrying.tile = *tile;
      recurrence = std::move(carrying);
      return totals;
    }
    before.restore(plan_);
    return {};
  }

  /// On tensor cores with one tile of rows (passes/persistent/merge_sums.h).
  bool are_faster_apart(const RecurrenceTile& tile) const {
    const bool is_exact = plan_.dtype == DType::f32 && !plan_.tf32 && !tile.split;
    return !is_exact && tile.rows <= kExchangeTileRows;
  }

  /// What products read of their own step alone has rows of one step so far.
  void give_addresses(const RecurrenceLaunch& recurrence) {
    TouchedBuffers touched;
    touched.add(plan_, recurrence);
    for (const FusedLaunch& phase : recurrence.phases) {
      for (const FusedLaunch::Product& product : phase.products) {
        Buffer& left = plan_.buffers[product.left.buffer];
        if (left.extent != Extent::Batch || !touched.written.contains(product.left.buffer))
          continue;
        addressed_.emplace_back(product.left.buffer, left);
        left.extent = Extent::Chunk;
        left.placement = Placement::Workspace;
      }
    }
  }

  bool has_aligned_products(const RecurrenceLaunch& recurrence) const {
    const auto size = static_cast<int64_t>(size_of(plan_.dtype));
    return std::ranges::all_of(recurrence.phases, [&](const FusedLaunch& phase) {
      return std::ranges::all_of(phase.products, [&](const FusedLaunch::Product& product) {
        return product.k * size % kAlignedBytes == 0 || (choice_.padded && product.blocks == 1);
      });
    });
  }

  void add_stream(RecurrenceLaunch& recurrence) {
    const int64_t width = stream_width(recurrence.tile);
    if (width == 0) return;
    recurrence.stream = static_cast<BufferId>(plan_.buffers.size());
    plan_.buffers.push_back(
        {.name = "stream", .dtype = DType::f32, .extent = Extent::Invariant, .width = width});
  }

  Plan& plan_;
  const Machine& machine_;
  Tiles& tiles_;
  const ResidentChoice& choice_;
  Stage& stage_;
  std::vector<std::pair<BufferId, Buffer>> addressed_;  // as they were
};

bool is_candidate(const Stage& stage) {
  return stage.domain == Domain::Step &&
         (stage.recurrence == RecurrenceClass::Block || stage.recurrence == RecurrenceClass::Dense);
}

}  // namespace

Result<bool> run_resident(Plan& plan, const Machine& machine, const ResidentChoice& choice) {
  if (machine.kind != Machine::Kind::Cuda) return false;
  Tiles tiles(machine, choice.tile);
  if (tiles.has_strategy() && std::ranges::none_of(plan.stages, is_candidate)) {
    return fail("no recurrence of it is of class block or dense");
  }
  bool changed = false;
  for (size_t i = 0; i < plan.stages.size(); ++i) {
    if (!is_candidate(plan.stages[i])) continue;
    if (Status status = Resident(plan, machine, tiles, choice, i).run(); !status) {
      if (tiles.has_strategy()) {
        return fail("recurrence {}: {}", plan.stages[i].name, status.error().message);
      }
      plan.stages[i].reason += "; not resident: " + status.error().message;
      continue;
    }
    changed = true;
  }
  if (changed) {
    remove_unread_copies(plan);
    remove_unused_temporaries(plan);
  }
  return changed;
}

std::set<std::string> recurrences_to_form(const Plan& plan) {
  std::set<std::string> names;
  for (const Stage& stage : plan.stages) {
    if (is_candidate(stage) && !as_phases(stage)) names.insert(stage.name);
  }
  return names;
}

std::set<std::string> resident_recurrences(const Plan& plan) {
  std::set<std::string> names;
  for (const Stage& stage : plan.stages) {
    if (is_resident(stage)) names.insert(stage.name);
  }
  return names;
}

int64_t most_resident(const Plan& plan) {
  std::vector<int64_t> counts(plan.sweeps);
  for (const Stage& stage : plan.stages) {
    if (is_resident(stage)) ++counts[stage.sweep];
  }
  return std::ranges::max(counts);
}

}  // namespace rnnc
