/// A kernel whose families of instructions are loops.
#pragma once

#include <optional>
#include <vector>

#include "passes/reroll/kernel_families.h"

namespace rnnc {

struct RerolledKernel {
  Kernel kernel;
  /// By argument: the one of the kernel as it was that it is, or that its first element is.
  std::vector<uint32_t> arguments;
  /// By instruction: one like it of the kernel as it was; of what loops carry, their last values
  /// and numbers that they begin with, none.
  std::vector<std::optional<uint32_t>> origins;
  std::vector<LoopCarry> carries;
};

RerolledKernel reroll_kernel(const Kernel& kernel, const std::vector<LoopCarry>& carries,
                             const KernelFamilies& families);

}  // namespace rnnc
