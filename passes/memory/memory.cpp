// 1. Refuse sizes that no machine has, before they are added up.
// 2. For each piece of memory find when its buffers are in use (passes/memory/lifetimes.h) and pack
//    them (passes/memory/packing.h). Without reuse, put one behind the other.
#include "passes/memory/memory.h"

#include "passes/memory/packing.h"

namespace rnnc {
namespace {

constexpr double kMostBytes = 1125899906842624;  // 2^50

Status check_sizes(const Plan& plan) {
  double sum = 0;
  for (const Buffer& buffer : plan.buffers) {
    if (buffer.placement == Placement::Caller) continue;
    const double rows =
        buffer.extent == Extent::Invariant
            ? 1
            : static_cast<double>(plan.batch) * static_cast<double>(plan.chunk + buffer.history);
    sum += rows * static_cast<double>(buffer.width) * static_cast<double>(size_of(buffer.dtype));
  }
  if (sum < kMostBytes) return {};
  return fail("batch {} needs more memory than any device has", plan.batch);
}

int64_t& bytes_of(Plan& plan, Arena arena) {
  switch (arena) {
    case Arena::Workspace:
      return plan.workspace_bytes;
    case Arena::WorkspacePerStep:
      return plan.workspace_bytes_per_step;
    case Arena::Program:
      break;
  }
  return plan.program_bytes;
}

/// Returns the bytes in all.
int64_t pack_buffers(Plan& plan, Arena arena) {
  const std::vector<Lifetime> lifetimes = find_lifetimes(plan, arena);
  const Packing packing = pack(lifetimes);
  for (size_t i = 0; i < lifetimes.size(); ++i) {
    for (const BufferId id : lifetimes[i].buffers) plan.buffers[id].offset = packing.offsets[i];
  }
  return packing.bytes;
}

int64_t put_in_a_row(Plan& plan, Arena arena) {
  int64_t end = 0;
  for (Buffer& buffer : plan.buffers) {
    if (!is_in(buffer, arena)) continue;
    buffer.offset = end;
    end += aligned_size(plan, buffer);
  }
  return end;
}

}  // namespace

Status assign_memory(Plan& plan, bool reuse) {
  if (Status status = check_sizes(plan); !status) return status;
  for (const Arena arena : kArenas) {
    bytes_of(plan, arena) = reuse ? pack_buffers(plan, arena) : put_in_a_row(plan, arena);
  }
  return {};
}

int64_t live_workspace_bytes(const Plan& plan) {
  return live_bytes(find_lifetimes(plan, Arena::Workspace));
}

}  // namespace rnnc
