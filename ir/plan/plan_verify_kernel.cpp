#include <algorithm>

#include "ir/plan/plan_verify_parts.h"

namespace rnnc {
namespace {

/// The argument that a load or store goes through.
Status verify_argument(const Kernel& kernel, size_t i) {
  const Instruction& instruction = kernel.body[i];
  if (instruction.argument >= kernel.arguments.size()) {
    return fail("%{}: there is no argument a{}", i, instruction.argument);
  }
  const Kernel::Argument& argument = kernel.arguments[instruction.argument];
  if (argument.written != (instruction.kind == Instruction::Kind::Store)) {
    return fail("%{}: a{} goes the other way", i, instruction.argument);
  }
  if (argument.product && (argument.written || !argument.vector)) {
    return fail("%{}: a{} is no product's result", i, instruction.argument);
  }
  if (argument.vector != instruction.vector) {
    return fail("%{}: a{} is {}a vector", i, instruction.argument, argument.vector ? "" : "not ");
  }
  return {};
}

/// Arity and shape of what the instruction computes.
Status verify_operation(const Kernel& kernel, size_t i) {
  const Instruction& instruction = kernel.body[i];
  const auto is_vector = [&](uint32_t id) { return kernel.body[id].vector; };
  size_t arity = 0;
  if (instruction.kind == Instruction::Kind::Scalar) {
    if (!is_scalar(instruction.op)) return fail("%{} is no scalar op", i);
    arity = static_cast<size_t>(info(instruction.op).arity);
    if (std::ranges::any_of(instruction.operands, is_vector) != instruction.vector) {
      return fail("%{}: a scalar op is a vector if an operand is", i);
    }
  } else if (instruction.kind == Instruction::Kind::Reduce) {
    if (!is_reduction(instruction.op)) return fail("%{} is no reduction", i);
    if (instruction.vector) return fail("%{}: a reduction gives one value per row", i);
    arity = 1;
  } else if (instruction.kind == Instruction::Kind::Store) {
    arity = 1;
  }
  if (instruction.operands.size() != arity) {
    return fail("%{} takes {} operands, has {}", i, arity, instruction.operands.size());
  }
  if (instruction.kind == Instruction::Kind::Store && is_vector(instruction.operands[0]) &&
      !instruction.vector) {
    return fail("%{} stores a vector into one element", i);
  }
  return {};
}

}  // namespace

Status verify_kernel(const Kernel& kernel) {
  if (kernel.length < 1) return fail("rows of {} elements", kernel.length);
  std::vector<int> uses(kernel.arguments.size(), 0);
  for (size_t i = 0; i < kernel.body.size(); ++i) {
    const Instruction& instruction = kernel.body[i];
    for (uint32_t operand : instruction.operands) {
      if (operand >= i || kernel.body[operand].kind == Instruction::Kind::Store) {
        return fail("%{} takes %{}, which is no earlier value", i, operand);
      }
    }
    if (instruction.kind == Instruction::Kind::Load ||
        instruction.kind == Instruction::Kind::Store) {
      if (Status status = verify_argument(kernel, i); !status) return status;
      ++uses[instruction.argument];
    }
    if (Status status = verify_operation(kernel, i); !status) return status;
  }
  for (size_t i = 0; i < uses.size(); ++i) {
    if (uses[i] != 1) return fail("argument a{} is used {} times", i, uses[i]);
  }
  return {};
}

}  // namespace rnnc
