#include "tests/gpu/gpu_plans.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <functional>

#include "ir/plan/scan_values.h"
#include "passes/tile/recurrence_tiles.h"
#include "tests/support/reference/plan_run.h"

namespace rnnc::test {
namespace {

bool reads_pad(const Plan& plan, const TotalLaunch& total) {
  if (total.right.buffer == kNoBuffer) return false;
  const Buffer& right = plan.buffers[total.right.buffer];
  return total.right.column + total.n > right.width - right.pad;
}

std::unique_ptr<Backend> make_backend(DType dtype, bool graphs, KernelCache& cache) {
  Result<std::unique_ptr<Backend>> backend = make_cuda_backend(
      {.dtype = dtype, .device = {.kind = Device::Kind::cuda, .index = 0}, .graphs = graphs},
      cache);
  RNNC_CHECK(backend.has_value(), "{}", backend.error().message);
  return *std::move(backend);
}

}  // namespace

GpuPlans::GpuPlans(DType dtype, bool graphs)
    : cache_(std::filesystem::path(testing::TempDir()) /
             fmt::format("rnnc-gpu-gradients-{}", ::getpid())),
      backend_(make_backend(dtype, graphs, cache_)) {}

Result<InterpreterResult> GpuPlans::operator()(const Plan& plan, const InterpreterArgs& args,
                                               const SequenceArgs& sequences) {
  for (const Stage& stage : plan.stages) {
    if (is_resident(stage)) {
      const auto& recurrence = std::get<RecurrenceLaunch>(stage.launches[0]);
      ++recurrences[strategy_of(recurrence)];
      const auto is_of_now = [](const FusedLaunch& phase) { return phase.earlier.empty(); };
      if (!std::ranges::all_of(recurrence.phases, is_of_now)) ++recurrences_of_earlier_steps;
      if (plan.descending) ++descending_recurrences;
    }
    for (const Launch& launch : stage.launches) {
      const auto* total = std::get_if<TotalLaunch>(&launch);
      if (total != nullptr) ++(total->right.buffer == kNoBuffer ? sums : outer_products);
      if (total != nullptr && total->in_parts) ++totals_in_parts;
      if (total != nullptr && total->turned) ++turned_totals;
      if (total != nullptr && total->earlier) ++earlier_totals;
      if (total != nullptr && reads_pad(plan, *total)) ++padded_totals;
      const auto* scan = std::get_if<ScanLaunch>(&launch);
      if (scan != nullptr && !scan->earlier.empty()) ++scans_of_earlier_steps;
      if (scan != nullptr && scan->warps < kWarpsOfManyChannels) ++scans_of_few_warps;
      if (scan != nullptr) scan_totals += static_cast<int>(scan->totals.size());
    }
  }
  return run_plan(*backend_, plan, args, sequences);
}

void check(const Graph& graph, HalfCheck check, GpuPlans& gpu) {
  check.machine = gpu.machine();
  check_halves(graph, check, std::ref(gpu));
}

}  // namespace rnnc::test
