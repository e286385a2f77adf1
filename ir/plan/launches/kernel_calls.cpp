#include "ir/plan/launches/kernel_calls.h"

namespace rnnc {

void add_arguments(const Plan& plan, uint32_t kernel_id, const std::vector<Access>& accesses,
                   std::vector<Touch>& touches) {
  if (accesses.empty()) return;  // a state without this launch
  const Kernel& kernel = plan.kernels[kernel_id];
  for (const bool written : {false, true}) {
    for (size_t i = 0; i < accesses.size(); ++i) {
      const Kernel::Argument& argument = kernel.arguments[i];
      if (argument.product || argument.written != written) continue;
      touches.push_back({accesses[i], argument.vector ? kernel.length : 1, written});
    }
  }
}

double flops_of(const Kernel& kernel) {
  double flops = 0;
  for (const Instruction& instruction : kernel.body) {
    const bool scalar = instruction.kind == Instruction::Kind::Scalar;
    if (!scalar && instruction.kind != Instruction::Kind::Reduce) continue;
    const bool walks = instruction.vector || !scalar;
    flops += info(instruction.op).flops * (walks ? static_cast<double>(kernel.length) : 1);
  }
  return flops;
}

}  // namespace rnnc
