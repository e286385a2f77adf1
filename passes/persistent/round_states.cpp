// For each state that begins in a buffer of the storage type, which only products of resident
// recurrences read:
// 1. They read the buffer of the compute type that begins in the same way, if there is one. Else the
//    buffer is of that type.
// 2. What begins the state does not write what nobody reads: that buffer, or the step before the
//    first one of a history.
#include "passes/persistent/round_states.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "ir/plan/plan_accesses.h"
#include "ir/plan/plan_touches.h"
#include "passes/lower/kernel_builder.h"
#include "passes/lower/unused_buffers.h"

namespace rnnc {
namespace {

using Kind = Instruction::Kind;

/// A kernel without an argument that it stores to.
Kernel without_store(const Kernel& kernel, uint32_t argument) {
  Kernel result = kernel;
  result.arguments.erase(result.arguments.begin() + argument);
  result.body.clear();
  std::vector<uint32_t> ids;  // old → new
  for (Instruction instruction : kernel.body) {
    ids.push_back(static_cast<uint32_t>(result.body.size()));
    const bool has_argument = instruction.kind == Kind::Load || instruction.kind == Kind::Store;
    if (has_argument && instruction.argument == argument) continue;
    if (has_argument && instruction.argument > argument) --instruction.argument;
    for (uint32_t& operand : instruction.operands) operand = ids[operand];
    result.body.push_back(std::move(instruction));
  }
  return result;
}

class StateRounder {
 public:
  explicit StateRounder(Plan& plan) : plan_(plan), compute_(compute_type(plan.dtype)) {
    for (const Stage& stage : plan.stages) {
      for (const Launch& launch : stage.launches) find_uses(launch);
    }
  }

  bool run() {
    bool changed = false;
    for (StatePlan& state : plan_.states) {
      std::vector<BufferId> rounded;
      for (const Access& access : stores_of(state)) {
        if (is_rounded(access.buffer)) rounded.push_back(access.buffer);
      }
      for (const BufferId id : rounded) round(state, id);
      if (rounded.empty()) continue;
      for (const Access& access : stores_of(state)) {
        const bool is_unread = access.delay > 0 && !read_earlier_.contains(access.buffer);
        if (is_unread && stores_of(state).size() > 1) drop(state, access.buffer);
      }
      changed = true;
    }
    return changed;
  }

 private:
  void find_uses(const Launch& launch) {
    const auto* recurrence = std::get_if<RecurrenceLaunch>(&launch);
    for (const Touch& touch : touches(plan_, launch)) {
      const Access& access = touch.access;
      if (touch.write) written_.insert(access.buffer);
      if (!touch.write && access.delay > 0) read_earlier_.insert(access.buffer);
      if (recurrence == nullptr) touched_otherwise_.insert(access.buffer);
    }
    if (recurrence == nullptr) return;
    for (const FusedLaunch& phase : recurrence->phases) {
      for (const Access& access : phase.accesses) touched_otherwise_.insert(access.buffer);
    }
  }

  std::vector<Access> stores_of(const StatePlan& state) const {
    const ElementwiseLaunch& launch = state.init_declared;
    std::vector<Access> stores;
    for (size_t i = 0; i < launch.accesses.size(); ++i) {
      if (plan_.kernels[launch.kernel].arguments[i].written) stores.push_back(launch.accesses[i]);
    }
    return stores;
  }

  bool is_rounded(BufferId id) const {
    const Buffer& buffer = plan_.buffers[id];
    return buffer.extent == Extent::Batch && buffer.dtype == plan_.dtype &&
           !touched_otherwise_.contains(id) && !written_.contains(id);
  }

  void round(StatePlan& state, BufferId id) {
    const Buffer& buffer = plan_.buffers[id];
    for (const Access& access : stores_of(state)) {
      const Buffer& other = plan_.buffers[access.buffer];
      const bool is_alike = access.buffer != id && other.extent == Extent::Batch &&
                            other.dtype == compute_ && other.width == buffer.width &&
                            !written_.contains(access.buffer);
      if (is_alike) return read_instead(state, id, access.buffer);
    }
    plan_.buffers[id].dtype = compute_;
    for (ElementwiseLaunch* launch : {&state.init_given, &state.init_declared, &state.hide}) {
      Kernel kernel = plan_.kernels[launch->kernel];
      for (size_t i = 0; i < launch->accesses.size(); ++i) {
        if (launch->accesses[i].buffer == id) kernel.arguments[i].dtype = compute_;
      }
      if (!launch->accesses.empty()) launch->kernel = add_kernel(plan_, std::move(kernel));
    }
  }

  void read_instead(StatePlan& state, BufferId id, BufferId other) {
    for (Stage& stage : plan_.stages) {
      for (Launch& launch : stage.launches) {
        for_each_access(launch, [&](Access& access) {
          if (access.buffer == id) access.buffer = other;
        });
      }
    }
    drop(state, id);
  }

  /// From what begins the state.
  void drop(StatePlan& state, BufferId id) {
    for (ElementwiseLaunch* launch : {&state.init_given, &state.init_declared, &state.hide}) {
      const auto found = std::ranges::find(launch->accesses, id, &Access::buffer);
      if (found == launch->accesses.end()) continue;
      const auto argument = static_cast<uint32_t>(found - launch->accesses.begin());
      launch->accesses.erase(found);
      launch->kernel =
          add_kernel(plan_, without_store(Kernel(plan_.kernels[launch->kernel]), argument));
    }
  }

  Plan& plan_;
  const DType compute_;
  std::set<BufferId> written_;            // by stages
  std::set<BufferId> read_earlier_;       // a step back or more
  std::set<BufferId> touched_otherwise_;  // than by products of recurrences
};

}  // namespace

bool run_round_states(Plan& plan) {
  if (plan.dtype == compute_type(plan.dtype) || !StateRounder(plan).run()) return false;
  remove_unused_temporaries(plan);
  return true;
}

}  // namespace rnnc
