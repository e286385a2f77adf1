#include "codegen/cpu/kernel_cost.h"

#include <algorithm>
#include <optional>

#include "ir/base/arithmetic.h"
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
    case Op::Mod:
      return 20;
    case Op::Softplus:
    case Op::Gelu:
    case Op::Pow:
      return 50;
    default:
      return 1;
  }
}

int64_t operations(const Instruction& instruction) {
  return instruction.kind == Instruction::Kind::Scalar ? operations(instruction.op) : 1;
}

/// In the code, which has those of loops once.
int64_t written_operations(const Kernel& kernel) {
  int64_t total = 0;
  for (const Instruction& instruction : kernel.body) total += operations(instruction);
  return total;
}

/// Cycles, roughly, until the result is there.
int64_t latency(const Instruction& instruction) {
  const int64_t count = operations(instruction);
  return instruction.kind == Instruction::Kind::Scalar ? std::max<int64_t>(4, count * 5 / 2) : 0;
}

bool has(const std::vector<LoopCarry>& carries, uint32_t LoopCarry::* end, uint32_t argument) {
  return std::ranges::find(carries, argument, end) != carries.end();
}

/// Cycles, roughly, from what a step takes from the one before it to what it hands on.
int64_t step_latency(const Kernel& kernel, const std::vector<LoopCarry>& carries) {
  std::vector<std::optional<int64_t>> ready(kernel.body.size());  // none: not of the step before
  int64_t longest = 0;
  for (size_t i = 0; i < kernel.body.size(); ++i) {
    const Instruction& instruction = kernel.body[i];
    const bool is_load = instruction.kind == Instruction::Kind::Load;
    if (is_load && has(carries, &LoopCarry::load, instruction.argument)) {
      ready[i] = 0;
    }
    for (const uint32_t operand : instruction.operands) {
      if (operand < i && ready[operand]) {
        ready[i] = std::max(ready[i].value_or(0), *ready[operand] + latency(instruction));
      }
    }
    const bool is_store = instruction.kind == Instruction::Kind::Store;
    if (is_store && has(carries, &LoopCarry::store, instruction.argument)) {
      longest = std::max(longest, ready[i].value_or(0));
    }
  }
  return longest;
}

}  // namespace

int64_t operations_per_vector(const Kernel& kernel) {
  const std::vector<int64_t> runs = runs_of(kernel);
  int64_t total = 0;
  for (size_t i = 0; i < kernel.body.size(); ++i) total += runs[i] * operations(kernel.body[i]);
  return total;
}

size_t vectors_at_once(const Kernel& kernel) {
  const int64_t operations = written_operations(kernel);
  return operations <= 16 ? 4 : operations <= 64 ? 2 : 1;
}

size_t vectors_at_once(const Kernel& kernel, const std::vector<LoopCarry>& carries) {
  const size_t least = vectors_at_once(kernel);
  if (!kernel.loops.empty()) return least;
  // Two operations begin in a cycle. More than four vectors have too many values for the registers.
  const int64_t cycles = ceil_div(written_operations(kernel), 2);
  const int64_t waits = ceil_div(step_latency(kernel, carries), std::max<int64_t>(cycles, 1));
  return std::max<size_t>(least, waits > 2 ? 4 : waits > 1 ? 2 : 1);
}

}  // namespace rnnc
