/// Runs a plan's kernels row by row, one instruction after the other, in host memory.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "tests/support/reference/plan_arrays.h"
#include "tests/support/reference/scan_tiles.h"

namespace rnnc {

class KernelRunner {
 public:
  /// A row of each argument that is a product.
  using ProductRows = std::map<uint32_t, std::vector<double>>;

  /// Both outlive this; `steps` are those of the call.
  KernelRunner(const Plan& plan, int64_t steps, PlanArrays& arrays)
      : plan_(plan), steps_(steps), arrays_(arrays) {}

  /// From now on these arguments are of the step before, zero at the first (ScanLaunch::earlier).
  void read_earlier(std::vector<uint32_t> arguments) { earlier_ = std::move(arguments); }
  /// From now on stores to these are added to what is there (ScanLaunch::totals).
  void add_up(std::vector<uint32_t> arguments) { totals_ = std::move(arguments); }

  void run(uint32_t kernel, const std::vector<Access>& accesses, const ProductRows& products,
           Position at, int64_t row);
  /// Of each instruction of a scan's kernel at a step, with these states and without stores.
  ScanStates scan_values(const ScanLaunch& launch, const ScanStates& states, Position at,
                         int64_t row);

 private:
  /// A kernel at a row.
  struct Run {
    const Kernel& kernel;
    const std::vector<Access>& accesses;
    Position at;
    int64_t row = 0;
    std::vector<uint32_t> loops = {};
    std::vector<uint32_t> around = {};             // by loop
    std::vector<std::vector<double>> values = {};  // by instruction, as they last were
    std::vector<std::map<int64_t, std::vector<double>>> elements = {};  // of loops: at each turn
    std::vector<int64_t> turns = {};  // of the loops that run, the outer one first
  };

  void run_part(Run& run, const ProductRows& products, uint32_t loop);
  void run_loop(Run& run, const ProductRows& products, uint32_t loop);
  static int64_t turn_of(const Run& run, uint32_t user, uint32_t loop);
  static int64_t element_of(const Run& run, uint32_t i);
  static void take(Run& run, uint32_t i, uint32_t operand);
  void run_instruction(Run& run, uint32_t i);
  std::vector<double> value_of(const Kernel& kernel, const Instruction& instruction,
                               const Access& access, const std::vector<std::vector<double>>& values,
                               Position at, int64_t row);
  double round_compute(double value) const;

  const Plan& plan_;
  int64_t steps_ = 0;
  PlanArrays& arrays_;
  std::vector<uint32_t> earlier_;
  std::vector<uint32_t> totals_;
};

}  // namespace rnnc
