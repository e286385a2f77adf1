/// One scan launch's kernel as a CUDA C++ function: what device/scan.cuh is run with.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "codegen/cuda/device/kernel_text.h"
#include "ir/plan/plan.h"

namespace rnnc {

/// What launches that share a kernel have in common, beside the elementwise kernel.
struct ScanTraits {
  std::vector<LoopCarry> carries;
  std::vector<ScanRound> rounds;
  int64_t warps = 1;
  int64_t steps_of_warp = 1;
  int items = 1;                 // neighbouring elements per thread
  int64_t blocks = 1;            // that a multiprocessor has registers for
  int group = 1;                 // of tiles, of which the first hands on states
  std::vector<bool> invariant;   // by argument: the same at every step
  std::vector<bool> earlier;     // by argument: read a step earlier in the sequence
  std::vector<uint32_t> totals;  // arguments that are added up
  std::vector<bool> kept;        // by instruction (ir/plan/scan_values.h)
  std::vector<int> made_in;      // by instruction: likewise, the round; none: -1
  std::vector<int64_t> bytes;    // by argument: from one step to the next
  std::vector<int64_t> strides;  // by argument: elements from one row to the next
  int64_t rows = 1;              // of a step
  bool aligned = true;           // items of every array are surely aligned to their size together
  Precision precision = Precision::Whole;
  bool descending = false;
  friend bool operator==(const ScanTraits&, const ScanTraits&) = default;
};

/// The function of that name, and before it the struct that it works with, to stand behind
/// scan.cuh.
std::string emit_scan_kernel(const Kernel& kernel, const ScanTraits& traits, std::string_view name);

}  // namespace rnnc
