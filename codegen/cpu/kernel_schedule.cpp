// Algorithm:
// 1. Walk the instructions in order. Loads and constants are ready in traversal 0, others in that
//    of their last operand. A reduction is ready one traversal after its operand; a variance two
//    after: the first gathers the mean, the second the squares of the differences from it.
// 2. Reductions of the same operand and kind are gathered once.
// 3. A computed vector value that is read in a traversal after its own gets a scratch slot.
#include "codegen/cpu/kernel_schedule.h"

#include <algorithm>

#include "ir/base/arithmetic.h"

namespace rnnc {
namespace {

using Kind = Instruction::Kind;

uint32_t add_reduction(KernelSchedule& schedule, const RowReduction& wanted) {
  for (uint32_t i = 0; i < schedule.reductions.size(); ++i) {
    const RowReduction& known = schedule.reductions[i];
    if (known.kind == wanted.kind && known.operand == wanted.operand) return i;
  }
  schedule.reductions.push_back(wanted);
  schedule.traversals = std::max(schedule.traversals, wanted.traversal + 2);
  return static_cast<uint32_t>(schedule.reductions.size() - 1);
}

/// The reduction that gives `instruction`, a Reduce, its value.
uint32_t lower_reduction(KernelSchedule& schedule, const Instruction& instruction) {
  const uint32_t operand = instruction.operands[0];
  const uint32_t traversal = schedule.traversal[operand];
  switch (instruction.op) {
    case Op::ReduceMin:
      return add_reduction(schedule, {RowReduction::Kind::Min, operand, 0, traversal});
    case Op::ReduceMax:
      return add_reduction(schedule, {RowReduction::Kind::Max, operand, 0, traversal});
    default: {
      const uint32_t sum =
          add_reduction(schedule, {RowReduction::Kind::Sum, operand, 0, traversal});
      if (instruction.op != Op::Var) return sum;
      return add_reduction(schedule,
                           {RowReduction::Kind::SumOfSquares, operand, sum, traversal + 1});
    }
  }
}

void keep_for_later(KernelSchedule& schedule, const Kernel& kernel, uint32_t value,
                    uint32_t traversal) {
  const Instruction& instruction = kernel.body[value];
  if (!instruction.vector || instruction.kind != Kind::Scalar) return;
  if (traversal <= schedule.traversal[value]) return;
  if (schedule.scratch_slot[value] == KernelSchedule::kNone) {
    schedule.scratch_slot[value] = schedule.scratch_slots++;
  }
}

}  // namespace

KernelSchedule schedule_kernel(const Kernel& kernel) {
  KernelSchedule schedule;
  const size_t count = kernel.body.size();
  schedule.traversal.assign(count, 0);
  schedule.reduction.assign(count, KernelSchedule::kNone);
  schedule.scratch_slot.assign(count, KernelSchedule::kNone);
  if (!kernel.loops.empty()) return schedule;  // they run in order
  for (uint32_t i = 0; i < count; ++i) {
    const Instruction& instruction = kernel.body[i];
    if (instruction.kind == Kind::Reduce) {
      schedule.reduction[i] = lower_reduction(schedule, instruction);
      schedule.traversal[i] = schedule.reductions[schedule.reduction[i]].traversal + 1;
      continue;
    }
    for (const uint32_t operand : instruction.operands) {
      schedule.traversal[i] = std::max(schedule.traversal[i], schedule.traversal[operand]);
    }
  }
  for (uint32_t i = 0; i < count; ++i) {
    if (kernel.body[i].kind == Kind::Reduce) continue;
    for (const uint32_t operand : kernel.body[i].operands) {
      keep_for_later(schedule, kernel, operand, schedule.traversal[i]);
    }
  }
  for (const RowReduction& reduction : schedule.reductions) {
    keep_for_later(schedule, kernel, reduction.operand, reduction.traversal);
  }
  return schedule;
}

int64_t scratch_slot_elements(const Kernel& kernel) {
  constexpr int64_t kLongestVector = 16;
  return round_up(kernel.length, kLongestVector);
}

}  // namespace rnnc
