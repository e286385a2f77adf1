#include "passes/lower/once_stages.h"

#include <algorithm>

namespace rnnc {

void append_once(Plan& plan, std::span<const Launch> launches) {
  if (launches.empty()) return;
  const auto is_once = [](const Stage& stage) { return stage.domain == Domain::Once; };
  auto end = std::ranges::find_if_not(plan.stages, is_once);
  if (end == plan.stages.begin()) {
    end = plan.stages.insert(end, Stage{.domain = Domain::Once}) + 1;
  }
  std::vector<Launch>& last = (end - 1)->launches;
  last.insert(last.end(), launches.begin(), launches.end());
}

Access turn_weight(Plan& plan, const GemmLaunch& gemm, std::vector<Launch>& once) {
  const int64_t matrices = gemm.blocks * gemm.repeats;
  plan.buffers.push_back({.name = plan.buffers[gemm.weight.buffer].name,
                          .dtype = plan.dtype,
                          .placement = Placement::Program,
                          .extent = Extent::Invariant,
                          .width = matrices * gemm.n * gemm.k});
  const Access turned = {.buffer = static_cast<BufferId>(plan.buffers.size() - 1)};
  for (int64_t matrix = 0; matrix < matrices; ++matrix) {
    CopyLaunch copy{.source = gemm.weight,
                    .target = turned,
                    .rows = gemm.k,
                    .columns = gemm.n,
                    .transposed = true};
    copy.source.column += matrix * gemm.n * gemm.k;
    copy.target.column += matrix * gemm.n * gemm.k;
    once.emplace_back(copy);
  }
  return turned;
}

}  // namespace rnnc
