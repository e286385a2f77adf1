#include "passes/lower/unused_buffers.h"

#include <utility>
#include <vector>

#include "ir/plan/plan_accesses.h"

namespace rnnc {

void remove_unused_temporaries(Plan& plan) {
  std::vector<bool> used(plan.buffers.size(), false);
  const auto for_all = [&plan](const auto& visit) {
    for_each_access(plan, [&visit](Access& access) { visit(access.buffer); });
    for (Stage& stage : plan.stages) {
      for (Launch& launch : stage.launches) {
        auto* const scan = std::get_if<ScanLaunch>(&launch);
        if (scan != nullptr && scan->exchange != kNoBuffer) visit(scan->exchange);
        auto* const recurrence = std::get_if<RecurrenceLaunch>(&launch);
        if (recurrence == nullptr) continue;
        for (BufferId* id : {&recurrence->exchange, &recurrence->stream}) {
          if (*id != kNoBuffer) visit(*id);
        }
      }
    }
  };
  for_all([&used](BufferId id) { used[id] = true; });
  std::vector<BufferId> ids;  // old → new
  std::vector<Buffer> kept;
  for (BufferId id = 0; id < plan.buffers.size(); ++id) {
    ids.push_back(static_cast<BufferId>(kept.size()));
    if (used[id] || plan.buffers[id].role != Role::Temporary) kept.push_back(plan.buffers[id]);
  }
  plan.buffers = std::move(kept);
  for_all([&ids](BufferId& id) { id = ids[id]; });
}

}  // namespace rnnc
