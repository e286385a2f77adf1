/// The plan that a device takes. Only resident recurrences may be refused (Executable::refusal):
/// then other tiles are tried, and at last, if no strategy was asked for, the plan is made without.
/// Others are tried also where there is a doubt (Executable::doubt), and the first of these plans is
/// taken if none is better.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "runtime/program/planner.h"

namespace rnnc {

/// What a device says of a plan; see Executable.
struct Verdict {
  std::string refusal = {};
  std::string doubt = {};
};
using TakePlan = std::function<Result<Verdict>(const Plan&)>;

struct ChosenPlan {
  Plan plan;
  PlanChoice choice;
  std::string note = {};  // for people: what is not as asked, and why
};

/// `first` is the plan of `choice`. The last plan that was given to `take` is the chosen one.
Result<ChosenPlan> choose_plan(const ShapePlanner& planner, Plan first, const PlanChoice& choice,
                               const TakePlan& take);

/// Of a plan's resident recurrences, in order.
std::vector<std::string> tiles_of(const Plan& plan);

}  // namespace rnnc
