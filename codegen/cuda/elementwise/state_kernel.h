/// Begins and ends states: the launches of many of them as one. Each alone takes as long as a few
/// steps of a short recurrence do (on an H200 5 us of a call, and a network of 8 LSTMs has 32).
#pragma once

#include <string>
#include <vector>

#include "codegen/cuda/device/kernel_abi.h"
#include "ir/plan/plan.h"

namespace rnnc {

class CudaStateKernel {
 public:
  explicit CudaStateKernel(const Plan& plan);

  /// Its one parameter is an array of instances, as many as fit; a launch's grid is as wide and as
  /// high as the largest of its instances needs, and as deep as there are instances. Each is a
  /// CudaRows, a uint32_t, the kernel's index in the plan, an unused uint32_t, and the launch's
  /// CudaAccesses with room for as many as any has.
  struct Shape {
    std::string name;
    uint32_t threads = 0;
    uint32_t most_instances = 0;
    uint32_t instance_bytes = 0;
  };
  const Shape& shape() const { return shape_; }
  /// Whether there are states at all.
  bool exists() const { return shape_.most_instances > 0; }
  /// Whether states have a kernel of the plan, and nothing else.
  bool has_alone(size_t kernel) const { return taken_[kernel] && !elsewhere_[kernel]; }

  std::string code() const;

 private:
  const Plan& plan_;
  std::vector<bool> taken_;      // by kernel
  std::vector<bool> elsewhere_;  // likewise: stages have it
  size_t accesses_ = 0;
  Shape shape_;
};

}  // namespace rnnc
