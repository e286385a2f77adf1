/// Who wants to see what each pass leaves.
#pragma once

#include <chrono>
#include <functional>
#include <string_view>

#include "ir/plan/plan.h"

namespace rnnc {

/// Sees what each step of the way from Graph to Plan leaves: `graph` or `plan` is null. `name` is a
/// pass's (passes/options/pass_set.h) or a lowering's; passes that ran to no effect are seen too.
struct PassObserver {
  std::function<void(std::string_view name, double seconds, const Graph* graph, const Plan* plan)>
      after;
};

/// What `pass()` returns, its time taken. `graph` or `plan`, the other null, is what it works on.
template <typename Pass>
auto observe(const PassObserver& observer, std::string_view name, const Graph* graph,
             const Plan* plan, const Pass& pass) {
  const auto start = std::chrono::steady_clock::now();
  auto result = pass();
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
  if (observer.after) observer.after(name, time.count(), graph, plan);
  return result;
}

}  // namespace rnnc
