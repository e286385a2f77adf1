#include "codegen/cpu/kernel_cost.h"

#include "ir/plan/kernel_facts.h"

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

int64_t operations(const Instruction& instruction) {
  return instruction.kind == Instruction::Kind::Scalar ? operations(instruction.op) : 1;
}

}  // namespace

int64_t operations_per_vector(const Kernel& kernel) {
  const std::vector<int64_t> runs = runs_of(kernel);
  int64_t total = 0;
  for (size_t i = 0; i < kernel.body.size(); ++i) total += runs[i] * operations(kernel.body[i]);
  return total;
}

size_t vectors_at_once(const Kernel& kernel) {
  int64_t operations = 0;  // with those of loops once, as the code has them
  for (const Instruction& instruction : kernel.body) operations += rnnc::operations(instruction);
  return operations <= 16 ? 4 : operations <= 64 ? 2 : 1;
}

}  // namespace rnnc
