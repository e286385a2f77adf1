/// What launches store of the rows that a total adds up.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "ir/plan/plan.h"

namespace rnnc {

/// A kernel as a launch calls it.
struct KernelCall {
  std::reference_wrapper<const Kernel> kernel;
  std::reference_wrapper<const std::vector<Access>> accesses;
};

/// Elements of a total that one argument of a call stores.
struct StoredPart {
  size_t call = 0;
  uint32_t argument = 0;
  int64_t column = 0;  // of the total
  int64_t length = 0;
};

/// In the order of their columns; none if the total is no sum of rows, or of others than these
/// calls store, or of earlier steps'.
std::vector<StoredPart> stored_parts(const TotalLaunch& total, std::span<const KernelCall> calls);

/// The instruction whose value the kernel stores in an argument outside of its loops.
uint32_t stored_value(const Kernel& kernel, uint32_t argument);

}  // namespace rnnc
