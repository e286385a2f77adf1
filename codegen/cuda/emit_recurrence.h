/// One recurrence launch's kernel as a CUDA C++ function.
#pragma once

#include <string>

#include "codegen/cuda/recurrence_layout.h"

namespace rnnc {

/// The function `name`, to stand behind recurrence.cuh. Launches that differ only in where their
/// arrays lie have the same text.
std::string emit_recurrence_kernel(const Plan& plan, const RecurrenceTile& tile,
                                   const RecurrenceLayout& layout, const std::string& name);

}  // namespace rnnc
