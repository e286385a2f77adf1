#include "tests/passes/plan/small_plan.h"

#include <algorithm>
#include <utility>

namespace rnnc::test {

BufferId SmallPlan::buffer(const std::string& name, Extent extent, int64_t width,
                           uint32_t history) {
  Buffer buffer;
  buffer.name = name;
  buffer.extent = extent;
  buffer.width = width;
  buffer.history = history;
  plan.buffers.push_back(buffer);
  return static_cast<BufferId>(plan.buffers.size() - 1);
}

BufferId SmallPlan::program_buffer(const std::string& name, Extent extent, int64_t width,
                                   uint32_t history) {
  const BufferId id = buffer(name, extent, width, history);
  plan.buffers[id].placement = Placement::Program;
  return id;
}

BufferId SmallPlan::caller(const std::string& name, Role role, Extent extent, int64_t width) {
  const BufferId id = buffer(name, extent, width);
  plan.buffers[id].placement = Placement::Caller;
  plan.buffers[id].role = role;
  return id;
}

Access SmallPlan::row(BufferId id, uint32_t delay) const {
  const Buffer& buffer = plan.buffers[id];
  return {id, delay, 0, buffer.extent == Extent::Invariant ? 0 : buffer.width};
}

ElementwiseLaunch SmallPlan::tanh(const std::vector<Access>& reads,
                                  const std::vector<Access>& writes) {
  return elementwise(/*reduces=*/false, reads, writes);
}

ElementwiseLaunch SmallPlan::mean(const std::vector<Access>& reads,
                                  const std::vector<Access>& writes) {
  return elementwise(/*reduces=*/true, reads, writes);
}

ElementwiseLaunch SmallPlan::elementwise(bool reduces, const std::vector<Access>& reads,
                                         const std::vector<Access>& writes) {
  Kernel kernel;
  kernel.length = plan.buffers[writes[0].buffer].width;
  const auto add = [&](Instruction instruction) {
    kernel.body.push_back(std::move(instruction));
    return static_cast<uint32_t>(kernel.body.size() - 1);
  };
  const auto argument = [&](bool written) {
    kernel.arguments.push_back({DType::f32, /*vector=*/true, written});
    return static_cast<uint32_t>(kernel.arguments.size() - 1);
  };
  ElementwiseLaunch launch;
  uint32_t value = add({.kind = Instruction::Kind::Constant, .value = 0, .operands = {}});
  bool vector = false;
  for (const Access& access : reads) {
    launch.accesses.push_back(access);
    const uint32_t load = add({.vector = true, .argument = argument(false), .operands = {}});
    value = add({.kind = Instruction::Kind::Scalar,
                 .op = Op::Add,
                 .vector = true,
                 .operands = {value, load}});
    vector = true;
  }
  if (reduces) {
    value = add({.kind = Instruction::Kind::Reduce, .op = Op::Mean, .operands = {value}});
    vector = false;
  }
  value = add(
      {.kind = Instruction::Kind::Scalar, .op = Op::Tanh, .vector = vector, .operands = {value}});
  for (const Access& access : writes) {
    launch.accesses.push_back(access);
    add({.kind = Instruction::Kind::Store,
         .vector = true,
         .argument = argument(true),
         .operands = {value}});
  }
  launch.kernel = static_cast<uint32_t>(plan.kernels.size());
  plan.kernels.push_back(std::move(kernel));
  return launch;
}

GemmLaunch SmallPlan::gemm(BufferId out, const Access& left, BufferId weight) const {
  GemmLaunch launch;
  launch.left = left;
  launch.weight = {weight, 0, 0, 0};
  launch.out = row(out);
  launch.n = plan.buffers[out].width;
  launch.k = plan.buffers[left.buffer].width;
  return launch;
}

Stage& SmallPlan::stage(Domain domain, std::vector<Launch> launches, uint32_t sweep) {
  Stage stage;
  stage.domain = domain;
  stage.launches = std::move(launches);
  stage.sweep = sweep;
  plan.sweeps = std::max(plan.sweeps, sweep + 1);
  plan.stages.push_back(std::move(stage));
  return plan.stages.back();
}

Stage& SmallPlan::recurrence(std::vector<Launch> launches, uint32_t sweep) {
  Stage& result = stage(Domain::Step, std::move(launches), sweep);
  result.recurrence = RecurrenceClass::Dense;
  return result;
}

void SmallPlan::state(BufferId id, uint32_t sweep) {
  StatePlan state;
  state.name = plan.buffers[id].name;
  state.init_declared = tanh({}, {row(id, plan.buffers[id].history)});
  state.sweep = sweep;
  plan.states.push_back(std::move(state));
}

}  // namespace rnnc::test
