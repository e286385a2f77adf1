// 1. Make the carries' buffers of each loop histories of one step, but of states of several steps,
//    which they hold side by side. Its loads touch the step before; no other stage has any
//    (passes/lower/layout.cpp).
// 2. So do the launches that fill them before the first step, and take them after the last.
//
// Initial values: of histories of one step, those that nothing but steps reads a step back get a
// buffer, which takes the place of that step in these and in what fills it.
#include "passes/plan/one_step.h"

#include <algorithm>
#include <map>
#include <set>

#include "ir/plan/plan_accesses.h"
#include "ir/plan/plan_touches.h"
#include "ir/plan/state_steps.h"

namespace rnnc {
namespace {

/// What states of several steps begin in.
std::set<BufferId> buffers_of_histories(const Plan& plan) {
  std::set<BufferId> buffers;
  for (const StatePlan& state : plan.states) {
    if (steps_of(plan, state) == 1) continue;
    for (const Access& access : state.init_declared.accesses) buffers.insert(access.buffer);
  }
  return buffers;
}

void part_carries(Plan& plan, const Stage& stage, LoopLaunch& loop,
                  const std::set<BufferId>& histories, std::set<BufferId>& parted) {
  for (const LoopCarry& carry : loop.carries) {
    const BufferId id = loop.accesses[carry.load].buffer;
    if (histories.contains(id)) continue;
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

/// Whether steps read the buffer a step back, and nothing else does.
bool is_of_steps(const Plan& plan, BufferId id) {
  bool is_read = false;
  for (const Stage& stage : plan.stages) {
    for (const Launch& launch : stage.launches) {
      for (const Touch& touch : touches(plan, launch)) {
        if (touch.access.buffer != id || touch.access.delay == 0) continue;
        if (stage.domain != Domain::Step) return false;
        is_read = true;
      }
    }
  }
  return is_read;
}

}  // namespace

bool run_initial_values(Plan& plan) {
  std::map<BufferId, BufferId> initial;
  for (BufferId id = 0, count = plan.buffers.size(); id < count; ++id) {
    if (plan.buffers[id].history != 1 || !is_of_steps(plan, id)) continue;
    initial.emplace(id, plan.buffers.size());
    Buffer value = plan.buffers[id];
    value.extent = Extent::Batch;
    value.history = 0;
    value.sweep = 0;
    plan.buffers.push_back(std::move(value));
  }
  const auto take = [&](Access& access) {
    const auto found = initial.find(access.buffer);
    if (found != initial.end() && access.delay == 1)
      access = {found->second, 0, access.column, access.stride};
  };
  for (Stage& stage : plan.stages) {
    for (Launch& launch : stage.launches) for_each_access(launch, take);
  }
  for (StatePlan& state : plan.states) {
    std::ranges::for_each(state.init_given.accesses, take);
    std::ranges::for_each(state.init_declared.accesses, take);
    std::ranges::for_each(state.hide.accesses, take);
  }
  return !initial.empty();
}

bool run_one_step(Plan& plan) {
  const std::set<BufferId> histories = buffers_of_histories(plan);
  std::set<BufferId> parted;
  for (Stage& stage : plan.stages) {
    for (Launch& launch : stage.launches) {
      auto* loop = std::get_if<LoopLaunch>(&launch);
      if (loop != nullptr) part_carries(plan, stage, *loop, histories, parted);
    }
  }
  for (StatePlan& state : plan.states) {
    for (const auto launch : kStateLaunches) {
      for (Access& access : (state.*launch).accesses) {
        if (parted.contains(access.buffer)) access.delay = 1;
      }
    }
  }
  return !parted.empty();
}

}  // namespace rnnc
