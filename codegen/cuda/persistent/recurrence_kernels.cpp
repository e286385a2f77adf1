// Launches whose code is the same but for the name share a kernel.
#include "codegen/cuda/persistent/recurrence_kernels.h"

#include <algorithm>
#include <map>

#include "codegen/cuda/device/prelude.h"
#include "codegen/cuda/persistent/describe_recurrence.h"
#include "codegen/cuda/persistent/emit_recurrence.h"
#include "codegen/cuda/persistent/recurrence_names.h"
#include "ir/plan/recurrence_sides.h"

namespace rnnc {
namespace {

/// Whether steps take what others leave, within a block or from others: of one step alone they need
/// not.
bool hands_on(const RecurrenceLaunch& launch, const std::vector<RecurrenceLayout>& sides) {
  return launch.exchange != kNoBuffer || !sides[0].exchange().slices.empty();
}

/// Of the sides, one behind the other.
std::vector<Access> accesses_of(const std::vector<RecurrenceLayout>& sides) {
  std::vector<Access> accesses;
  for (const RecurrenceLayout& side : sides) {
    accesses.insert(accesses.end(), side.accesses().begin(), side.accesses().end());
  }
  return accesses;
}

CudaRecurrenceShape shape_of(const RecurrenceTile& tile, const std::vector<RecurrenceLayout>& sides,
                             size_t accesses, bool cooperates) {
  int64_t shared_bytes = 0;
  for (const RecurrenceLayout& side : sides) {
    shared_bytes = std::max(shared_bytes, side.shared_bytes());
  }
  return {.threads = static_cast<uint32_t>(32 * tile.warps),
          .shared_bytes = static_cast<uint32_t>(shared_bytes),
          .blocks = static_cast<uint32_t>(all_blocks(tile)),
          .cluster = static_cast<uint32_t>(tile.clusters ? tile.blocks : tile.k_blocks),
          .cooperative = !tile.clusters && cooperates,
          .step_seconds = tile.step_seconds,
          .bytes = static_cast<uint32_t>(sizeof(CudaRows) + 2 * sizeof(int32_t) +
                                         accesses * sizeof(CudaAccess))};
}

}  // namespace

void add_recurrence_kernels(const Plan& plan, CudaModule& module) {
  std::map<RecurrenceFunction, uint32_t> known;  // index in the module
  for_each_launch_of<RecurrenceLaunch>(plan, [&](LaunchId id, const RecurrenceLaunch& launch) {
    const RecurrenceTile& tile = launch.tile;
    std::vector<RecurrenceLayout> sides;
    for (size_t i = 0; i < tile.sides.size(); ++i) sides.emplace_back(plan, launch, i);
    std::vector<Access> accesses = accesses_of(sides);
    const auto [found, is_new] = known.try_emplace(emit_recurrence_function(plan, tile, sides));
    if (is_new) {
      const std::string name = fmt::format("r{}", known.size() - 1);
      if (known.size() == 1) {
        module.source += fmt::format("\nconstexpr unsigned long long kWatchdogSeconds = {};\n",
                                     RNNC_WATCHDOG_SECONDS);
        module.source += kCudaRecurrence;
        module.source += '\n';
        module.source += kRecurrenceNames;
      }
      module.source += '\n';
      module.source += describe_recurrence(plan, name, sides);
      module.source += found->first.text(name);
      found->second =
          module.add({name, shape_of(tile, sides, accesses.size(), hands_on(launch, sides))});
    }
    double& step = std::get<CudaRecurrenceShape>(module.kernels[found->second].shape).step_seconds;
    step = std::min(step, tile.step_seconds);
    module.of(id) = {found->second, std::move(accesses)};
  });
}

}  // namespace rnnc
