/// Small plans made by hand.
#pragma once

#include <vector>

#include "ir/plan/plan.h"
#include "passes/lower/kernel_builder.h"

namespace rnnc::test {

/// A plan with nothing in it but its sizes.
inline Plan empty_plan(DType dtype, int64_t batch = 1, int64_t chunk = 1) {
  Plan plan;
  plan.name = "test";
  plan.dtype = dtype;
  plan.batch = batch;
  plan.chunk = chunk;
  return plan;
}

/// Adds one of the caller's sequences, [T, B, width].
inline Access add_sequence(Plan& plan, Role role, uint32_t slot, int64_t width) {
  plan.buffers.push_back({.name = "sequence",
                          .dtype = plan.dtype,
                          .placement = Placement::Caller,
                          .role = role,
                          .extent = Extent::Steps,
                          .slot = slot,
                          .width = width,
                          .history = 0,
                          .offset = 0});
  return {.buffer = static_cast<BufferId>(plan.buffers.size() - 1),
          .delay = 0,
          .column = 0,
          .stride = width};
}

/// Adds a kernel for each scalar op and each reduction, from the plan's type to the plan's type.
inline void add_every_op(Plan& plan, int64_t length) {
  std::vector<Access> inputs;
  for (uint32_t i = 0; i < 3; ++i) {
    inputs.push_back(add_sequence(plan, Role::Input, i, length));
  }
  uint32_t slot = 0;
  Stage stage;
  for (const OpInfo& op : all_ops()) {
    if (!op.scalar && !op.reduction) continue;
    KernelBuilder builder(plan, length);
    std::vector<uint32_t> operands;
    for (int i = 0; i < op.arity; ++i) {
      operands.push_back(builder.load(inputs[static_cast<size_t>(i)], true));
    }
    const uint32_t value =
        op.scalar ? builder.scalar(op.op, operands) : builder.reduce(op.op, operands[0]);
    builder.store(add_sequence(plan, Role::Output, slot++, length), true, value);
    stage.launches.emplace_back(builder.finish());
  }
  plan.stages.push_back(std::move(stage));
}

}  // namespace rnnc::test
