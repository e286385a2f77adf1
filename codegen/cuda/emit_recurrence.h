/// One recurrence launch's kernel as a CUDA C++ function.
#pragma once

#include <string>
#include <vector>

#include "codegen/cuda/recurrence_layout.h"

namespace rnnc {

/// The function `name`, to stand behind recurrence.cuh. Launches that differ only in where their
/// arrays lie have the same text. `sides`: one for each.
std::string emit_recurrence_kernel(const Plan& plan, const RecurrenceTile& tile,
                                   const std::vector<RecurrenceLayout>& sides,
                                   const std::string& name);

/// What the blocks of a side do, once they know their group of rows and which of its blocks they
/// are. Where the side's arrays and slices lie it takes by name, so that like sides have one text.
std::string emit_recurrence_side(const Plan& plan, const RecurrenceTile& tile,
                                 const RecurrenceLayout& layout);

}  // namespace rnnc
