/// Which launches of a plan go through their steps within generated code.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/plan/plan.h"

namespace rnnc {

/// A LoopLaunch or ScanLaunch, alone in its stage. Points into the plan.
struct CpuLoop {
  size_t stage = 0;
  const Kernel* kernel = nullptr;
  const std::vector<Access>* accesses = nullptr;
  const std::vector<LoopCarry>* carries = nullptr;
  const std::vector<ScanRound>* rounds = nullptr;  // null: no scan
  const std::vector<uint32_t>* totals = nullptr;   // likewise
  std::vector<bool> moves;                         // per argument: whether it changes with the step
};

/// In the order of their stages. Not among them is a loop that has a value for all elements of a row
/// to carry or to store: each column would have to wait for the first.
std::vector<CpuLoop> cpu_loops(const Plan& plan);

/// Which kernels run in other launches too, or instead.
std::vector<bool> plain_kernels(const Plan& plan);

/// Symbol of the function of a stage's loop, and of what its rounds need if it is a scan
/// (CpuScanRound).
std::string loop_name(size_t stage);
std::string round_map_name(size_t stage, size_t round);
std::string round_states_name(size_t stage, size_t round);

}  // namespace rnnc
