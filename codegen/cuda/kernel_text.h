/// Pieces of CUDA C++ that all emitters of kernels need.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "ir/plan.h"

namespace rnnc {

/// A value of this type in memory, as prelude.cuh calls it. Not for f64.
std::string_view cuda_element_type(DType dtype);

/// The float nearest to the value, exact.
std::string cuda_float_literal(double value);

/// A scalar op applied to operands; `operand` spells the i-th.
std::string cuda_scalar_text(Op op, const std::function<std::string(size_t)>& operand);

}  // namespace rnnc
