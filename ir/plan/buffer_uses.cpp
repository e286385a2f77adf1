#include "ir/plan/buffer_uses.h"

#include <algorithm>

#include "ir/plan/plan_touches.h"

namespace rnnc {

BufferUses::BufferUses(const Plan& plan) : uses_(plan.buffers.size()) {
  const auto add = [&](const auto& launch, std::optional<LaunchPlace> place) {
    for (const Touch& touch : touches(plan, launch)) {
      uses_[touch.access.buffer].push_back({place, touch.write});
    }
  };
  for (size_t i = 0; i < plan.stages.size(); ++i) {
    const std::vector<Launch>& launches = plan.stages[i].launches;
    for (size_t j = 0; j < launches.size(); ++j) add(launches[j], LaunchPlace{i, j});
  }
  for (const StatePlan& state : plan.states) {
    for (const auto launch : kStateLaunches) {
      add(state.*launch, std::nullopt);
    }
  }
}

std::span<const BufferUse> BufferUses::of(BufferId buffer) const {
  if (buffer >= uses_.size()) return {};
  return uses_[buffer];
}

bool BufferUses::is_read(BufferId buffer) const {
  return std::ranges::any_of(of(buffer), [](const BufferUse& use) { return !use.write; });
}

std::optional<LaunchPlace> BufferUses::only_writer(BufferId buffer) const {
  std::optional<LaunchPlace> writer;
  for (const BufferUse& use : of(buffer)) {
    if (!use.place) return std::nullopt;
    if (!use.write) continue;
    if (writer && writer != use.place) return std::nullopt;
    writer = use.place;
  }
  return writer;
}

bool BufferUses::are_of(BufferId buffer, std::span<const LaunchPlace> launches) const {
  return std::ranges::all_of(of(buffer), [&](const BufferUse& use) {
    return use.place && std::ranges::count(launches, *use.place) > 0;
  });
}

void TouchedBuffers::add(const Plan& plan, const Launch& launch) {
  for (const Touch& touch : touches(plan, launch)) {
    (touch.write ? written : read).insert(touch.access.buffer);
  }
}

bool are_independent(const TouchedBuffers& a, const TouchedBuffers& b) {
  return !intersect(a.written, b.written) && !intersect(a.written, b.read) &&
         !intersect(a.read, b.written);
}

}  // namespace rnnc
