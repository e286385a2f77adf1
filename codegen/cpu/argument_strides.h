/// What is known of kernels' arguments before they run.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ir/plan/plan.h"

namespace rnnc {

/// Per argument of a kernel: the elements from a row of it to the next, if these are the same in
/// all launches of the plan.
using ArgumentStrides = std::vector<std::optional<int64_t>>;

/// As Plan::kernels. Nothing is known of kernels without launches, and of products' results.
std::vector<ArgumentStrides> argument_strides(const Plan& plan);

}  // namespace rnnc
