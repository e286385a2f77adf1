#include "ir/plan/plan.h"

#include <algorithm>

#include "ir/plan/alignment.h"
#include "ir/plan/recurrence_kernel.h"
#include "ir/plan/recurrence_sides.h"
#include "ir/plan/waves.h"

namespace rnnc {

bool is_resident(const Stage& stage) {
  return !stage.launches.empty() && std::holds_alternative<RecurrenceLaunch>(stage.launches[0]);
}

int64_t stream_width(const RecurrenceTile& tile) {
  return all_blocks(tile) * tile.warps * kThreadsOfWarp * tile.streamed_words;
}

WeightRows weight_rows(const GemmLaunch& launch) {
  const int64_t columns = launch.n * launch.blocks * launch.repeats;
  if (launch.weight.stride == 0) return {columns, launch.k, launch.k};
  return launch.transposed ? WeightRows{launch.k, launch.n, weight_stride(launch)}
                           : WeightRows{launch.n, launch.k, weight_stride(launch)};
}

int64_t weight_stride(const GemmLaunch& launch) {
  if (launch.weight.stride != 0) return launch.weight.stride;
  return launch.transposed ? launch.n : launch.k;
}

bool ends_in_zeros(const Buffer& buffer) {
  return buffer.pad > 0 && buffer.placement == Placement::Program;
}

std::vector<BufferId> cleared_buffers(const Plan& plan, uint32_t sweep) {
  std::vector<BufferId> buffers;
  for (const Stage& stage : plan.stages) {
    if (stage.sweep != sweep) continue;
    for (const Launch& launch : stage.launches) {
      for (const BufferId sum : sums_of(launch)) {
        if (std::ranges::find(buffers, sum) == buffers.end()) buffers.push_back(sum);
      }
    }
  }
  return buffers;
}

int64_t workspace_bytes(const Plan& plan, int64_t steps) {
  return plan.workspace_bytes + plan.workspace_bytes_per_step * steps;
}

int64_t workspace_offset(const Plan& plan, const Buffer& buffer, int64_t steps) {
  return buffer.extent == Extent::Steps ? plan.workspace_bytes + buffer.offset * steps
                                        : buffer.offset;
}

int64_t byte_size(const Plan& plan, const Buffer& buffer) {
  int64_t rows = 1;
  switch (buffer.extent) {
    case Extent::Invariant:
      break;
    case Extent::Batch:
    case Extent::Steps:
      rows = plan.batch;
      break;
    case Extent::Chunk:
      rows = buffer.turned ? turned_rows(plan) : (buffer.history + plan.chunk) * plan.batch;
      break;
  }
  const int64_t bytes = rows * buffer.width * static_cast<int64_t>(size_of(buffer.dtype));
  return buffer.extent == Extent::Steps ? aligned_size(bytes) : bytes;
}

}  // namespace rnnc
