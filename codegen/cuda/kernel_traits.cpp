#include "codegen/cuda/kernel_traits.h"

#include <algorithm>

#include "ir/plan_touches.h"
#include "ir/plan_verify_parts.h"

namespace rnnc {

int copy_bytes(const Buffer& buffer, std::initializer_list<int64_t> elements) {
  const auto element = static_cast<int64_t>(size_of(buffer.dtype));
  // The caller's arrays are aligned to their elements only, others to more than 16 bytes.
  if (buffer.placement == Placement::Caller) return static_cast<int>(element);
  int64_t bits = 16;
  for (const int64_t count : elements) bits |= count * element;
  return static_cast<int>(bits & -bits);
}

std::vector<bool> written_by_steps(const Plan& plan) {
  std::vector<bool> written(plan.buffers.size(), false);
  const std::vector<std::vector<BufferId>> shared = find_shared_memory(plan);
  for (const Stage& stage : plan.stages) {
    if (stage.domain != Domain::Step) continue;
    for (const Launch& launch : stage.launches) {
      for (const Touch& touch : touches(plan, launch)) {
        if (!touch.write) continue;
        written[touch.access.buffer] = true;
        for (const BufferId other : shared[touch.access.buffer]) written[other] = true;
      }
    }
  }
  return written;
}

std::vector<std::optional<KernelTraits>> kernel_traits(const Plan& plan) {
  std::vector<std::optional<KernelTraits>> traits(plan.kernels.size());
  const std::vector<bool> written = written_by_steps(plan);
  const auto add = [&](const ElementwiseLaunch& launch) {
    const std::vector<Kernel::Argument>& arguments = plan.kernels[launch.kernel].arguments;
    std::optional<KernelTraits>& all = traits[launch.kernel];
    if (!all) {
      all = KernelTraits{.packet = kMostPacket,
                         .unaligned = std::vector<bool>(arguments.size(), false),
                         .fixed = std::vector<bool>(arguments.size(), true)};
    }
    for (size_t i = 0; i < arguments.size(); ++i) {
      const Access& access = launch.accesses[i];
      if (plan.buffers[access.buffer].placement == Placement::Caller) all->unaligned[i] = true;
      if (written[access.buffer]) all->fixed[i] = false;
      while (arguments[i].vector &&
             (access.column % all->packet != 0 || access.stride % all->packet != 0)) {
        all->packet /= 2;
      }
    }
  };
  for (const Stage& stage : plan.stages) {
    for (const Launch& launch : stage.launches) {
      if (const auto* kernel = std::get_if<ElementwiseLaunch>(&launch)) add(*kernel);
    }
  }
  for (const StatePlan& state : plan.states) {
    for (const auto* launch : {&state.init_given, &state.init_declared, &state.write_final}) {
      add(*launch);
    }
  }
  return traits;
}

}  // namespace rnnc
