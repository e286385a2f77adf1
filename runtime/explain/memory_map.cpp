#include "runtime/explain/memory_map.h"

#include <algorithm>

#include "ir/plan/plan_touches.h"
#include "passes/memory/lifetimes.h"
#include "passes/memory/memory.h"

namespace rnnc::explain {
namespace {

/// Per buffer, the first stage that writes it; stages that only read it where none does.
std::vector<uint32_t> find_writers(const Plan& plan) {
  std::vector<uint32_t> writers(plan.buffers.size(), UINT32_MAX);
  for (const bool write : {true, false}) {
    for (uint32_t stage = 0; stage < plan.stages.size(); ++stage) {
      for (const Launch& launch : plan.stages[stage].launches) {
        for (const Touch& touch : touches(plan, launch)) {
          uint32_t& writer = writers[touch.access.buffer];
          if (touch.write == write && writer == UINT32_MAX) writer = stage;
        }
      }
    }
  }
  return writers;
}

int64_t rows_of_caller(const Plan& plan, const Buffer& buffer, int64_t steps) {
  if (buffer.extent == Extent::Invariant) return 1;
  return buffer.extent == Extent::Batch ? plan.batch : plan.batch * steps;
}

std::string names_of(const Plan& plan, const std::vector<BufferId>& buffers) {
  std::vector<std::string> names;
  for (const BufferId id : buffers) names.push_back(plan.buffers[id].name);
  return fmt::format("{}", fmt::join(names, ", then "));
}

}  // namespace

MemoryMap map_memory(const Plan& plan, int64_t steps) {
  MemoryMap map;
  for (const Stage& stage : plan.stages) {
    map.launches += static_cast<uint32_t>(stage.launches.size());
  }
  const uint32_t last = std::max(map.launches, 1U) - 1;
  const std::vector<uint32_t> writers = find_writers(plan);
  for (const Arena arena : kArenas) {
    for (const Lifetime& life : find_lifetimes(plan, arena)) {
      const Buffer& buffer = plan.buffers[life.buffers.front()];
      map.blocks.push_back({names_of(plan, life.buffers), arena, buffer.dtype, buffer.offset,
                            life.bytes, life.begin, std::min(life.end, last),
                            writers[life.buffers.front()]});
    }
  }
  for (const Buffer& buffer : plan.buffers) {
    if (buffer.placement != Placement::Caller) continue;
    map.caller_bytes += rows_of_caller(plan, buffer, steps) * buffer.width *
                        static_cast<int64_t>(size_of(buffer.dtype));
  }
  map.workspace_bytes = workspace_bytes(plan, steps);
  map.workspace_bytes_fixed = plan.workspace_bytes;
  map.workspace_bytes_per_step = plan.workspace_bytes_per_step;
  map.live_bytes = live_workspace_bytes(plan);
  map.program_bytes = plan.program_bytes;
  Plan spread = plan;
  const Status status = assign_memory(spread, /*reuse=*/false);
  map.fixed_bytes_without_reuse = status ? spread.workspace_bytes : plan.workspace_bytes;
  return map;
}

std::string_view name_of(Arena arena) {
  switch (arena) {
    case Arena::Workspace:
      return "workspace";
    case Arena::WorkspacePerStep:
      return "workspace per step";
    case Arena::Program:
      break;
  }
  return "program";
}

}  // namespace rnnc::explain
