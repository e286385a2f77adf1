/// How long a plan's kernels are.
#pragma once

#include "ir/plan/plan.h"

namespace rnnc::test {

inline size_t instructions(const Plan& plan) {
  size_t count = 0;
  for (const Kernel& kernel : plan.kernels) count += kernel.body.size();
  return count;
}

inline size_t loops(const Plan& plan) {
  size_t count = 0;
  for (const Kernel& kernel : plan.kernels) count += kernel.loops.size();
  return count;
}

}  // namespace rnnc::test
