/// Plans with fused and loop launches made by hand.
#pragma once

#include "ir/plan/alignment.h"
#include "tests/cuda/kernel_plans.h"

namespace rnnc::test {

/// Adds a buffer of our own.
inline Access add_buffer(Plan& plan, Extent extent, DType dtype, int64_t width,
                         Placement placement = Placement::Program, uint32_t history = 0) {
  const bool invariant = extent == Extent::Invariant;
  Buffer buffer = {.name = "buffer",
                   .dtype = dtype,
                   .placement = placement,
                   .extent = extent,
                   .width = width,
                   .history = history};
  // One after the other, apart.
  for (const Buffer& other : plan.buffers) {
    if (other.placement == placement) buffer.offset += byte_size(plan, other) + 512;
  }
  buffer.offset = aligned_size(buffer.offset);
  plan.buffers.push_back(buffer);
  return {.buffer = static_cast<BufferId>(plan.buffers.size() - 1),
          .stride = invariant ? 0 : width};
}

struct FusedCase {
  std::string name;
  DType dtype = DType::f32;
  bool tf32 = false;
  int64_t batch = 1;
  int64_t length = 1;
  struct Product {
    int64_t k = 1;
    int64_t blocks = 1;
    uint32_t first = 0;    // result
    uint32_t members = 1;  // results
    int64_t column = 0;    // of `left`
  };
  std::vector<Product> products = {};
  uint32_t results = 1;
  uint32_t lags = 1;  // equal launches side by side
  Placement operands = Placement::Program;
};

/// A kernel that multiplies the sigmoid of each result plus an array with the row's mask, adds all
/// up over a decayed carry, and stores that, its row's first element, and it in the plan's type.
inline uint32_t add_fused_kernel(Plan& plan, const FusedCase& made) {
  using Kind = Instruction::Kind;
  Kernel kernel;
  kernel.name = "fused";
  kernel.length = made.length;
  const auto argument = [&kernel](Kernel::Argument added) {
    kernel.arguments.push_back(added);
    return static_cast<uint32_t>(kernel.arguments.size() - 1);
  };
  const auto add = [&kernel](Kind kind, bool vector, uint32_t index) {
    Instruction instruction;
    instruction.kind = kind;
    instruction.vector = vector;
    instruction.argument = index;
    kernel.body.push_back(instruction);
    return static_cast<uint32_t>(kernel.body.size() - 1);
  };
  const auto scalar = [&kernel](Op op, std::vector<uint32_t> operands) {
    Instruction instruction;
    instruction.kind = Kind::Scalar;
    instruction.op = op;
    instruction.vector = true;
    instruction.operands = std::move(operands);
    kernel.body.push_back(instruction);
    return static_cast<uint32_t>(kernel.body.size() - 1);
  };
  const uint32_t mask = add(Kind::Load, false, argument({.dtype = DType::f32}));
  uint32_t sum = add(Kind::Load, true, argument({.dtype = DType::f32, .vector = true}));
  std::vector<uint32_t> results;
  for (uint32_t i = 0; i < made.results; ++i) {
    results.push_back(argument({.dtype = DType::f32, .vector = true, .product = true}));
  }
  for (const uint32_t result : results) {
    const uint32_t x = add(Kind::Load, true, argument({.dtype = DType::f32, .vector = true}));
    const uint32_t gate =
        scalar(Op::Sigmoid, {scalar(Op::Add, {add(Kind::Load, true, result), x})});
    sum = scalar(Op::Add, {sum, scalar(Op::Mul, {gate, mask})});
  }
  for (const auto& [dtype, vector] : std::vector<std::pair<DType, bool>>{
           {DType::f32, true}, {DType::f32, false}, {made.dtype, true}}) {
    const uint32_t target = argument({.dtype = dtype, .vector = vector, .written = true});
    add(Kind::Store, vector, target);
    kernel.body.back().operands = {sum};
  }
  plan.kernels.push_back(std::move(kernel));
  return static_cast<uint32_t>(plan.kernels.size() - 1);
}

inline Plan fused_plan(const FusedCase& made) {
  Plan plan = empty_plan(made.dtype, made.batch, 2);
  plan.tf32 = made.tf32;
  const uint32_t kernel = add_fused_kernel(plan, made);
  const auto chunk = [&](DType dtype, int64_t width) {
    return add_buffer(plan, Extent::Chunk, dtype, width, made.operands, 1);
  };
  for (uint32_t lag = 0; lag < made.lags; ++lag) {
    FusedLaunch launch;
    launch.kernel = kernel;
    for (const Kernel::Argument& argument : plan.kernels[kernel].arguments) {
      launch.accesses.push_back(
          argument.product ? Access{}
          : argument.written && argument.dtype == made.dtype
              ? add_sequence(plan, Role::Output, lag, argument.vector ? made.length : 1)
              : chunk(argument.dtype, argument.vector ? made.length : 1));
    }
    // Stored as f32 where the plan's type is another.
    for (size_t i = 0; i < launch.accesses.size(); ++i) {
      if (launch.accesses[i].buffer == kNoBuffer) continue;
      plan.buffers[launch.accesses[i].buffer].dtype = plan.kernels[kernel].arguments[i].dtype;
    }
    for (const FusedCase::Product& product : made.products) {
      Access left = chunk(made.dtype, product.column + product.k * product.blocks);
      left.delay = 1;
      left.column = product.column;
      uint32_t first_argument = 0;
      for (uint32_t seen = 0; seen <= product.first; ++first_argument) {
        if (plan.kernels[kernel].arguments[first_argument].product) ++seen;
      }
      launch.products.push_back(
          {.left = left,
           .weight = add_buffer(plan, Extent::Invariant, made.dtype,
                                product.members * made.length * product.k, made.operands),
           .k = product.k,
           .blocks = product.blocks,
           .first_argument = first_argument - 1,
           .members = product.members});
    }
    Stage stage;
    stage.domain = Domain::Step;
    stage.recurrence = RecurrenceClass::Dense;
    stage.lag = lag;
    stage.launches.emplace_back(std::move(launch));
    plan.stages.push_back(std::move(stage));
  }
  return plan;
}

/// Sizes that are even, odd, small, blocked, and sums of several products.
inline std::vector<FusedCase> fused_cases() {
  using Product = FusedCase::Product;
  const std::vector<FusedCase> shapes = {
      {.name = "Lstm",
       .batch = 16,
       .length = 256,
       .products = {Product{.k = 256, .members = 4}},
       .results = 4,
       .lags = 4},
      {.name = "LargeBatch",
       .batch = 70,
       .length = 128,
       .products = {Product{.k = 512, .members = 4}},
       .results = 4},
      {.name = "Odd",
       .batch = 5,
       .length = 33,
       .products = {Product{.k = 33, .members = 3}},
       .results = 3},
      {.name = "One", .batch = 1, .length = 1, .products = {Product{.k = 1}}},
      {.name = "Three",
       .batch = 3,
       .length = 7,
       .products = {Product{.k = 3, .members = 2}},
       .results = 2},
      {.name = "Blocks",
       .batch = 9,
       .length = 96,
       .products = {Product{.k = 32, .blocks = 3, .members = 4}},
       .results = 4},
      {.name = "Sums",
       .batch = 12,
       .length = 60,
       .products = {Product{.k = 100, .members = 3, .column = 4},
                    Product{.k = 12, .blocks = 5, .members = 2},
                    Product{.k = 6, .blocks = 3, .first = 3, .column = 1}},
       .results = 4},
      // Results of different products in the tiles of one instruction.
      {.name = "Borders",
       .batch = 4,
       .length = 23,
       .products = {Product{.k = 40, .members = 2}, Product{.k = 23, .first = 2},
                    Product{.k = 5, .first = 3, .members = 2}},
       .results = 5},
      {.name = "Long",
       .batch = 33,
       .length = 64,
       .products = {Product{.k = 3000, .members = 4}},
       .results = 4},
  };
  std::vector<FusedCase> cases;
  for (const FusedCase& shape : shapes) {
    for (const auto& [suffix, dtype, tf32] :
         std::vector<std::tuple<std::string, DType, bool>>{{"F32", DType::f32, false},
                                                           {"Tf32", DType::f32, true},
                                                           {"Bf16", DType::bf16, false},
                                                           {"F16", DType::f16, false}}) {
      cases.push_back(shape);
      cases.back().name += suffix;
      cases.back().dtype = dtype;
      cases.back().tf32 = tf32;
    }
  }
  return cases;
}

/// h[t] = tanh(x[t] + u * h[t-1]) where the row's mask is set, else h[t-1]; y[t] = h[t], and a
/// count of the row's steps so far.
inline Plan loop_plan(DType dtype, int64_t batch, int64_t length, int64_t chunk = 64) {
  Plan plan = empty_plan(dtype, batch, chunk);
  KernelBuilder builder(plan, length);
  const Access h = add_buffer(plan, Extent::Batch, DType::f32, length);
  const Access count = add_buffer(plan, Extent::Batch, DType::f32, 1);
  const uint32_t old_h = builder.load(h, true);
  const uint32_t old_count = builder.load(count, false);
  const uint32_t x = builder.load(add_sequence(plan, Role::Input, 0, length), true);
  const uint32_t u = builder.load(add_buffer(plan, Extent::Invariant, dtype, length), true);
  const uint32_t mask = builder.load(add_buffer(plan, Extent::Chunk, DType::f32, 1), false);
  const uint32_t moved =
      builder.scalar(Op::Tanh, {builder.scalar(Op::Add, {x, builder.scalar(Op::Mul, {u, old_h})})});
  const uint32_t next = builder.scalar(Op::Where, {mask, moved, old_h});
  const uint32_t next_count = builder.scalar(Op::Add, {old_count, mask});
  builder.store(h, true, next);
  builder.store(count, false, next_count);
  builder.store(add_sequence(plan, Role::Output, 0, length), true, next);
  builder.store(add_sequence(plan, Role::Output, 1, 1), false, next_count);
  ElementwiseLaunch launch = builder.finish();
  Stage stage;
  stage.recurrence = RecurrenceClass::Elementwise;
  stage.launches.emplace_back(LoopLaunch{.kernel = launch.kernel,
                                         .accesses = std::move(launch.accesses),
                                         .carries = {{0, 5}, {1, 6}}});
  plan.stages.push_back(std::move(stage));
  return plan;
}

}  // namespace rnnc::test
