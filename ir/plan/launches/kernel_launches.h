/// What other kinds, and states, ask of the launches of kernels that they are made of.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/plan/launches/launches.h"

namespace rnnc {

// elementwise.cpp
std::string text_of(const Plan& plan, const ElementwiseLaunch& launch);
void parse(PlanScanner& in, ElementwiseLaunch& launch);
LaunchWords describe(const LaunchNames& in, const ElementwiseLaunch& launch);

// fused.cpp
inline constexpr std::string_view kFusedOpening = "fused";
std::string text_of(const Plan& plan, const FusedLaunch& launch, int indent = 4);
void parse(PlanScanner& in, FusedLaunch& launch);
void add_touches(const Plan& plan, const FusedLaunch& launch, std::vector<Touch>& touches);
Status verify(LaunchVerifier& in, const FusedLaunch& launch);
LaunchWork work_of(const Plan& plan, const FusedLaunch& launch, int64_t rows);
LaunchWords describe(const LaunchNames& in, const FusedLaunch& launch);

}  // namespace rnnc
