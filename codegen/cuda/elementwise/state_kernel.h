/// Begins and ends states: the launches of many of them as one. Each alone takes as long as a few
/// steps of a short recurrence do (on an H200 5 us of a call, and a network of 8 LSTMs has 32).
#pragma once

#include <optional>
#include <vector>

#include "codegen/cuda/device/cuda_module.h"
#include "codegen/cuda/elementwise/kernel_traits.h"

namespace rnnc {

class CudaStateKernel {
 public:
  explicit CudaStateKernel(const Plan& plan);

  /// Whether states have a kernel of the plan, and nothing else.
  bool has_alone(size_t kernel) const { return taken_[kernel].has_value() && !elsewhere_[kernel]; }

  /// Adds the kernel to the plan's module, if there are states at all.
  void add_to(CudaModule& module) const;

 private:
  const Plan& plan_;
  std::vector<std::optional<KernelTraits>> taken_;  // by kernel
  std::vector<bool> elsewhere_;                     // likewise: stages have it
  size_t accesses_ = 0;
  CudaStatesShape shape_;
};

}  // namespace rnnc
