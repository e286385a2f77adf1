/// Builds one elementwise launch: the kernel's body and the accesses of its arguments together.
#pragma once

#include <map>
#include <tuple>

#include "ir/plan/plan.h"

namespace rnnc {

/// Adds the kernel to the plan and names it, or finds the one that is the same.
uint32_t add_kernel(Plan& plan, Kernel kernel);

/// Values are indices of instructions. Equal loads and constants are made once.
class KernelBuilder {
 public:
  KernelBuilder(Plan& plan, int64_t length) : plan_(plan) { kernel_.length = length; }

  uint32_t load(const Access& access, bool vector);
  /// A result of the launch's products: as an argument, whose number it gives; and loaded.
  uint32_t add_result();
  uint32_t load_result(uint32_t argument);
  uint32_t constant(double value);
  uint32_t scalar(Op op, std::vector<uint32_t> operands);
  /// Over the row, also where all its elements are one value per row.
  uint32_t reduce(Op op, uint32_t operand);
  void store(const Access& access, bool vector, uint32_t value);

  int64_t length() const { return kernel_.length; }
  bool stores() const { return stores_; }

  /// Adds the kernel to the plan, or finds the one that is the same.
  ElementwiseLaunch finish(int64_t once_rows = 1);

 private:
  uint32_t add(Instruction instruction);
  uint32_t reduce_equal(Op op, uint32_t operand);
  uint32_t add_argument(const Access& access, bool vector, bool written);

  Plan& plan_;
  Kernel kernel_;
  bool stores_ = false;
  std::vector<Access> accesses_;
  std::map<std::tuple<BufferId, uint32_t, int64_t, int64_t, bool>, uint32_t> loads_;
  std::map<uint64_t, uint32_t> constants_;  // by their bits
};

}  // namespace rnnc
