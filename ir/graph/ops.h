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
  Vector,    // known numbers [n]
  Range,     // 0, 1, … n - 1: [n]
  Eye,       // the identity matrix [n, n]
  Valid,     // 1 while t is below the sequence's length, else 0 (passes/graph/sequence_features.h)
  Reset,     // 1 where the state begins anew at this step, else 0 (likewise)
  Final,     // a state after the last step
  // Structure: elements move, no arithmetic. "First axis" is the values' own; batch is implied.
  Broadcast,  // a scalar to the node's shape
  Slice,      // elements [begin, end) of the first axis
  Index,      // element `begin` of the first axis, which goes away
  Concat,     // one after the other along the first axis; one or more operands
  Stack,      // operands of one shape along a new first axis; one or more
  Transpose,  // of a matrix
  Reverse,    // the sequence backwards: the value at step T - 1 - t, T the sequence's length
  Earlier,    // of an input, the value at step t - 1, whichever way the Graph goes; zero at step 0
  Rows,       // of a table [V, E] or [V], the row that an integer names; zeros if it has none
  Real,       // an integer as a number
  Total,      // the sum over all steps and rows of the batch of a value, or of the outer product of
  // two vectors: [P] and [Q] to [P, Q]; block by block [N * P] and [N * Q] to [N, P, Q]; or, of an
  // integer and a value, a table in which each value adds to the row that the integer names.
  // Of what comes after all steps (Final), the sum over the batch
  // Products and reductions.
  MatMul,  // NumPy's `@` on ranks 1 and 2; rank 3 is block-diagonal: [N, P, Q] @ [N * Q] is
           // [N * P], and [N * P] @ [N, P, Q] is [N * Q], block by block
  Sum,     // reductions go over the last axis
  Mean,
  Var,  // population variance
  ReduceMin,
  ReduceMax,
// Scalar ops, applied elementwise; scalars broadcast against anything.
#define RNNC_SCALAR_OP(op, ...) op,
#include "ir/graph/ops.def"
#undef RNNC_SCALAR_OP
};

/// How NaN moves through an op.
enum class NanRule : uint8_t {
  Propagate,  // NaN in any operand gives NaN
  Compare,    // a comparison: false with NaN, except `ne`
  Select,     // `where`: only the chosen operand counts; a NaN condition is true
};

/// `OpInfo::arity` of Concat and Stack: one operand or more; of Total: one or two.
inline constexpr int kAnyArity = -1;

struct OpInfo {
  Op op;
  std::string_view name;  // in IR text, and the language's spelling where it is a function
  int arity;
  bool scalar;     // a row of ops.def
  bool reduction;  // Sum … ReduceMax
  NanRule nan_rule;
  /// CUDA C++ for one element with `$0 $1 $2` for operands; functions come from the device prelude.
  std::string_view cuda;
  /// For the cost models, of an element: operations, and uses of a GPU's unit for special
  /// functions.
  int flops;
  int specials;
  /// Partial derivatives by operand, in the formula notation of `ir/graph/formula.h`.
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
