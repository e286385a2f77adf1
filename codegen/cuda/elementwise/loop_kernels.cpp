// Launches with the same elementwise kernel, carries and invariant arguments share a shape, and so
// an emitted kernel.
#include "codegen/cuda/elementwise/loop_kernels.h"

#include <algorithm>
#include <map>

#include "codegen/cuda/elementwise/emit_loop.h"
#include "codegen/cuda/elementwise/emit_rolled_loop.h"

namespace rnnc {
namespace {

constexpr int kThreads = 64;  // few: a block more or less per multiprocessor weighs little then
/// A thread takes two elements only where there are enough threads all the same.
constexpr int64_t kElementsForPairs = 65536;

/// Whether threads take pairs of elements: 16-bit arrays then move 4 bytes at a time.
bool takes_pairs(const Plan& plan, const Kernel& kernel, const LoopLaunch& launch) {
  if (!kernel.loops.empty() || kernel.length % 2 != 0 ||
      plan.batch * kernel.length < kElementsForPairs)
    return false;
  bool has_halves = false;
  for (size_t i = 0; i < kernel.arguments.size(); ++i) {
    if (!kernel.arguments[i].vector) continue;
    if (launch.accesses[i].column % 2 != 0 || launch.accesses[i].stride % 2 != 0) return false;
    has_halves = has_halves || size_of(kernel.arguments[i].dtype) == 2;
  }
  return has_halves;
}

LoopTraits traits_of(const Plan& plan, const Kernel& kernel, const LoopLaunch& launch) {
  LoopTraits traits = {.carries = launch.carries, .invariant = {}, .descending = plan.descending};
  traits.items = takes_pairs(plan, kernel, launch) ? 2 : 1;
  for (const Access& access : launch.accesses) {
    const Buffer& buffer = plan.buffers[access.buffer];
    traits.invariant.push_back(buffer.extent == Extent::Invariant);
    if (traits.items > 1 && buffer.placement == Placement::Caller) traits.aligned = false;
  }
  return traits;
}

std::vector<uint32_t> key_of(const LoopLaunch& launch, const LoopTraits& traits) {
  std::vector<uint32_t> key = {launch.kernel, static_cast<uint32_t>(traits.items),
                               traits.aligned ? 1U : 0U};
  for (const LoopCarry& carry : traits.carries) {
    key.push_back(carry.load);
    key.push_back(carry.store);
  }
  key.insert(key.end(), traits.invariant.begin(), traits.invariant.end());
  return key;
}

}  // namespace

void add_loop_kernels(const Plan& plan, CudaModule& module) {
  std::map<std::vector<uint32_t>, uint32_t> known;  // index in the module
  for_each_launch_of<LoopLaunch>(plan, [&](LaunchId id, const LoopLaunch& launch) {
    const Kernel& kernel = plan.kernels[launch.kernel];
    const LoopTraits traits = traits_of(plan, kernel, launch);
    const auto [found, is_new] = known.try_emplace(key_of(launch, traits));
    if (is_new) {
      const std::string name = fmt::format("l{}", known.size() - 1);
      const CudaKernelShape shape = {.length = kernel.length / traits.items, .threads = kThreads};
      module.source += '\n';
      module.source += kernel.loops.empty() ? emit_loop_kernel(kernel, traits, shape, name)
                                            : emit_rolled_loop_kernel(kernel, traits, shape, name);
      found->second = module.add({name, CudaLoopShape{shape}});
    }
    module.of(id) = {found->second, launch.accesses};
  });
}

}  // namespace rnnc
