/// Taking back what has been added to a plan to see whether it is worth it.
#pragma once

#include "ir/plan/plan.h"

namespace rnnc {

/// Which buffers and kernels a plan has. Those that come later are its last ones.
class Checkpoint {
 public:
  explicit Checkpoint(const Plan& plan)
      : buffers_(plan.buffers.size()), kernels_(plan.kernels.size()) {}

  /// Those are all that the plan has. Nothing in it may use others.
  void restore(Plan& plan) const {
    plan.buffers.resize(buffers_);
    plan.kernels.resize(kernels_);
  }

 private:
  size_t buffers_;
  size_t kernels_;
};

}  // namespace rnnc
