/// What the emitter and the loader agree on.
#pragma once

#include <string>

#include "ir/plan.h"

namespace rnnc {

/// Symbol of `Plan::kernels[index]`. The user's names never reach generated code.
std::string kernel_name(size_t index);

/// Whether any launch is a matrix product.
bool has_products(const Plan& plan);

}  // namespace rnnc
