/// What the emitter and the loader agree on.
#pragma once

#include <cstddef>
#include <string>

namespace rnnc {

/// Symbol of `Plan::kernels[index]` (ir/plan/plan.h). The user's names never reach generated code.
std::string kernel_name(size_t index);

}  // namespace rnnc
