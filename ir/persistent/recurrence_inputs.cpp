#include "ir/persistent/recurrence_inputs.h"

#include <algorithm>
#include <tuple>
#include <vector>

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
  if (argument.written || argument.product) return false;
  const Extent extent = plan.buffers[buffer].extent;
  if (extent != Extent::Chunk && extent != Extent::Steps) return false;
  return std::ranges::none_of(phases, [&](const FusedLaunch& phase) {
    return std::ranges::any_of(touches(plan, phase), [buffer](const Touch& touch) {
      return touch.write && touch.access.buffer == buffer;
    });
  });
}

/// What copies of an input are like: those that are alike can be made together.
auto kind_of(std::span<const FusedLaunch> phases, const Kernel& kernel,
             const RecurrenceInput& input) {
  const Kernel::Argument& argument = kernel.arguments[input.argument];
  return std::tuple(!argument.vector, argument.dtype,
                    phases[input.phase].accesses[input.argument].stride, input.granule,
                    input.is_checked, input.is_earlier);
}

/// Of a block's elements of a row, where they can be copied. Of aligned rows whose parts are not
/// what is copied begins and ends where it is aligned: fewer copies than of the parts alone.
bool set_row(const Plan& plan, const RecurrenceTile& tile, const Kernel& kernel,
             const Access& access, int64_t segments, RecurrenceInput& input) {
  const auto element = static_cast<int64_t>(size_of(kernel.arguments[input.argument].dtype));
  const auto granule_of = [element](int64_t elements) {
    return std::min(kBytesOfLoad, (elements & -elements) * element);
  };
  const int64_t rows = access.column | access.stride;
  // Where blocks' parts of a row begin and end, and their warps'.
  const int64_t parts =
      tile.units[input.phase] | kernel.length / segments | (tile.own_sums ? kUnitsOfWarp : 0);
  input.granule = granule_of(rows | parts);
  input.row_bytes = tile.units[input.phase] * element;
  input.is_checked = plan.buffers[access.buffer].placement == Placement::Caller;
  if (input.granule < kBytesOfLoad && granule_of(rows) == kBytesOfLoad && !tile.own_sums) {
    input.row_bytes = round_up(input.row_bytes + kBytesOfLoad - input.granule, kBytesOfLoad);
    input.granule = kBytesOfLoad;
    input.multiple = kBytesOfLoad / element;
  }
  return input.granule >= kLeastGranule;
}

/// One number for a whole row. Warps that keep their sums to themselves would each copy it.
bool set_number(const RecurrenceTile& tile, const Kernel& kernel, RecurrenceInput& input) {
  input.granule = static_cast<int64_t>(size_of(kernel.arguments[input.argument].dtype));
  input.row_bytes = input.granule;
  return input.granule >= kLeastGranule && !tile.own_sums;
}

/// Of a phase, those that are alike side by side; without offsets.
std::vector<RecurrenceInput> inputs_of_phase(const Plan& plan, std::span<const FusedLaunch> phases,
                                             const RecurrenceTile& tile, size_t p,
                                             int64_t segments) {
  const int64_t group_rows = ceil_div(plan.batch, tile.groups);
  const int64_t warps = tile.own_sums ? tile.warps : 1;  // that copy for themselves
  const Kernel& kernel = plan.kernels[phases[p].kernel];
  std::vector<RecurrenceInput> inputs;
  for (uint32_t i = 0; i < kernel.arguments.size(); ++i) {
    const Access& access = phases[p].accesses[i];
    if (!is_input(plan, phases, kernel.arguments[i], access.buffer)) continue;
    RecurrenceInput input = {.phase = p, .argument = i};
    input.is_earlier = std::ranges::count(phases[p].earlier, i) > 0;
    const bool is_row = kernel.arguments[i].vector;
    if (!(is_row ? set_row(plan, tile, kernel, access, segments, input)
                 : set_number(tile, kernel, input))) {
      continue;
    }
    input.granules = group_rows * (input.row_bytes / warps / input.granule);
    inputs.push_back(input);
  }
  std::ranges::stable_sort(
      inputs, {}, [&](const RecurrenceInput& input) { return kind_of(phases, kernel, input); });
  for (size_t i = 1; i < inputs.size(); ++i) {
    inputs[i].joins = kind_of(phases, kernel, inputs[i]) == kind_of(phases, kernel, inputs[i - 1]);
  }
  return inputs;
}

}  // namespace

bool copies_earlier(const RecurrenceLaunch& launch, const RecurrenceInputs& inputs) {
  int64_t wanted = 0;
  for (const FusedLaunch& phase : launch.phases) wanted += std::ssize(phase.earlier);
  return std::ranges::count(inputs.inputs, true, &RecurrenceInput::is_earlier) == wanted;
}

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
    for (RecurrenceInput& input : inputs_of_phase(plan, phases, tile, p, segments[p])) {
      input.offset = result.step_bytes;
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
