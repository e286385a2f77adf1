#include "passes/cost/side_by_side.h"

#include "ir/plan/buffer_uses.h"

namespace rnnc {
namespace {

TouchedBuffers buffers_of(const Plan& plan, const Stage& stage) {
  TouchedBuffers result;
  for (const Launch& launch : stage.launches) result.add(plan, launch);
  return result;
}

bool may_run_side_by_side(const Stage& a, const Stage& b) {
  const auto is_recurrence = [](const Stage& stage) {
    return stage.domain == Domain::Step && stage.recurrence != RecurrenceClass::None;
  };
  return is_recurrence(a) && is_recurrence(b) && a.sweep == b.sweep && a.lag == b.lag;
}

}  // namespace

std::vector<StageRun> side_by_side(const Plan& plan) {
  std::vector<StageRun> runs;
  TouchedBuffers run;  // of the last one, if others may join it
  const auto may_join = [&plan](size_t i) {
    return i > 0 && i < plan.stages.size() &&
           may_run_side_by_side(plan.stages[i - 1], plan.stages[i]);
  };
  for (size_t i = 0; i < plan.stages.size(); ++i) {
    TouchedBuffers stage;
    if (may_join(i) || may_join(i + 1)) stage = buffers_of(plan, plan.stages[i]);
    if (may_join(i) && are_independent(stage, run)) {
      runs.back().end = i + 1;
      run.read.merge(stage.read);
      run.written.merge(stage.written);
    } else {
      runs.push_back({i, i + 1});
      run = std::move(stage);
    }
  }
  return runs;
}

}  // namespace rnnc
