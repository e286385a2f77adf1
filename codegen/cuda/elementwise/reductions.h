/// What reductions over a block are called in prelude.cuh.
#pragma once

#include <string_view>

#include "ir/graph/ops.h"

namespace rnnc {

/// Of a plain reduction: any but `var`.
std::string_view cuda_reduction_type(Op op);

}  // namespace rnnc
