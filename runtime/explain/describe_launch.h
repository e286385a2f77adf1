/// Launches in words: what each kind says of itself (ir/plan/launches), by the names of a plan.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/plan/launches/launches.h"
#include "passes/options/machine.h"
#include "runtime/explain/explanation.h"

namespace rnnc::explain {

class LaunchDescriber {
 public:
  LaunchDescriber(const Plan& plan, Machine::Kind machine);

  /// All of a LaunchInfo that the plan alone tells.
  LaunchInfo describe(const Stage& stage, const Launch& launch) const;

  /// Without what phases of a recurrence hand to each other within a step.
  std::vector<Touch> outer_touches(const Stage& stage, const Launch& launch) const;
  /// Of these all writes, and the reads of values of the same step.
  std::vector<Touch> touches_of_step(const Stage& stage, const Launch& launch) const;

  /// "h[t-1]": the buffer and the step that the stage reads or writes `count` elements of a row at.
  std::string value(const Stage& stage, const Access& access, int64_t count) const;
  /// How many steps back that is.
  int64_t delay(const Stage& stage, const Access& access) const;

 private:
  class Names;  // those of a stage's launches

  /// Names of the params, or values made of them, in `count` elements of a weight.
  std::vector<std::string> weights_in(const Access& weight, int64_t count) const;
  void add_hoisted(const Stage& stage, LaunchWords& words) const;

  const Plan& plan_;
  Machine::Kind machine_;
  std::map<BufferId, std::vector<WeightPart>> parts_;  // that Once stages put together
};

}  // namespace rnnc::explain
