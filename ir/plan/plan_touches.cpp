#include "ir/plan/plan_touches.h"

#include <algorithm>

namespace rnnc {
namespace {

/// Of the arguments of a kernel that lie in memory.
void add_arguments(const Plan& plan, uint32_t kernel_id, const std::vector<Access>& accesses,
                   std::vector<Touch>& result) {
  if (accesses.empty()) return;  // a state without this launch
  const Kernel& kernel = plan.kernels[kernel_id];
  for (size_t i = 0; i < accesses.size(); ++i) {
    const Kernel::Argument& argument = kernel.arguments[i];
    if (argument.product) continue;
    result.push_back({accesses[i], argument.vector ? kernel.length : 1, argument.written});
  }
}

void add(const Plan& plan, const ElementwiseLaunch& launch, std::vector<Touch>& result) {
  add_arguments(plan, launch.kernel, launch.accesses, result);
}

void add(const Plan&, const GemmLaunch& launch, std::vector<Touch>& result) {
  const int64_t columns = launch.n * launch.blocks * launch.repeats;
  result.push_back({launch.left, launch.k * launch.blocks, false});
  Access weight = launch.weight;
  weight.stride = 0;
  result.push_back({weight, weight_rows(launch).span(), false});
  if (launch.accumulate) result.push_back({launch.out, columns, false});
  result.push_back({launch.out, columns, true});
}

void add(const Plan&, const CopyLaunch& launch, std::vector<Touch>& result) {
  const int64_t count = launch.rows * launch.columns;
  result.push_back({launch.source, count, false});
  result.push_back({launch.target, count, true});
}

void add(const Plan&, const ReverseLaunch& launch, std::vector<Touch>& result) {
  result.push_back({launch.source, launch.width, false});
  result.push_back({launch.target, launch.width, true});
}

void add(const Plan&, const MaskLaunch& launch, std::vector<Touch>& result) {
  result.push_back({launch.target, 1, true});
}

void add(const Plan&, const SplitLaunch& launch, std::vector<Touch>& result) {
  result.push_back({launch.source, launch.length, false});
  result.push_back({launch.target, kSplitParts * launch.part, true});
}

void add(const Plan& plan, const FusedLaunch& launch, std::vector<Touch>& result) {
  const int64_t length = plan.kernels[launch.kernel].length;
  for (const FusedLaunch::Product& product : launch.products) {
    result.push_back({product.left, product.k * product.blocks, false});
    result.push_back({product.weight, product.members * length * product.k, false});
  }
  add_arguments(plan, launch.kernel, launch.accesses, result);
}

void add(const Plan& plan, const LoopLaunch& launch, std::vector<Touch>& result) {
  add_arguments(plan, launch.kernel, launch.accesses, result);
}

template <typename L>
size_t most_touches(const L& launch) {
  size_t most = 4;
  if constexpr (requires { launch.accesses; }) most += launch.accesses.size();
  if constexpr (requires { launch.products; }) most += 2 * launch.products.size();
  return most;
}

template <typename L>
std::vector<Touch> in_order(const Plan& plan, const L& launch) {
  std::vector<Touch> result;
  result.reserve(most_touches(launch));
  add(plan, launch, result);
  std::ranges::stable_partition(result, [](const Touch& touch) { return !touch.write; });
  return result;
}

std::vector<Touch> in_order(const Plan& plan, const RecurrenceLaunch& launch) {
  std::vector<Touch> result;
  for (const FusedLaunch& phase : launch.phases) {
    const std::vector<Touch> more = in_order(plan, phase);
    result.insert(result.end(), more.begin(), more.end());
  }
  if (launch.exchange != kNoBuffer) {
    const int64_t width = plan.buffers[launch.exchange].width;
    result.push_back({{.buffer = launch.exchange, .stride = width}, width, true});
  }
  if (launch.stream != kNoBuffer) {
    result.push_back({{.buffer = launch.stream}, plan.buffers[launch.stream].width, true});
  }
  return result;
}

}  // namespace

std::vector<Touch> touches(const Plan& plan, const Launch& launch) {
  return std::visit([&](const auto& one) { return in_order(plan, one); }, launch);
}

std::vector<Touch> touches(const Plan& plan, const ElementwiseLaunch& launch) {
  return in_order(plan, launch);
}

}  // namespace rnnc
