#include "passes/plan/wider_rows.h"

#include <algorithm>
#include <utility>

#include "ir/base/arithmetic.h"
#include "ir/plan/plan_accesses.h"
#include "passes/lower/kernel_builder.h"

namespace rnnc {
namespace {

/// On an H200 products of rows that are not aligned take 3 to 50 times as long as others.
constexpr double kLeastGain = 2;

}  // namespace

WiderRows::WiderRows(Plan& plan, const Machine& machine, int64_t max_steps)
    : plan_(plan), machine_(machine), usual_(with_usual_chunk(plan, max_steps)), cache_(usual_) {}

void WiderRows::widen(BufferId id, int64_t unit) {
  Buffer& buffer = plan_.buffers[id];
  const int64_t values = buffer.width - buffer.pad;
  buffer.width = round_up(values, unit);
  buffer.pad = buffer.width - values;
  wider_.insert(id);
}

bool WiderRows::pays_copy(const Stage& stage, const Launch& launch, int64_t length) const {
  const auto elements = static_cast<double>(usual_.chunk * plan_.batch * length);
  const double bytes = 2 * elements * static_cast<double>(size_of(plan_.dtype));
  const double seconds = machine_.launch_seconds + bytes / machine_.memory_bandwidth;
  return seconds <= kLeastGain * cost_of(usual_, cache_, stage, launch, machine_).seconds;
}

Access WiderRows::copy(LaunchPlace place, const Access& source, int64_t length, int64_t width,
                       bool zeros) {
  const std::tuple key(place.stage, source.buffer, source.delay, source.column, length);
  const auto [found, fresh] = copies_.try_emplace(key);
  if (!fresh) return found->second;
  Buffer buffer = {
      .name = plan_.buffers[source.buffer].name, .dtype = plan_.dtype, .extent = Extent::Chunk};
  buffer.width = width;
  buffer.pad = width - length;
  if (zeros) buffer.placement = Placement::Program;
  found->second = {.buffer = static_cast<BufferId>(plan_.buffers.size()), .stride = width};
  plan_.buffers.push_back(std::move(buffer));
  KernelBuilder builder(plan_, length);
  builder.store(found->second, /*vector=*/true, builder.load(source, /*vector=*/true));
  insert_before(place, builder.finish());
  return found->second;
}

void WiderRows::insert_before(LaunchPlace place, Launch launch) {
  before_[place].push_back(std::move(launch));
}

void WiderRows::finish() {
  const auto set = [this](Access& access) {
    if (is_wider(access.buffer)) access.stride = plan_.buffers[access.buffer].width;
  };
  for_each_access(plan_, set);
  for (auto& [place, launches] : before_) {
    for (Launch& launch : launches) for_each_access(launch, set);
  }
  for (auto place = before_.rbegin(); place != before_.rend(); ++place) {
    std::vector<Launch>& launches = plan_.stages[place->first.stage].launches;
    const auto at = launches.begin() + static_cast<std::ptrdiff_t>(place->first.launch);
    launches.insert(at, place->second.begin(), place->second.end());
  }
}

}  // namespace rnnc
