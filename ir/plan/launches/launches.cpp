#include "ir/plan/launches/launches.h"

#include <algorithm>

#include "ir/plan/launches/launch_kind.h"

namespace rnnc {
namespace {

template <typename... Kinds>
std::optional<Launch> take_any(PlanScanner& in, const std::variant<Kinds...>*) {
  std::optional<Launch> launch;
  ((launch = LaunchKind<Kinds>::take(in)) || ...);
  return launch;
}

}  // namespace

std::string launch_text(const Plan& plan, const Launch& launch) {
  return std::visit([&]<typename L>(const L& one) { return LaunchKind<L>::text(plan, one); },
                    launch);
}

std::optional<Launch> parse_launch(PlanScanner& in) {
  return take_any(in, static_cast<const Launch*>(nullptr));
}

std::vector<Touch> touches(const Plan& plan, const Launch& launch) {
  return std::visit([&]<typename L>(const L& one) { return LaunchKind<L>::touches(plan, one); },
                    launch);
}

std::vector<Touch> touches(const Plan& plan, const ElementwiseLaunch& launch) {
  return LaunchKind<ElementwiseLaunch>::touches(plan, launch);
}

Status verify(LaunchVerifier& in, const Launch& launch) {
  return std::visit([&]<typename L>(const L& one) { return LaunchKind<L>::check(in, one); },
                    launch);
}

LaunchWork work_of(const Plan& plan, const Launch& launch, int64_t rows) {
  return std::visit([&]<typename L>(const L& one) { return LaunchKind<L>::work(plan, one, rows); },
                    launch);
}

LaunchWords describe(const LaunchNames& in, const Launch& launch) {
  return std::visit([&]<typename L>(const L& one) { return LaunchKind<L>::words(in, one); },
                    launch);
}

std::vector<WeightPart> weight_parts(const LaunchNames& in, const Launch& launch) {
  return std::visit([&]<typename L>(const L& one) { return LaunchKind<L>::parts(in, one); },
                    launch);
}

Where place_of(const Launch& launch) {
  return std::visit([]<typename L>(const L&) { return LaunchKind<L>::place(); }, launch);
}

bool goes_through_steps(const Launch& launch) {
  return place_of(launch) != Where::Sequence;
}

int64_t once_rows(const Plan& plan, const Launch& launch) {
  return std::visit([&]<typename L>(const L& one) { return LaunchKind<L>::rows(plan, one); },
                    launch);
}

BufferId exchange_of(const Launch& launch) {
  return std::visit(
      [](const auto& one) {
        if constexpr (requires { one.exchange; }) return one.exchange;
        return kNoBuffer;
      },
      launch);
}

std::vector<BufferId> sums_of(const Launch& launch) {
  return std::visit([]<typename L>(const L& one) { return LaunchKind<L>::sums(one); }, launch);
}

bool makes_whole_sum(const Plan& plan, const Launch& launch) {
  const std::vector<BufferId> sums = sums_of(launch);
  if (sums.size() != 1) return false;
  int64_t launches = 0;
  for (const Stage& stage : plan.stages) {
    launches +=
        std::ranges::count(stage.launches, sums, [](const Launch& l) { return sums_of(l); });
  }
  const auto makes = [&]<typename L>(const L& one) { return LaunchKind<L>::makes_sum(plan, one); };
  return launches == 1 && std::visit(makes, launch);
}

}  // namespace rnnc
