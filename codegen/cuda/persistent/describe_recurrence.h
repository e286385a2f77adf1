/// What a recurrence's kernel computes of the user's cell, as comments for who reads its text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "codegen/cuda/persistent/recurrence_layout.h"

namespace rnnc {

/// Lines to stand before the kernel `kernel`, by the names that the plan has for arrays:
///
///   // r0, of LSTM:
///   //   phase 0, rows of 1024 elements
///   //     weights0_0: R_z|R_n, by h[t-1]
///   //     value7 = sigmoid(products of x[t] + R_z h[t-1] + b_z)
///   //     h[t] = (value7 * last h) + ...
///
/// A kernel of several like launches is described as the first of them.
std::string describe_recurrence(const Plan& plan, std::string_view kernel,
                                const std::vector<RecurrenceLayout>& sides);

}  // namespace rnnc
