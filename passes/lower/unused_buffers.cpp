#include "passes/lower/unused_buffers.h"

#include <algorithm>

#include <utility>
#include <vector>

#include "ir/plan/buffer_uses.h"
#include "ir/plan/plan_accesses.h"

namespace rnnc {

void remove_unused_temporaries(Plan& plan) {
  std::vector<bool> used(plan.buffers.size(), false);
  const auto for_all = [&plan](const auto& visit) {
    for_each_access(plan, [&visit](Access& access) { visit(access.buffer); });
    const auto visit_id = [&visit](BufferId& id) {
      if (id != kNoBuffer) visit(id);
    };
    const auto visit_own = [&visit_id](auto& launch) {
      if constexpr (requires { launch.exchange; }) visit_id(launch.exchange);
      if constexpr (requires { launch.stream; }) visit_id(launch.stream);
      if constexpr (requires { launch.partials; }) visit_id(launch.partials);
      if constexpr (requires { launch.sums; }) std::ranges::for_each(launch.sums, visit_id);
    };
    for (Stage& stage : plan.stages) {
      for (Launch& launch : stage.launches) std::visit(visit_own, launch);
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

void remove_unread_earlier_steps(Plan& plan) {
  const BufferUses uses(plan);
  const auto is_unread = [&](const Launch& launch) {
    const auto* const copy = std::get_if<EarlierLaunch>(&launch);
    return copy != nullptr && !uses.is_read(copy->target.buffer);
  };
  for (Stage& stage : plan.stages) std::erase_if(stage.launches, is_unread);
  std::erase_if(plan.stages, [](const Stage& stage) { return stage.launches.empty(); });
  remove_unused_temporaries(plan);
}

}  // namespace rnnc
