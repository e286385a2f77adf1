#include "passes/persistent/recurrence_buffers.h"

#include <algorithm>
#include <utility>

#include "ir/persistent/recurrence_exchange.h"
#include "ir/plan/plan_accesses.h"

namespace rnnc {

void add_exchange(Plan& plan, RecurrenceLaunch& recurrence) {
  recurrence.exchange = kNoBuffer;
  const int64_t width = exchange_width(plan, recurrence);
  if (width == 0) return;
  recurrence.exchange = static_cast<BufferId>(plan.buffers.size());
  plan.buffers.push_back(
      {.name = "exchange", .dtype = DType::f32, .extent = Extent::Chunk, .width = width});
}

void remove_unused_temporaries(Plan& plan) {
  std::vector<bool> used(plan.buffers.size(), false);
  const auto for_all = [&plan](const auto& visit) {
    for_each_access(plan, [&visit](Access& access) { visit(access.buffer); });
    for (Stage& stage : plan.stages) {
      for (Launch& launch : stage.launches) {
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
