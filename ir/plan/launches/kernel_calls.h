/// What launches that call kernels have in common.
#pragma once

#include <vector>

#include "ir/plan/plan_touches.h"

namespace rnnc {

/// Of the arguments that lie in memory: those that are read, then those that are written.
void add_arguments(const Plan& plan, uint32_t kernel, const std::vector<Access>& accesses,
                   std::vector<Touch>& touches);

/// Operations for one row.
double flops_of(const Kernel& kernel);

}  // namespace rnnc
