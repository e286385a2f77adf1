/// Hand-made plans through the CPU backend.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "codegen/cpu/cpu_code.h"
#include "ir/plan/alignment.h"
#include "ir/plan/plan.h"

namespace rnnc::test {

using Values = std::vector<double>;

/// Multiples of 1/64 between -1 and 1.
Values random_values(int64_t count);

/// A plan with one input and, where it is wanted, one param; outputs are added one by one.
class PlanMaker {
 public:
  PlanMaker(DType dtype, int64_t batch, int64_t chunk, int64_t input_width) {
    plan.name = "Test";
    plan.dtype = dtype;
    plan.batch = batch;
    plan.chunk = chunk;
    input = {add("x", Placement::Caller, Role::Input, Extent::Steps, input_width), 0, 0,
             input_width};
  }

  BufferId add(const std::string& name, Placement placement, Role role, Extent extent,
               int64_t width, uint32_t history = 0) {
    Buffer buffer;
    buffer.name = name;
    buffer.dtype = plan.dtype;
    buffer.placement = placement;
    buffer.role = role;
    buffer.extent = extent;
    buffer.width = width;
    buffer.history = history;
    if (role == Role::Output) buffer.slot = outputs_++;
    const bool grows = extent == Extent::Steps;
    int64_t& end = placement == Placement::Program ? plan.program_bytes
                   : grows                         ? plan.workspace_bytes_per_step
                                                   : plan.workspace_bytes;
    if (placement != Placement::Caller) {
      buffer.offset = end;
      end += aligned_size(byte_size(plan, buffer));
    }
    plan.buffers.push_back(buffer);
    return static_cast<BufferId>(plan.buffers.size() - 1);
  }

  Access chunk(const std::string& name, int64_t width) {
    return {add(name, Placement::Workspace, Role::Temporary, Extent::Chunk, width), 0, 0, width};
  }
  Access steps(const std::string& name, int64_t width) {
    return {add(name, Placement::Workspace, Role::Temporary, Extent::Steps, width), 0, 0, width};
  }
  Access invariant(const std::string& name, int64_t width) {
    return {add(name, Placement::Program, Role::Temporary, Extent::Invariant, width), 0, 0, 0};
  }
  Access param(int64_t width) {
    return {add("W", Placement::Caller, Role::Param, Extent::Invariant, width), 0, 0, 0};
  }
  Access output(int64_t width) {
    return {add("y", Placement::Caller, Role::Output, Extent::Steps, width), 0, 0, width};
  }

  Stage& stage(Domain domain, uint32_t sweep = 0) {
    Stage made;
    made.domain = domain;
    made.sweep = sweep;
    plan.stages.push_back(made);
    return plan.stages.back();
  }

  /// target = source + source over `width` elements of each row.
  ElementwiseLaunch twice(const Access& source, const Access& target, int64_t width) {
    Kernel kernel;
    kernel.name = "twice";
    kernel.length = width;
    kernel.arguments = {{plan.dtype, true, false}, {plan.dtype, true, true}};
    Instruction load;
    load.vector = true;
    Instruction sum = load;
    sum.kind = Instruction::Kind::Scalar;
    sum.operands = {0, 0};
    Instruction store = load;
    store.kind = Instruction::Kind::Store;
    store.argument = 1;
    store.operands = {1};
    kernel.body = {load, sum, store};
    plan.kernels.push_back(kernel);
    return {static_cast<uint32_t>(plan.kernels.size() - 1), {source, target}, 1};
  }

  /// A chunk whose last step the next chunk sees, as a state that starts as zero.
  Access state(const std::string& name, int64_t width) {
    const Access access = {
        add(name, Placement::Workspace, Role::Temporary, Extent::Chunk, width, 1), 0, 0, width};
    Access before = access;
    before.delay = 1;
    Kernel kernel;
    kernel.name = "zero";
    kernel.length = width;
    kernel.arguments = {{plan.dtype, true, true}};
    Instruction zero;
    zero.kind = Instruction::Kind::Constant;
    Instruction store;
    store.kind = Instruction::Kind::Store;
    store.vector = true;
    store.operands = {0};
    kernel.body = {zero, store};
    plan.kernels.push_back(kernel);
    const auto id = static_cast<uint32_t>(plan.kernels.size() - 1);
    plan.states.push_back({.name = name,
                           .init_given = {},
                           .init_declared = {id, {before}, 1},
                           .write_final = {},
                           .hide = {}});
    return access;
  }

  Plan plan;
  Access input;

 private:
  uint32_t outputs_ = 0;
};

struct Call {
  int64_t steps = 0;
  Values input, param;
  std::vector<int32_t> lengths;
  std::vector<uint8_t> reset;
  int threads = 1;
};

/// The plan's code for this host, or a part of its instructions. Tiles of products are compiled
/// once in a process.
std::unique_ptr<CpuModule> compile(const Plan& plan, const CpuTarget& target = {});

/// Verifies the plan and gives its outputs. Its memory is filled with NaN first.
std::vector<Values> run(const Plan& plan, const Call& call, const CpuTarget& target = {});

}  // namespace rnnc::test
