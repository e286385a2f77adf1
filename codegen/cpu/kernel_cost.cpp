#include "codegen/cpu/kernel_cost.h"

namespace rnnc {
namespace {

int64_t operations(Op op) {
  switch (op) {
    case Op::Div:
    case Op::Sqrt:
    case Op::Rsqrt:
      return 4;
    case Op::Sigmoid:
    case Op::Tanh:
    case Op::Exp:
    case Op::Log:
    case Op::Log1p:
    case Op::Expm1:
    case Op::Silu:
    case Op::Elu:
    case Op::Erf:
    case Op::Sin:
    case Op::Cos:
      return 20;
    case Op::Softplus:
    case Op::Gelu:
    case Op::Pow:
    case Op::Mod:
      return 50;
    default:
      return 1;
  }
}

}  // namespace

int64_t operations_per_vector(const Kernel& kernel) {
  int64_t total = 0;
  for (const Instruction& instruction : kernel.body) {
    total += instruction.kind == Instruction::Kind::Scalar ? operations(instruction.op) : 1;
  }
  return total;
}

size_t vectors_at_once(const Kernel& kernel) {
  const int64_t operations = operations_per_vector(kernel);
  return operations <= 16 ? 4 : operations <= 64 ? 2 : 1;
}

}  // namespace rnnc
