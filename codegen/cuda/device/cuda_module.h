/// What a plan becomes on a GPU, as one value: the text of its kernels, how each is launched, and
/// for each launch of the plan its kernel and arrays. Made once; who compiles the text and who
/// launches the kernels read the same value.
#pragma once

#include <compare>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "codegen/cuda/device/arch.h"
#include "codegen/cuda/device/kernel_abi.h"
#include "ir/plan/plan.h"

namespace rnnc {

/// plan.stages[stage].launches[index].
struct LaunchId {
  size_t stage = 0;
  size_t index = 0;
  friend auto operator<=>(const LaunchId&, const LaunchId&) = default;
};

/// Of the prelude and of what stands behind it as it is: their launches are written by hand
/// (runtime/cuda/sequence_launches.cpp, launcher.cpp).
struct CudaOwnShape {};

struct CudaKernel {
  std::string name;
  std::variant<CudaOwnShape, CudaKernelShape, CudaFusedShape, CudaLoopShape, CudaScanShape,
               CudaRecurrenceShape, CudaStatesShape>
      shape;
};

inline constexpr uint32_t kNoCudaKernel = UINT32_MAX;

struct CudaLaunch {
  /// Index; launches with the same one differ only in where their arrays lie. kNoCudaKernel: what
  /// the launch does is not done by a kernel of the module but by a library or a copy.
  uint32_t kernel = kNoCudaKernel;
  /// The arrays that a generated kernel gets, in its order. A fused one gets those that the kernel
  /// loads, those that it stores, then `left` and `weight` of each product; without a buffer where
  /// other launches of the kernel store something that this one does not.
  std::vector<Access> accesses;
};

struct CudaModule {
  /// Without kernels, for a plan.
  explicit CudaModule(const Plan& plan);

  /// One translation unit that includes nothing.
  std::string source;
  std::vector<CudaKernel> kernels;
  /// By the plan's stage, and the launch's index in it.
  std::vector<std::vector<CudaLaunch>> launches;
  uint32_t set_frame = kNoCudaKernel;
  uint32_t end_chunk = kNoCudaKernel;
  uint32_t states = kNoCudaKernel;  // of no plan without states
  uint32_t total = kNoCudaKernel;   // that adds up rows, of plans that need it

  const CudaLaunch& of(LaunchId id) const { return launches[id.stage][id.index]; }
  CudaLaunch& of(LaunchId id) { return launches[id.stage][id.index]; }
  /// Null: the launch has no kernel, or one of another kind.
  const CudaFusedShape* fused(LaunchId id) const;

  /// Returns its index.
  uint32_t add(CudaKernel kernel);
};

/// The device prelude and the plan's kernels, with tiles for GPUs of an architecture. Runs on those
/// with as much shared memory. Errors say what of the plan no GPU runs.
Result<CudaModule> make_cuda_module(const Plan& plan, std::string_view arch = kDefaultCudaArch);

/// Calls visit(id, launch) for each launch of a plan, in order.
template <typename Visit>
void for_each_launch(const Plan& plan, const Visit& visit) {
  for (size_t stage = 0; stage < plan.stages.size(); ++stage) {
    const std::vector<Launch>& launches = plan.stages[stage].launches;
    for (size_t index = 0; index < launches.size(); ++index) {
      visit(LaunchId{stage, index}, launches[index]);
    }
  }
}
/// For each of kind L.
template <typename L, typename Visit>
void for_each_launch_of(const Plan& plan, const Visit& visit) {
  for_each_launch(plan, [&](LaunchId id, const Launch& launch) {
    if (const auto* of_kind = std::get_if<L>(&launch)) visit(id, *of_kind);
  });
}

}  // namespace rnnc
