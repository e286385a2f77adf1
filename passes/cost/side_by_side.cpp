#include "passes/cost/side_by_side.h"

#include <set>

#include "ir/plan/plan_touches.h"

namespace rnnc {
namespace {

struct Buffers {
  std::set<BufferId> touched;
  std::set<BufferId> written;
};

Buffers buffers_of(const Plan& plan, const Stage& stage) {
  Buffers result;
  for (const Launch& launch : stage.launches) {
    for (const Touch& touch : touches(plan, launch)) {
      result.touched.insert(touch.access.buffer);
      if (touch.write) result.written.insert(touch.access.buffer);
    }
  }
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
  Buffers run;  // of the last one, if others may join it
  const auto may_join = [&plan](size_t i) {
    return i > 0 && i < plan.stages.size() &&
           may_run_side_by_side(plan.stages[i - 1], plan.stages[i]);
  };
  for (size_t i = 0; i < plan.stages.size(); ++i) {
    Buffers stage;
    if (may_join(i) || may_join(i + 1)) stage = buffers_of(plan, plan.stages[i]);
    if (may_join(i) && !intersect(stage.touched, run.written) &&
        !intersect(run.touched, stage.written)) {
      runs.back().end = i + 1;
      run.touched.merge(stage.touched);
      run.written.merge(stage.written);
    } else {
      runs.push_back({i, i + 1});
      run = std::move(stage);
    }
  }
  return runs;
}

}  // namespace rnnc
