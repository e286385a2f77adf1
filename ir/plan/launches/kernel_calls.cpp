#include "ir/plan/launches/kernel_calls.h"

#include "ir/plan/kernel_facts.h"

namespace rnnc {

void add_arguments(const Plan& plan, uint32_t kernel_id, const std::vector<Access>& accesses,
                   std::vector<Touch>& touches) {
  if (accesses.empty()) return;  // a state without this launch
  const Kernel& kernel = plan.kernels[kernel_id];
  for (const bool written : {false, true}) {
    for (size_t i = 0; i < accesses.size(); ++i) {
      const Kernel::Argument& argument = kernel.arguments[i];
      if (argument.product || argument.written != written) continue;
      touches.push_back({accesses[i], kernel.elements(argument), written});
    }
  }
}

double flops_of(const Kernel& kernel) {
  double flops = 0;
  const std::vector<int64_t> runs = runs_of(kernel);
  for (size_t i = 0; i < kernel.body.size(); ++i) {
    const Instruction& instruction = kernel.body[i];
    const bool scalar = instruction.kind == Instruction::Kind::Scalar;
    if (!scalar && instruction.kind != Instruction::Kind::Reduce) continue;
    const bool walks = instruction.vector || !scalar;
    const int64_t elements = runs[i] * (walks ? kernel.length : 1);
    flops += info(instruction.op).flops * static_cast<double>(elements);
  }
  return flops;
}

Status check_earlier(const Plan& plan, uint32_t kernel, const std::vector<Access>& accesses,
                     const std::vector<uint32_t>& earlier) {
  for (const uint32_t i : earlier) {
    const Buffer& buffer = plan.buffers[accesses[i].buffer];
    if (buffer.extent != Extent::Steps || buffer.placement != Placement::Caller ||
        plan.kernels[kernel].arguments[i].written || accesses[i].delay > 0) {
      return fail("a{} a step earlier is no sequence of the caller's", i);
    }
  }
  return {};
}

void describe_earlier(const LaunchNames& in, const std::vector<Access>& accesses,
                      const std::vector<uint32_t>& earlier, LaunchWords& words) {
  for (const uint32_t i : earlier) {
    words.notes.push_back({"fused", fmt::format("reads {} of the step before where it lies",
                                                in.value(accesses[i], 1))});
  }
}

}  // namespace rnnc
