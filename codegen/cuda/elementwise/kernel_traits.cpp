#include "codegen/cuda/elementwise/kernel_traits.h"

#include <algorithm>

#include "codegen/cuda/device/kernel_text.h"
#include "ir/plan/kernel_facts.h"
#include "ir/plan/plan_memory.h"
#include "ir/plan/plan_touches.h"
#include "ir/plan/state_steps.h"

namespace rnnc {
namespace {

/// Fewer elements occupy the machine only with a thread for each. (Elementwise work of an LSTM step
/// of 1024 units in bf16 on an H200, alone, with threads of one element and of four: 16 rows 3.3
/// and 3.5 us, 64 rows 4.0 and 3.9, 128 rows 5.2 and 4.3, 512 rows 12.9 and 6.8. But steps of 64
/// rows took 3 % longer.)
constexpr int64_t kElementsForPackets = 1 << 17;
constexpr int64_t kThreadsOfPackets = kElementsForPackets / 4;
constexpr int64_t kMostWordsOfPackets = 64;  // of a thread, which hold registers
constexpr int kMostSpread = 8;

int64_t rows_of(const Plan& plan, const Stage& stage, const ElementwiseLaunch& launch) {
  switch (stage.domain) {
    case Domain::Once:
    case Domain::Last:
      return launch.once_rows;
    case Domain::Sequence:
      return plan.chunk * plan.batch;
    case Domain::Step:
      break;
  }
  return plan.batch;
}

/// Elements that of each vector argument are loaded at once.
int most_packet(const Kernel& kernel) {
  constexpr size_t kBytes = 16;
  int most = kMostPacket;
  for (const Kernel::Argument& argument : kernel.arguments) {
    if (argument.vector) most = std::min(most, static_cast<int>(kBytes / size_of(argument.dtype)));
  }
  return most;
}

/// Words that a thread with so many elements holds.
int64_t words_of(const Kernel& kernel, int items) {
  int64_t sum = 0;
  for (const Kernel::Argument& argument : kernel.arguments) {
    const auto bytes = static_cast<int64_t>(size_of(argument.dtype));
    if (argument.vector) sum += std::max<int64_t>(1, items * bytes / 4);
  }
  return sum;
}

/// `elements`: of the launch that has fewest.
int items_of(const Kernel& kernel, int packet, int64_t elements) {
  if (elements < kElementsForPackets) return 1;
  while (packet > 1 &&
         (kernel.length % packet != 0 || words_of(kernel, packet) > kMostWordsOfPackets ||
          elements < packet * kThreadsOfPackets)) {
    packet /= 2;
  }
  return packet;
}

/// Likewise, of a kernel whose rows have no packets: each load of an element holds a register.
int spread_of(const Kernel& kernel, int64_t elements) {
  if (cuda_has_many_arrays(kernel)) return 1;
  int spread = kMostSpread;
  while (spread > 1 && (spread * std::ssize(kernel.arguments) > kMostWordsOfPackets ||
                        elements < spread * kElementsForPackets)) {
    spread /= 2;
  }
  return spread;
}

}  // namespace

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
  for (const Stage& stage : plan.stages) {
    if (stage.domain != Domain::Step) continue;
    for (const Launch& launch : stage.launches) {
      for (const Touch& touch : touches(plan, launch)) {
        if (touch.write) written[touch.access.buffer] = true;
      }
    }
  }
  std::vector<bool> reached = written;  // others in their memory too
  for_each_overlap(plan, [&](BufferId a, BufferId b) {
    if (written[a]) reached[b] = true;
    if (written[b]) reached[a] = true;
  });
  return reached;
}

std::vector<std::optional<KernelTraits>> kernel_traits(const Plan& plan) {
  std::vector<std::optional<KernelTraits>> traits(plan.kernels.size());
  const std::vector<bool> written = written_by_steps(plan);
  const auto add = [&](const ElementwiseLaunch& launch) {
    const std::vector<Kernel::Argument>& arguments = plan.kernels[launch.kernel].arguments;
    std::optional<KernelTraits>& all = traits[launch.kernel];
    if (!all) {
      all = KernelTraits{.packet = most_packet(plan.kernels[launch.kernel]),
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
  std::vector<int64_t> elements(plan.kernels.size(), INT64_MAX);  // of a stage's launch, at least
  for (const Stage& stage : plan.stages) {
    for (const Launch& launch : stage.launches) {
      const auto* const elementwise = std::get_if<ElementwiseLaunch>(&launch);
      if (elementwise == nullptr) continue;
      add(*elementwise);
      int64_t& least = elements[elementwise->kernel];
      least = std::min(
          least, rows_of(plan, stage, *elementwise) * plan.kernels[elementwise->kernel].length);
    }
  }
  for (const StatePlan& state : plan.states) {
    for (const auto launch : kStateLaunches) {
      for (const ElementwiseLaunch& one : launches_of(plan, state, state.*launch)) add(one);
    }
  }
  for (size_t i = 0; i < traits.size(); ++i) {
    const Kernel& kernel = plan.kernels[i];
    if (!traits[i] || has_reductions(kernel) || !kernel.loops.empty()) continue;
    traits[i]->items = items_of(kernel, traits[i]->packet, elements[i]);
    const bool is_launched = elements[i] < INT64_MAX;  // what only begins or ends states is not
    if (traits[i]->items == 1 && is_launched) traits[i]->spread = spread_of(kernel, elements[i]);
  }
  return traits;
}

}  // namespace rnnc
