#include "ir/plan/launches/launches.h"

#include <algorithm>

namespace rnnc {
namespace {

/// The launch, if it is one of kind `L`.
template <typename L>
bool take(PlanScanner& in, std::optional<Launch>& launch) {
  constexpr bool kElementwise = kOpening<L>.empty();
  if (kElementwise ? !in.sees_id('k') : !in.take(kOpening<L>)) return false;
  L one;
  parse(in, one);
  launch = std::move(one);
  return true;
}

template <typename... Kinds>
std::optional<Launch> take_any(PlanScanner& in, const std::variant<Kinds...>*) {
  std::optional<Launch> launch;
  (take<Kinds>(in, launch) || ...);
  return launch;
}

template <typename L>
size_t most_touches(const L& launch) {
  size_t most = 4;
  if constexpr (requires { launch.accesses; }) most += launch.accesses.size();
  if constexpr (requires { launch.products; }) most += 2 * launch.products.size();
  return most;
}

template <typename L>
std::vector<Touch> touches_of(const Plan& plan, const L& launch) {
  std::vector<Touch> result;
  result.reserve(most_touches(launch));
  add_touches(plan, launch, result);
  return result;
}

}  // namespace

std::string launch_text(const Plan& plan, const Launch& launch) {
  return std::visit(
      [&]<typename L>(const L& one) {
        const std::string text = text_of(plan, one);
        return kOpening<L>.empty() ? text : fmt::format("{} {}", kOpening<L>, text);
      },
      launch);
}

std::optional<Launch> parse_launch(PlanScanner& in) {
  return take_any(in, static_cast<const Launch*>(nullptr));
}

std::vector<Touch> touches(const Plan& plan, const Launch& launch) {
  return std::visit([&](const auto& one) { return touches_of(plan, one); }, launch);
}

std::vector<Touch> touches(const Plan& plan, const ElementwiseLaunch& launch) {
  return touches_of(plan, launch);
}

Status verify(LaunchVerifier& in, const Launch& launch) {
  return std::visit([&](const auto& one) { return verify(in, one); }, launch);
}

LaunchWork work_of(const Plan& plan, const Launch& launch, int64_t rows) {
  return std::visit([&](const auto& one) { return work_of(plan, one, rows); }, launch);
}

LaunchWords describe(const LaunchNames& in, const Launch& launch) {
  return std::visit([&](const auto& one) { return describe(in, one); }, launch);
}

std::vector<WeightPart> weight_parts(const LaunchNames& in, const Launch& launch) {
  return std::visit([&](const auto& one) { return weight_parts(in, one); }, launch);
}

Where place_of(const Launch& launch) {
  return std::visit([]<typename L>(const L&) { return kPlace<L>; }, launch);
}

bool goes_through_steps(const Launch& launch) {
  return place_of(launch) != Where::Sequence;
}

int64_t once_rows(const Plan& plan, const Launch& launch) {
  return std::visit([&](const auto& one) { return once_rows(plan, one); }, launch);
}

BufferId exchange_of(const Launch& launch) {
  return std::visit(
      [](const auto& one) {
        if constexpr (requires { one.exchange; }) return one.exchange;
        return kNoBuffer;
      },
      launch);
}

BufferId sum_of(const Launch& launch) {
  return std::visit([](const auto& one) { return sum_of(one); }, launch);
}

bool makes_whole_sum(const Plan& plan, const Launch& launch) {
  const BufferId sum = sum_of(launch);
  if (sum == kNoBuffer) return false;
  int64_t launches = 0;
  for (const Stage& stage : plan.stages) {
    launches += std::ranges::count(stage.launches, sum, [](const Launch& l) { return sum_of(l); });
  }
  return launches == 1 && std::visit([&](const auto& one) { return fills_sum(plan, one); }, launch);
}

}  // namespace rnnc
