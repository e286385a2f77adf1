/// Pieces of CUDA C++ that all emitters of kernels need.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/plan/plan.h"

namespace rnnc {

/// A value of this type in memory, as prelude.cuh calls it. Not for f64.
std::string_view cuda_element_type(DType dtype);

/// What an array of a kernel is made of: that type, constant if the kernel only loads it.
std::string cuda_array_type(const Kernel::Argument& argument);

/// Parameters of a kernel behind others: ", const rnnc_access p0, const rnnc_access p1".
std::string cuda_access_parameters(size_t count, std::string_view reference = "");

/// Whether the kernel's arrays are so many that no variables stand for their rows: these would take
/// more registers than there are, and minutes to compile.
bool cuda_has_many_arrays(const Kernel& kernel);

/// Whether a block finds its arrays' rows once, by many_arrays.cuh.
bool cuda_finds_rows(const Kernel& kernel);

/// Of such a kernel's text: the type of its parameter `arrays`, that parameter, and the statements
/// that set, by argument, `bases`, or where all threads of a block are at one row `places` and
/// `misaligned`: whether any of the arguments `checked` is not aligned to packets.
std::string cuda_arrays_struct(const std::string& kernel_name, size_t count);
std::string cuda_arrays_parameter(const std::string& kernel_name);
std::string cuda_find_bases(size_t count);
std::string cuda_find_places(const Kernel& kernel, const std::vector<uint32_t>& checked,
                             int packet);

/// Zero where rows `a` of these arguments are aligned to packets of so many elements.
std::string cuda_misalignment(const Kernel& kernel, const std::vector<uint32_t>& arguments,
                              int packet);

/// Whether rows 0 of a kernel's vectors, at its parameters' addresses, are aligned to packets of so
/// many elements, as an expression.
std::string cuda_are_rows_aligned(const Kernel& kernel, int packet);

/// The float nearest to the value, exact.
std::string cuda_float_literal(double value);

/// Of functions in kernels: that of f32, or the prelude's shorter ones, for results that are rounded
/// to 16 bits.
enum class Precision : uint8_t { Whole, Short };
/// What arrays of a type need.
Precision precision_of(DType storage);

/// A scalar op applied to operands; `operand` spells the i-th.
std::string cuda_scalar_text(Op op, const std::function<std::string(size_t)>& operand,
                             Precision precision = Precision::Whole);

/// Where values of instructions are variables v0, v1 and so on: a value's spelling, and what a
/// scalar instruction computes.
std::string cuda_value(const Kernel& kernel, uint32_t id);
std::string cuda_scalar_text(const Kernel& kernel, uint32_t id,
                             Precision precision = Precision::Whole);

}  // namespace rnnc
