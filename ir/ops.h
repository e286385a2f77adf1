/// The operations of the step Graph: a few structural ones, and the scalar ops of `ops.def`.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace rnnc {

enum class Op : uint8_t {
  // Leaves.
  Input,     // an input at step t - delay
  Param,     // a parameter
  State,     // a state at step t - delay, delay >= 1
  Constant,  // a scalar literal
  // Products and reductions.
  MatMul,  // NumPy's `@` on ranks 1 and 2
  Sum,     // reductions go over the last axis
  Mean,
  Var,  // population variance
  ReduceMin,
  ReduceMax,
// Scalar ops, applied elementwise; scalars broadcast against anything.
#define RNNC_SCALAR_OP(op, ...) op,
#include "ir/ops.def"
#undef RNNC_SCALAR_OP
};

/// How NaN moves through an op.
enum class NanRule : uint8_t {
  Propagate,  // NaN in any operand gives NaN
  Compare,    // a comparison: false with NaN, except `ne`
  Select,     // `where`: only the chosen operand counts; a NaN condition is true
};

struct OpInfo {
  Op op;
  std::string_view name;  // in IR text, and the language's spelling where it is a function
  int arity;
  bool scalar;     // a row of ops.def
  bool reduction;  // Sum … ReduceMax
  NanRule nan_rule;
  /// CUDA C++ for one element with `$0 $1 $2` for operands; functions come from the device prelude.
  std::string_view cuda;
  /// Partial derivatives by operand, in the formula notation of `ir/formula.h`.
  std::array<std::string_view, 3> derivative;
};

const OpInfo& info(Op op);
/// Every op, in the order of `Op`.
std::span<const OpInfo> all_ops();
std::optional<Op> parse_op(std::string_view name);

inline bool is_scalar(Op op) {
  return info(op).scalar;
}
inline bool is_reduction(Op op) {
  return info(op).reduction;
}

/// The meaning of a scalar op in float64: what every backend is compared with. Operands beyond the
/// op's arity are ignored.
double evaluate(Op op, double a, double b, double c);

}  // namespace rnnc
