// Scans, and what their tiles have left of totals: added up as rows (total_launches.cpp).
#include <vector>

#include "ir/base/arithmetic.h"
#include "runtime/cuda/launcher.h"
#include "runtime/cuda/start_kernel.h"

namespace rnnc::cuda {
namespace {

/// Totals of a scan that lie beside each other, in its partials and where they go.
struct TotalRun {
  int64_t column = 0;  // of the partials
  int64_t columns = 0;
  Access to;
};

/// From one of the totals on.
TotalRun total_run(const Plan& plan, const ScanLaunch& launch, size_t first) {
  const int64_t length = plan.kernels[launch.kernel].length;
  TotalRun run = {.column = static_cast<int64_t>(first) * length,
                  .to = launch.accesses[launch.totals[first]]};
  for (size_t i = first; i < launch.totals.size(); ++i) {
    const Access& to = launch.accesses[launch.totals[i]];
    if (to.buffer != run.to.buffer || to.column != run.to.column + run.columns) break;
    run.columns += length;
  }
  return run;
}

template <typename Visit>
void for_each_total_run(const Plan& plan, const ScanLaunch& launch, const Visit& visit) {
  const int64_t length = plan.kernels[launch.kernel].length;
  for (size_t i = 0; i < launch.totals.size();) {
    const TotalRun run = total_run(plan, launch, i);
    visit(run);
    i += static_cast<size_t>(run.columns / length);
  }
}

}  // namespace

Status Launcher::run(const ScanLaunch& launch, const Run& at, LaunchQueue& queue) {
  const auto& kernel = shape_of<CudaScanShape>(at.id);
  CudaRows rows = rows_at({.count = static_cast<uint32_t>(plan_.batch)}, at.position);
  auto count = static_cast<int32_t>(at.steps);
  parameters_[0] = &rows;
  parameters_[1] = &count;
  const std::vector<Access>& accesses = module().of(at.id).accesses;
  set_accesses(accesses, at.position);
  // What tiles exchange lies in the order in which steps run.
  const size_t exchange = launch.accesses.size();
  accesses_[exchange] = addresses_.at(accesses[exchange], at.first);
  auto start_step = static_cast<int32_t>(step_at(plan_, addresses_.steps(), at.position));
  parameters_[3] = &start_step;  // behind all accesses, which are one parameter
  const auto tiles = static_cast<unsigned>(cuda_scan_tiles(kernel, at.steps, plan_.batch));
  const LaunchShape shape{dim3(tiles), dim3(kernel.threads)};
  const Status started = start(kernel_of(at.id), shape, parameters_.data(), queue, "launching");
  return started && !launch.totals.empty() ? add_partials(launch, at, queue) : started;
}

Status Launcher::add_partials(const ScanLaunch& launch, const Run& at, LaunchQueue& queue) {
  const int64_t columns = std::ssize(launch.totals) * plan_.kernels[launch.kernel].length;
  const bool opens = opens_sum(at);
  Status status;
  for_each_total_run(plan_, launch, [&](const TotalRun& run) {
    const Access from = {.buffer = launch.partials, .column = run.column};
    if (!status) return;
    status = add_all_rows(kernels_[module().total],
                          {.from = addresses_.pointer(from, at.first),
                           .stride = columns,
                           .rows = ceil_div(at.steps, launch.tile_steps()) * plan_.batch,
                           .columns = run.columns,
                           .to = addresses_.pointer(run.to, {}),
                           .accumulate = !opens},
                          queue);
  });
  return status;
}

std::vector<Launcher::RowSums> Launcher::partial_sums() const {
  std::vector<RowSums> all;
  for_each_launch_of<ScanLaunch>(plan_, [&](LaunchId, const ScanLaunch& launch) {
    const int64_t rows = ceil_div(plan_.chunk, launch.tile_steps()) * plan_.batch;
    for_each_total_run(plan_, launch, [&](const TotalRun& run) {
      all.push_back({.rows = rows, .columns = run.columns});
    });
  });
  return all;
}

}  // namespace rnnc::cuda
