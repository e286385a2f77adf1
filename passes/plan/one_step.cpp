// 1. Make the carries' buffers of each loop histories of one step. Its loads touch the step before;
//    no other stage has any (passes/lower/layout.cpp).
// 2. So do the launches that fill them before the first step, and take them after the last.
#include "passes/plan/one_step.h"

#include <set>

namespace rnnc {
namespace {

void part_carries(Plan& plan, const Stage& stage, LoopLaunch& loop, std::set<BufferId>& parted) {
  for (const LoopLaunch::Carry& carry : loop.carries) {
    const BufferId id = loop.accesses[carry.load].buffer;
    Buffer& buffer = plan.buffers[id];
    buffer.extent = Extent::Chunk;
    buffer.history = 1;
    buffer.sweep = stage.sweep;
    parted.insert(id);
  }
  for (size_t i = 0; i < loop.accesses.size(); ++i) {
    const bool loaded = !plan.kernels[loop.kernel].arguments[i].written;
    if (loaded && parted.contains(loop.accesses[i].buffer)) loop.accesses[i].delay = 1;
  }
}

}  // namespace

bool run_one_step(Plan& plan) {
  std::set<BufferId> parted;
  for (Stage& stage : plan.stages) {
    for (Launch& launch : stage.launches) {
      if (auto* loop = std::get_if<LoopLaunch>(&launch)) part_carries(plan, stage, *loop, parted);
    }
  }
  for (StatePlan& state : plan.states) {
    for (auto* launch : {&state.init_given, &state.init_declared, &state.write_final}) {
      for (Access& access : launch->accesses) {
        if (parted.contains(access.buffer)) access.delay = 1;
      }
    }
  }
  return !parted.empty();
}

}  // namespace rnnc
