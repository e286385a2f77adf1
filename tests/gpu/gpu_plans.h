/// Plans as they are, run on the GPU.
#pragma once

#include <map>
#include <memory>

#include "passes/options/strategy.h"
#include "runtime/backend/backend.h"
#include "runtime/backend/kernel_cache.h"
#include "tests/support/gradients/half_check.h"

namespace rnnc::test {

/// Runs plans on the GPU, and counts what is in them.
class GpuPlans {
 public:
  explicit GpuPlans(DType dtype, bool graphs = true);

  Machine machine() const { return backend_->machine(); }

  Result<InterpreterResult> operator()(const Plan& plan, const InterpreterArgs& args,
                                       const SequenceArgs& sequences);

  int descending_recurrences = 0;
  int sums = 0;
  int outer_products = 0;
  int totals_in_parts = 0;
  int turned_totals = 0;
  int earlier_totals = 0;
  int recurrences_of_earlier_steps = 0;
  int padded_totals = 0;
  int scans_of_earlier_steps = 0;
  int scans_of_few_warps = 0;
  int scan_totals = 0;
  std::map<Strategy, int> recurrences = {};  // by strategy

 private:
  KernelCache cache_;
  std::unique_ptr<Backend> backend_;
};

/// On its machine.
void check(const Graph& graph, HalfCheck check, GpuPlans& gpu);

}  // namespace rnnc::test
