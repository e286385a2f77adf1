/// How launches.cpp gets from a launch to the file of its kind, without a list of kinds.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/plan/launches/launches.h"

namespace rnnc {

/// The functions of launches.h of one kind. Its file instantiates this (define_launch_kind.h).
template <typename L>
struct LaunchKind {
  static std::string text(const Plan& plan, const L& launch);
  static std::optional<Launch> take(PlanScanner& in);
  static std::vector<Touch> touches(const Plan& plan, const L& launch);
  static Status check(LaunchVerifier& in, const L& launch);
  static LaunchWork work(const Plan& plan, const L& launch, int64_t rows);
  static LaunchWords words(const LaunchNames& in, const L& launch);
  static std::vector<WeightPart> parts(const LaunchNames& in, const L& launch);
  static Where place();
  static int64_t rows(const Plan& plan, const L& launch);
  static std::vector<BufferId> sums(const L& launch);
  static bool makes_sum(const Plan& plan, const L& launch);
};

}  // namespace rnnc
