#include "ir/kernel_facts.h"

#include <algorithm>

namespace rnnc {

bool has_reductions(const Kernel& kernel) {
  return std::ranges::any_of(kernel.body, [](const Instruction& instruction) {
    return instruction.kind == Instruction::Kind::Reduce;
  });
}

}  // namespace rnnc
