#include "codegen/cuda/device/kernel_text.h"

#include <cmath>

#include "codegen/cuda/device/kernel_abi.h"

namespace rnnc {
namespace {

/// Of operations that have a shorter function; of others as ops.def has it. `first`: the first
/// operand.
std::string_view short_spelling(Op op, std::string_view first) {
  switch (op) {
    case Op::Div:
      return first == "1.0f" ? "rnnc_reciprocal($1)" : "rnnc_near_divide($0, $1)";
    case Op::Exp:
      return "rnnc_short_exp($0)";
    case Op::Expm1:
      return "rnnc_short_expm1($0)";
    case Op::Sqrt:
      return "rnnc_near_sqrt($0)";
    case Op::Sigmoid:
      return "rnnc_short_sigmoid($0)";
    case Op::Silu:
      return "rnnc_short_silu($0)";
    default:
      return info(op).cuda;
  }
}

}  // namespace

std::string_view cuda_element_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return "float";
    case DType::bf16:
      return "rnnc_bf16";
    case DType::f16:
      return "rnnc_f16";
    case DType::f64:
    case DType::i32:
      break;
  }
  RNNC_CHECK(false, "{} is no type of CUDA kernels' arithmetic", to_string(dtype));
}

std::string cuda_array_type(const Kernel::Argument& argument) {
  return fmt::format("{}{}", argument.written ? "" : "const ", cuda_element_type(argument.dtype));
}

std::string cuda_access_parameters(size_t count, std::string_view reference) {
  std::string text;
  for (size_t i = 0; i < count; ++i) text += fmt::format(", const rnnc_access{} p{}", reference, i);
  return text;
}

bool cuda_has_many_arrays(const Kernel& kernel) {
  constexpr size_t kMany = 96;
  return kernel.arguments.size() > kMany;
}

bool cuda_finds_rows(const Kernel& kernel) {
  constexpr size_t kMostOfThreads = 4;
  const bool has_row = cuda_kernel_shape(kernel).row_block && kernel.loops.empty();
  return cuda_has_many_arrays(kernel) || (has_row && kernel.arguments.size() > kMostOfThreads);
}

std::string cuda_arrays_struct(const std::string& kernel_name, size_t count) {
  return fmt::format("struct {}_arrays {{\n  rnnc_access of[{}];\n}};\n", kernel_name, count);
}

std::string cuda_arrays_parameter(const std::string& kernel_name) {
  return fmt::format(", const __grid_constant__ {}_arrays arrays", kernel_name);
}

std::string cuda_find_bases(size_t count) {
  return fmt::format(
      "  __shared__ rnnc_base bases[{0}];\n"
      "  rnnc_find_bases(rows.frame, arrays.of, {0}, bases);\n",
      count);
}

std::string cuda_find_places(const Kernel& kernel, const std::vector<uint32_t>& checked,
                             int packet) {
  const size_t count = kernel.arguments.size();
  const auto set_of = [count](const std::vector<uint32_t>& arguments) {
    std::vector<uint32_t> words((count + 31) / 32);
    for (const uint32_t i : arguments) words[i / 32] |= 1u << (i % 32);
    return fmt::format("{{{{{:#x}}}}}", fmt::join(words, ", "));
  };
  std::vector<uint32_t> wide;
  for (uint32_t i = 0; i < count; ++i) {
    if (size_of(kernel.arguments[i].dtype) == 4) wide.push_back(i);
  }
  return fmt::format(
      "  __shared__ rnnc_word places[{0}];\n"
      "  __shared__ unsigned misaligned;\n"
      "  rnnc_find_rows<{0}>(rows.frame, arrays.of, {1}, {2}, {3}, places, misaligned);\n",
      count, set_of(wide), set_of(checked), packet);
}

std::string cuda_misalignment(const Kernel& kernel, const std::vector<uint32_t>& arguments,
                              int packet) {
  std::string text;
  for (const uint32_t i : arguments) {
    text += fmt::format("{}(reinterpret_cast<rnnc_word>(a{}) & {})", text.empty() ? "" : " | ", i,
                        static_cast<size_t>(packet) * size_of(kernel.arguments[i].dtype) - 1);
  }
  return text;
}

std::string cuda_are_rows_aligned(const Kernel& kernel, int packet) {
  std::string text;
  for (size_t i = 0; i < kernel.arguments.size(); ++i) {
    const Kernel::Argument& argument = kernel.arguments[i];
    if (!argument.vector || packet == 1) continue;
    text += fmt::format(
        "{}reinterpret_cast<rnnc_word>(rnnc_row<const {}>(rows.frame, p{}, 0)) % {} == 0",
        text.empty() ? "" : " && ", cuda_element_type(argument.dtype), i,
        size_of(argument.dtype) * static_cast<size_t>(packet));
  }
  return text.empty() ? "true" : text;
}

std::string cuda_float_literal(double value) {
  const auto rounded = static_cast<float>(value);
  if (std::isnan(rounded)) return "__int_as_float(0x7fffffff)";
  if (std::isinf(rounded)) {
    return rounded > 0 ? "__int_as_float(0x7f800000)" : "__int_as_float(0xff800000)";
  }
  const std::string digits = fmt::format("{}", rounded);
  const bool whole = digits.find_first_of(".e") == std::string::npos;
  // The sign in brackets: a literal may stand behind an operator.
  const std::string literal = digits + (whole ? ".0f" : "f");
  return std::signbit(rounded) ? "(" + literal + ")" : literal;
}

Precision precision_of(DType storage) {
  return size_of(storage) < size_of(DType::f32) ? Precision::Short : Precision::Whole;
}

std::string cuda_scalar_text(Op op, const std::function<std::string(size_t)>& operand,
                             Precision precision) {
  const std::string_view spelling =
      precision == Precision::Short ? short_spelling(op, operand(0)) : info(op).cuda;
  std::string result;
  for (size_t i = 0; i < spelling.size(); ++i) {
    if (spelling[i] == '$') {
      result += operand(static_cast<size_t>(spelling[++i] - '0'));
    } else {
      result += spelling[i];
    }
  }
  return result;
}

std::string cuda_value(const Kernel& kernel, uint32_t id) {
  const Instruction& instruction = kernel.body[id];
  return instruction.kind == Instruction::Kind::Constant ? cuda_float_literal(instruction.value)
                                                         : fmt::format("v{}", id);
}

std::string cuda_scalar_text(const Kernel& kernel, uint32_t id, Precision precision) {
  const Instruction& instruction = kernel.body[id];
  const auto operand = [&](size_t i) { return cuda_value(kernel, instruction.operands.at(i)); };
  return cuda_scalar_text(instruction.op, operand, precision);
}

}  // namespace rnnc
