#include "passes/persistent/carries.h"

#include <algorithm>
#include <set>
#include <vector>

#include "ir/persistent/recurrence_sources.h"
#include "ir/plan/buffer_uses.h"
#include "ir/plan/plan_accesses.h"

namespace rnnc {
namespace {

class CarryFinder {
 public:
  CarryFinder(const Plan& plan, const RecurrenceLaunch& recurrence)
      : plan_(plan), recurrence_(recurrence) {}

  std::set<BufferId> run() {
    // Where weights are streamed, states are loaded at each step.
    if (recurrence_.tile.streamed_words > 0) return {};
    find_stored();
    leave_out_products();
    const std::vector<size_t>& sides = recurrence_.tile.sides;
    for (size_t side = 0; side < sides.size(); ++side) {
      leave_out_loaded(side_at(sides, side, recurrence_.phases.size()));
    }
    return std::move(carried_);
  }

 private:
  const Kernel& kernel_of(size_t phase) const {
    return plan_.kernels[recurrence_.phases[phase].kernel];
  }

  void find_stored() {
    for (size_t p = 0; p < recurrence_.phases.size(); ++p) {
      const std::vector<Kernel::Argument>& arguments = kernel_of(p).arguments;
      for (size_t i = 0; i < arguments.size(); ++i) {
        const Access& access = recurrence_.phases[p].accesses[i];
        if (!arguments[i].written) continue;
        const Buffer& buffer = plan_.buffers[access.buffer];
        if (buffer.extent != Extent::Chunk || buffer.history != 1) continue;
        if (buffer.placement != Placement::Caller) carried_.insert(access.buffer);
      }
    }
  }

  void leave_out_products() {
    for (const FusedLaunch& phase : recurrence_.phases) {
      for (const FusedLaunch::Product& product : phase.products) {
        carried_.erase(product.left.buffer);
      }
    }
  }

  /// Without its step, an earlier value must be loaded before the next one is stored.
  void leave_out_loaded(const RecurrenceSide& side) {
    const RecurrenceSources found = sources_of(plan_, recurrence_.phases, side);
    for (size_t p = side.begin; p < side.end; ++p) {
      const std::vector<Kernel::Argument>& arguments = kernel_of(p).arguments;
      for (size_t i = 0; i < arguments.size(); ++i) {
        if (arguments[i].written || arguments[i].product) continue;
        const BufferId buffer = recurrence_.phases[p].accesses[i].buffer;
        const bool is_last = found.sources[p - side.begin][i] == RecurrenceSource::Last;
        if (!is_last || is_stored_before_loaded(p, buffer)) carried_.erase(buffer);
      }
    }
  }

  /// By the body of one kernel.
  bool is_stored_before_loaded(size_t phase, BufferId buffer) const {
    bool stored = false;
    for (const Instruction& instruction : kernel_of(phase).body) {
      const bool stores = instruction.kind == Instruction::Kind::Store;
      if (!stores && instruction.kind != Instruction::Kind::Load) continue;
      if (recurrence_.phases[phase].accesses[instruction.argument].buffer != buffer) continue;
      if (stored && !stores) return true;
      stored = stored || stores;
    }
    return false;
  }

  const Plan& plan_;
  const RecurrenceLaunch& recurrence_;
  std::set<BufferId> carried_;
};

/// Whether no other launch uses it; states' own launches do not count.
bool is_only_of(const BufferUses& uses, BufferId buffer, LaunchPlace recurrence) {
  return std::ranges::all_of(
      uses.of(buffer), [&](const BufferUse& use) { return !use.place || use.place == recurrence; });
}

}  // namespace

void run_carries(Plan& plan) {
  const BufferUses uses(plan);
  std::set<BufferId> carried;
  for (size_t i = 0; i < plan.stages.size(); ++i) {
    if (!is_resident(plan.stages[i])) continue;
    const auto& recurrence = std::get<RecurrenceLaunch>(plan.stages[i].launches[0]);
    for (const BufferId id : CarryFinder(plan, recurrence).run()) {
      if (is_only_of(uses, id, {i, 0})) carried.insert(id);
    }
  }
  for (const BufferId id : carried) {
    Buffer& buffer = plan.buffers[id];
    buffer.extent = Extent::Batch;
    buffer.history = 0;
    buffer.sweep = buffer.lag = 0;
  }
  for_each_access(plan, [&](Access& access) {
    if (carried.contains(access.buffer)) access.delay = 0;
  });
}

}  // namespace rnnc
