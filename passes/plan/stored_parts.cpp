#include "passes/plan/stored_parts.h"

#include <algorithm>

namespace rnnc {

std::vector<StoredPart> stored_parts(const TotalLaunch& total, std::span<const KernelCall> calls) {
  if (total.right.buffer != kNoBuffer || total.left.delay != 0) return {};
  std::vector<StoredPart> parts;
  for (size_t c = 0; c < calls.size(); ++c) {
    const Kernel& kernel = calls[c].kernel;
    for (uint32_t i = 0; i < kernel.arguments.size(); ++i) {
      const Access& access = calls[c].accesses.get()[i];
      const int64_t column = access.column - total.left.column;
      const bool is_part = kernel.arguments[i].written && access.buffer == total.left.buffer &&
                           column >= 0 && column < total.m;
      if (!is_part) continue;
      if (!kernel.arguments[i].vector || access.delay != 0) return {};
      parts.push_back({c, i, column, kernel.length});
    }
  }
  std::ranges::sort(parts, {}, &StoredPart::column);
  int64_t end = 0;
  for (const StoredPart& part : parts) {
    if (part.column != end) return {};
    end += part.length;
  }
  return end == total.m ? parts : std::vector<StoredPart>();
}

uint32_t stored_value(const Kernel& kernel, uint32_t argument) {
  const auto store = std::ranges::find_if(kernel.body, [&](const Instruction& instruction) {
    return instruction.kind == Instruction::Kind::Store && instruction.argument == argument;
  });
  RNNC_CHECK(store != kernel.body.end(), "a{} is stored in a loop", argument);
  return store->operands[0];
}

}  // namespace rnnc
