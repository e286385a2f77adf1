#include "ir/persistent/recurrence_partials.h"

#include <algorithm>

#include "ir/plan/kernel_facts.h"

namespace rnnc {
namespace {

RecurrencePartial::Kind kind_of(Op op) {
  switch (op) {
    case Op::ReduceMin:
      return RecurrencePartial::Kind::Least;
    case Op::ReduceMax:
      return RecurrencePartial::Kind::Greatest;
    default:
      return RecurrencePartial::Kind::Moments;
  }
}

}  // namespace

RecurrencePartial partial_of(const Kernel& kernel, uint32_t reduction, int level) {
  const Instruction& instruction = kernel.body[reduction];
  return {kind_of(instruction.op), instruction.operands[0], level};
}

std::vector<RecurrencePartial> partials_of(const Kernel& kernel) {
  const std::vector<int> levels = reduction_levels(kernel);
  std::vector<RecurrencePartial> partials;
  for (uint32_t i = 0; i < kernel.body.size(); ++i) {
    if (kernel.body[i].kind != Instruction::Kind::Reduce) continue;
    const RecurrencePartial partial = partial_of(kernel, i, levels[i]);
    if (std::ranges::find(partials, partial) == partials.end()) partials.push_back(partial);
  }
  std::ranges::stable_sort(partials, {}, &RecurrencePartial::level);
  return partials;
}

}  // namespace rnnc
