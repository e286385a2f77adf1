/// What launches that call kernels have in common.
#pragma once

#include <vector>

#include "ir/plan/launches/launches.h"

namespace rnnc {

/// Of the arguments that lie in memory: those that are read, then those that are written.
void add_arguments(const Plan& plan, uint32_t kernel, const std::vector<Access>& accesses,
                   std::vector<Touch>& touches);

/// Operations for one row.
double flops_of(const Kernel& kernel);

/// Of arguments that are read a step late: whether they are sequences of the caller's that are read.
Status check_earlier(const Plan& plan, uint32_t kernel, const std::vector<Access>& accesses,
                     const std::vector<uint32_t>& earlier);
void describe_earlier(const LaunchNames& in, const std::vector<Access>& accesses,
                      const std::vector<uint32_t>& earlier, LaunchWords& words);

}  // namespace rnnc
