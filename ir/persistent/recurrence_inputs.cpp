#include "ir/persistent/recurrence_inputs.h"

#include <algorithm>

#include "ir/base/arithmetic.h"
#include "ir/persistent/recurrence_exchange.h"
#include "ir/persistent/recurrence_footprint.h"
#include "ir/plan/plan_touches.h"
#include "ir/plan/recurrence_sides.h"

namespace rnnc {
namespace {

constexpr int64_t kLeastGranule = 4;  // that copies to shared memory can be of

bool is_input(const Plan& plan, std::span<const FusedLaunch> phases,
              const Kernel::Argument& argument, BufferId buffer) {
  if (argument.written || argument.product || !argument.vector) return false;
  const Extent extent = plan.buffers[buffer].extent;
  if (extent != Extent::Chunk && extent != Extent::Steps) return false;
  return std::ranges::none_of(phases, [&](const FusedLaunch& phase) {
    return std::ranges::any_of(touches(plan, phase), [buffer](const Touch& touch) {
      return touch.write && touch.access.buffer == buffer;
    });
  });
}

/// Of the same phase, with copies of the same kind.
bool is_alike(std::span<const FusedLaunch> phases, const Kernel& kernel, const RecurrenceInput& a,
              const RecurrenceInput& b) {
  if (a.phase != b.phase) return false;
  const std::vector<Access>& accesses = phases[a.phase].accesses;
  return kernel.arguments[a.argument].dtype == kernel.arguments[b.argument].dtype &&
         accesses[a.argument].stride == accesses[b.argument].stride && a.granule == b.granule &&
         a.is_checked == b.is_checked;
}

}  // namespace

RecurrenceInputs inputs_of(const Plan& plan, std::span<const FusedLaunch> phases,
                           const RecurrenceTile& tile, size_t side) {
  RecurrenceInputs result;
  result.sharers = kThreadsOfWarp * (tile.own_sums ? 1 : tile.warps);
  const int64_t group_rows = ceil_div(plan.batch, tile.groups);
  const std::vector<int64_t> segments = phase_segments(plan, phases);
  const RecurrenceSide own = side_at(tile.sides, side, phases.size());
  int64_t together = 0;  // granules
  const auto end_group = [&result, &together] {
    result.copies += ceil_div(together, result.sharers);
    together = 0;
  };
  for (size_t p = own.begin; p < own.end; ++p) {
    const Kernel& kernel = plan.kernels[phases[p].kernel];
    for (uint32_t i = 0; i < kernel.arguments.size(); ++i) {
      const Access& access = phases[p].accesses[i];
      if (!is_input(plan, phases, kernel.arguments[i], access.buffer)) continue;
      const auto element = static_cast<int64_t>(size_of(kernel.arguments[i].dtype));
      // Where blocks' parts of a row begin and end, and their warps'.
      const int64_t bits = tile.units[p] | kernel.length / segments[p] | access.column |
                           access.stride | (tile.own_sums ? kUnitsOfWarp : 0);
      const int64_t granule = std::min(kBytesOfLoad, (bits & -bits) * element);
      if (granule < kLeastGranule) continue;
      RecurrenceInput input = {.phase = p, .argument = i, .granule = granule};
      input.row_bytes = tile.units[p] * element;
      input.granules = group_rows * (input.row_bytes / (tile.own_sums ? tile.warps : 1) / granule);
      input.offset = result.step_bytes;
      input.is_checked = plan.buffers[access.buffer].placement == Placement::Caller;
      input.joins = !result.inputs.empty() && is_alike(phases, kernel, result.inputs.back(), input);
      if (!input.joins) end_group();
      together += input.granules;
      result.step_bytes += ceil_div(group_rows * input.row_bytes, kBytesOfLoad) * kBytesOfLoad;
      result.inputs.push_back(input);
    }
  }
  end_group();
  return result;
}

}  // namespace rnnc
