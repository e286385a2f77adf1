#include "ir/plan/direct_states.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "ir/plan/plan_touches.h"

namespace rnnc {
namespace {

/// From one buffer to another, whole rows as they are.
struct RowCopy {
  Access from;
  Access to;
};

std::optional<RowCopy> as_copy(const Plan& plan, const ElementwiseLaunch& launch) {
  if (launch.accesses.size() != 2) return std::nullopt;
  const Kernel& kernel = plan.kernels[launch.kernel];
  const bool copies = kernel.body.size() == 2 && kernel.body[0].kind == Instruction::Kind::Load &&
                      kernel.body[1].kind == Instruction::Kind::Store;
  if (!copies) return std::nullopt;
  const RowCopy copy{launch.accesses[kernel.body[0].argument],
                     launch.accesses[kernel.body[1].argument]};
  const Buffer& from = plan.buffers[copy.from.buffer];
  const Buffer& to = plan.buffers[copy.to.buffer];
  const int64_t count = kernel.body[0].vector ? kernel.length : 1;
  const bool whole = from.width == count && to.width == count;
  return whole && from.dtype == to.dtype ? std::optional(copy) : std::nullopt;
}

bool stores_zeros(const Kernel& kernel) {
  return kernel.body.size() == 2 && kernel.body[0].kind == Instruction::Kind::Constant &&
         kernel.body[0].value == 0 && !std::signbit(kernel.body[0].value);
}

class DirectStateFinder {
 public:
  explicit DirectStateFinder(const Plan& plan) : plan_(plan), states_of_(plan.buffers.size(), 0) {
    for (const StatePlan& state : plan.states) count_buffers(state);
    for (const Stage& stage : plan.stages) {
      for (const Launch& launch : stage.launches) {
        for (const Touch& touch : touches(plan, launch)) {
          if (touch.write) written_.insert(touch.access.buffer);
        }
      }
    }
  }

  DirectState of(const StatePlan& state) const {
    DirectState direct;
    const auto given = as_copy(plan_, state.init_given);
    if (given && (is_before_a_step(given->to) || is_left_alone(given->to))) {
      direct.initial = given->to.buffer;
      direct.starts_at_zero = stores_zeros(plan_.kernels[state.init_declared.kernel]);
    }
    if (const auto copy = as_copy(plan_, state.write_final)) {
      const bool carried = is_own(copy->from) && extent_of(copy->from) == Extent::Batch;
      if (carried || is_before_a_step(copy->from)) direct.final = copy->from.buffer;
    }
    // One that begins as a copy is none that is left alone.
    if (direct.final == direct.initial && is_of_batch(direct.final)) {
      direct.initial = kNoBuffer;
      direct.starts_at_zero = false;
    }
    return direct;
  }

 private:
  bool is_of_batch(BufferId id) const {
    return id != kNoBuffer && plan_.buffers[id].extent == Extent::Batch;
  }

  void count_buffers(const StatePlan& state) {
    std::set<BufferId> buffers;
    for (const auto launch : kStateLaunches) {
      for (const Access& access : (state.*launch).accesses) buffers.insert(access.buffer);
    }
    for (const BufferId id : buffers) ++states_of_[id];
  }

  Extent extent_of(const Access& access) const { return plan_.buffers[access.buffer].extent; }

  /// In memory of the call's that is this state's alone.
  bool is_own(const Access& access) const {
    const bool workspace = plan_.buffers[access.buffer].placement == Placement::Workspace;
    return workspace && states_of_[access.buffer] == 1;
  }

  bool is_before_a_step(const Access& access) const {
    return is_own(access) && extent_of(access) == Extent::Chunk &&
           plan_.buffers[access.buffer].history == 1 && access.delay == 1;
  }

  bool is_left_alone(const Access& access) const {
    return is_own(access) && extent_of(access) == Extent::Batch &&
           !written_.contains(access.buffer);
  }

  const Plan& plan_;
  std::set<BufferId> written_;  // by stages
  std::vector<int> states_of_;  // per buffer: how many states have launches that touch it
};

}  // namespace

std::vector<DirectState> find_direct_states(const Plan& plan) {
  std::vector<DirectState> direct(plan.states.size());
  if (std::ranges::any_of(plan.stages, [](const Stage& stage) { return stage.lag > 0; })) {
    return direct;
  }
  const DirectStateFinder finder(plan);
  std::ranges::transform(plan.states, direct.begin(),
                         [&](const StatePlan& state) { return finder.of(state); });
  return direct;
}

}  // namespace rnnc
