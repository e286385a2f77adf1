#include "passes/plan/once_stages.h"

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

}  // namespace rnnc
