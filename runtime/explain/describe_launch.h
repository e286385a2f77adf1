/// Launches in words: what each computes, and what the passes have done for it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/plan/plan_touches.h"
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

  /// "h[t-1]": the buffer and the step that the stage reads or writes `count` elements of a row at.
  std::string value(const Stage& stage, const Access& access, int64_t count) const;
  /// How many steps back that is.
  int64_t delay(const Stage& stage, const Access& access) const;

 private:
  /// Elements [begin, end) of a buffer that a Once stage puts together.
  struct Part {
    int64_t begin = 0;
    int64_t end = 0;
    std::string name;
  };

  void add_part(const ElementwiseLaunch& launch);
  void add_part(const CopyLaunch& launch);
  void add_part(const SplitLaunch& launch);
  LaunchInfo describe_as(const Stage& stage, const ElementwiseLaunch& launch) const;
  LaunchInfo describe_as(const Stage& stage, const GemmLaunch& launch) const;
  LaunchInfo describe_as(const Stage& stage, const FusedLaunch& launch) const;
  LaunchInfo describe_as(const Stage& stage, const LoopLaunch& launch) const;
  LaunchInfo describe_as(const Stage& stage, const ScanLaunch& launch) const;
  LaunchInfo describe_as(const Stage& stage, const RecurrenceLaunch& launch) const;
  LaunchInfo describe_as(const Stage& stage, const CopyLaunch& launch) const;
  LaunchInfo describe_as(const Stage& stage, const ReverseLaunch& launch) const;
  LaunchInfo describe_as(const Stage& stage, const EarlierLaunch& launch) const;
  LaunchInfo describe_as(const Stage& stage, const MaskLaunch& launch) const;
  LaunchInfo describe_as(const Stage& stage, const RowsLaunch& launch) const;
  LaunchInfo describe_as(const Stage& stage, const RowTotalLaunch& launch) const;
  LaunchInfo describe_as(const Stage& stage, const RealLaunch& launch) const;
  LaunchInfo describe_as(const Stage& stage, const SplitLaunch& launch) const;
  LaunchInfo describe_as(const Stage& stage, const TotalLaunch& launch) const;

  /// Names of the params, or values made of them, in `count` elements of a weight.
  std::vector<std::string> weights_in(const Access& weight, int64_t count) const;
  /// All that a Once stage puts together in a buffer.
  std::string array(BufferId id) const;
  /// The rows of a product, "1024 rows".
  std::string rows(const Stage& stage, int64_t once_rows) const;
  /// Operations of a kernel, and what is fused there.
  void add_kernel(uint32_t kernel, LaunchInfo& info) const;
  void add_hoisted(const Stage& stage, LaunchInfo& info) const;

  const Plan& plan_;
  Machine::Kind machine_;
  std::map<BufferId, std::vector<Part>> parts_;
};

/// "1 step", "2 steps".
std::string plural(int64_t count, std::string_view what);

/// "LSTM.0.{W_i, W_f}": what the names have in common up to the last dot comes once, but for
/// numbered values, "add.4, add.7".
std::string join_names(const std::vector<std::string>& names);

}  // namespace rnnc::explain
