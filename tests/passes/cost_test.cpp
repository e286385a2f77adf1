// Costs against sums done by hand.
#include "passes/cost/cost.h"

#include <gtest/gtest.h>

#include "passes/build_plan.h"
#include "passes/tile/recurrence_time.h"
#include "tests/passes/cases.h"
#include "tests/passes/plan/small_plan.h"

namespace rnnc::test {
namespace {

/// Numbers that are easy to divide by.
Machine machine() {
  Machine machine;
  machine.kind = Machine::Kind::Cuda;
  machine.units = 64;
  machine.exact_flops = 1e12;
  machine.tf32_flops = 4e12;
  machine.tensor_flops = 1e14;
  machine.memory_bandwidth = 1e11;
  machine.cache_bandwidth = 1e12;
  machine.cache_bytes = 10 << 20;
  machine.launch_seconds = 1e-6;
  machine.wave_seconds = 1e-6;
  return machine;
}

/// A step of LSTM of B 16, H 1024 in bf16.
struct Lstm : SmallPlan {
  BufferId h = program_buffer("h", Extent::Chunk, 1024, 1);
  BufferId weight = program_buffer("R", Extent::Invariant, 4096 * 1024);
  BufferId q = program_buffer("products of h", Extent::Batch, 4096);

  Lstm() {
    plan.batch = 16;
    plan.dtype = plan.buffers[h].dtype = plan.buffers[weight].dtype = DType::bf16;
    recurrence({gemm(q, row(h, 1), weight)});
  }
  const Stage& step() const { return plan.stages[0]; }
  Cost cost(const Machine& of) const { return cost_of(plan, step(), step().launches[0], of); }
};

TEST(Cost, OfAStepsProduct) {
  const Lstm lstm;
  const Cost cost = lstm.cost(machine());
  EXPECT_EQ(cost.flops, 2.0 * 16 * 1024 * 4096);
  const double bytes = 2.0 * 4096 * 1024 + 2.0 * 16 * 1024 + 4.0 * 16 * 4096;
  EXPECT_EQ(cost.bytes, bytes);
  // All of it stays in the cache: 8.7 MB at 1 TB/s take longer than 0.13 GFLOP at 100 TFLOP/s.
  EXPECT_DOUBLE_EQ(cost.floor_seconds, bytes / 1e12);
  EXPECT_DOUBLE_EQ(cost.seconds, 1e-6 + bytes / 1e12);
}

TEST(Cost, WeightsThatDoNotFitTheCacheComeFromMemory) {
  Lstm lstm;
  lstm.plan.stages[0].launches.push_back(lstm.tanh({}, {lstm.row(lstm.h)}));  // made by each step
  Machine small = machine();
  small.cache_bytes = 8'000'000;
  const double weights = 2.0 * 4096 * 1024;
  const double others = 2.0 * 16 * 1024 + 4.0 * 16 * 4096;
  EXPECT_DOUBLE_EQ(lstm.cost(small).floor_seconds, weights / 1e11 + others / 1e12);
}

TEST(Cost, ProductsHaveTheRateOfTheirType) {
  Lstm lstm;
  Machine fast = machine();
  fast.cache_bandwidth = 1e16;
  const double flops = 2.0 * 16 * 1024 * 4096;
  EXPECT_DOUBLE_EQ(lstm.cost(fast).floor_seconds, flops / 1e14);
  lstm.plan.dtype = DType::f32;
  EXPECT_DOUBLE_EQ(lstm.cost(fast).floor_seconds, flops / 1e12);
  lstm.plan.tf32 = true;
  EXPECT_DOUBLE_EQ(lstm.cost(fast).floor_seconds, flops / 4e12);
  lstm.plan.dtype = DType::f64;
  EXPECT_DOUBLE_EQ(lstm.cost(fast).floor_seconds, flops / 5e11);
}

TEST(Cost, LaunchesOfAStepReachAShareOfTheRates) {
  Lstm lstm;
  Machine fast = machine();
  fast.cache_bandwidth = 1e16;
  fast.step_product = {
      .tensor_flops = 0.5, .tf32_flops = 0.25, .exact_flops = 0.125, .seconds = 3e-6};
  fast.step_fused = {.tensor_flops = 0.1};
  fast.step_kernel = {.bandwidth = 0.01};
  const double flops = 2.0 * 16 * 1024 * 4096;
  EXPECT_DOUBLE_EQ(lstm.cost(fast).seconds, 4e-6 + flops / 5e13);
  EXPECT_DOUBLE_EQ(lstm.cost(fast).floor_seconds, flops / 1e14);
  lstm.plan.dtype = DType::f32;
  EXPECT_DOUBLE_EQ(lstm.cost(fast).seconds, 4e-6 + flops / 1.25e11);
  lstm.plan.tf32 = true;
  EXPECT_DOUBLE_EQ(lstm.cost(fast).seconds, 4e-6 + flops / 1e12);
  lstm.plan.tf32 = false;
  fast.cache_bandwidth = 1e9;
  fast.step_product.bandwidth = 0.5;
  EXPECT_DOUBLE_EQ(lstm.cost(fast).seconds, 4e-6 + 2 * lstm.cost(fast).floor_seconds);
  lstm.plan.stages[0].launches.push_back(lstm.tanh({}, {lstm.row(lstm.h)}));
  const Cost kernel = cost_of(lstm.plan, lstm.step(), lstm.step().launches[1], fast);
  EXPECT_DOUBLE_EQ(kernel.seconds, 1e-6 + 100 * kernel.floor_seconds);
  EXPECT_DOUBLE_EQ(cost_of(lstm.plan, lstm.step(), fast).seconds,
                   lstm.cost(fast).seconds + kernel.seconds);
  // A product of a chunk's steps has the rates as they are.
  lstm.plan.stages[0].domain = Domain::Sequence;
  EXPECT_DOUBLE_EQ(lstm.cost(fast).seconds, 1e-6 + lstm.cost(fast).floor_seconds);
}

TEST(Cost, SmallProductsLeaveUnitsIdle) {
  Lstm lstm;
  Machine wide = machine();
  wide.cache_bandwidth = 1e16;
  wide.units = 1280;  // ten for each of its 128 tiles of 32 columns
  const double flops = 2.0 * 16 * 1024 * 4096;
  EXPECT_DOUBLE_EQ(lstm.cost(wide).seconds, 1e-6 + 10 * flops / 1e14);
}

TEST(Cost, OfAFusedLaunchHasNoResultsInMemory) {
  Lstm lstm;
  const BufferId out = lstm.program_buffer("out", Extent::Batch, 4096);
  const ElementwiseLaunch body = lstm.tanh({lstm.row(lstm.q)}, {lstm.row(out)});
  FusedLaunch fused;
  fused.kernel = body.kernel;
  fused.accesses = {{kNoBuffer, 0, 0, 0}, lstm.row(out)};
  lstm.plan.kernels[body.kernel].arguments[0].product = true;
  fused.products = {{lstm.row(lstm.h, 1), {lstm.weight, 0, 0, 0}, 1024, 1, 0, 1}};
  const Cost cost = cost_of(lstm.plan, lstm.step(), fused, machine());
  // Besides the product an addition and a tanh, which counts as 10.
  EXPECT_EQ(cost.flops, 2.0 * 16 * 1024 * 4096 + 16.0 * 4096 * 11);
  EXPECT_EQ(cost.bytes, 2.0 * 4096 * 1024 + 2.0 * 16 * 1024 + 4.0 * 16 * 4096);
}

TEST(Cost, OfSequencesIsThatOfAChunk) {
  SmallPlan small;  // batch 2, chunk 4
  const BufferId x = small.caller("x", Role::Input, Extent::Steps, 100);
  const BufferId bias = small.caller("b", Role::Param, Extent::Invariant, 100);
  const BufferId y = small.caller("y", Role::Output, Extent::Steps, 100);
  const Stage& stage =
      small.stage(Domain::Sequence,
                  {small.tanh({small.row(x), small.row(x), small.row(bias)}, {small.row(y)})});
  const Cost cost = cost_of(small.plan, stage, stage.launches[0], machine());
  EXPECT_EQ(cost.flops, 8.0 * 100 * (3 + 10));
  EXPECT_EQ(cost.bytes, 4.0 * 100 * (8 + 1 + 8));  // x is read once
  EXPECT_DOUBLE_EQ(cost.floor_seconds, 4.0 * 100 * 16 / 1e11 + 4.0 * 100 / 1e12);
}

TEST(Cost, OfALoopIsNoLessThanItsStepsOneByOne) {
  SmallPlan small;
  small.plan.chunk = 1000;
  const BufferId x = small.caller("x", Role::Input, Extent::Steps, 8);
  const BufferId s = small.buffer("s", Extent::Batch, 8);
  const ElementwiseLaunch body = small.tanh({small.row(s), small.row(x)}, {small.row(s)});
  LoopLaunch loop;
  loop.kernel = body.kernel;
  loop.accesses = body.accesses;
  loop.carries = {{0, 2}};
  const Stage& stage = small.stage(Domain::Sequence, {loop});
  const Cost cost = cost_of(small.plan, stage, stage.launches[0], machine());
  EXPECT_EQ(cost.flops, 1000.0 * 2 * 8 * 12);
  EXPECT_EQ(cost.bytes, 4.0 * 2 * 8 * (1000 + 1 + 1));  // the state is loaded and stored once
  // Two additions and a hyperbolic tangent, which takes two special functions.
  EXPECT_DOUBLE_EQ(cost.seconds, 1e-6 + 1000 * (50e-9 + 3 * 0.9e-9 + 2 * 10e-9));
}

TEST(Cost, OfAResidentRecurrenceIsItsStepsAndTheLoadingOfWeights) {
  const auto seconds = [](int64_t chunk) {
    const Plan plan = *build_plan(load_case("lstm"), {.dtype = DType::bf16,
                                                      .batch = 2,
                                                      .max_steps = 100,
                                                      .chunk = chunk,
                                                      .passes = PassSet::all(),
                                                      .machine = h200_machine()});
    const Stage& stage = plan.stages.back();
    const auto& launch = std::get<RecurrenceLaunch>(stage.launches[0]);
    const RecurrenceTime time = time_of(plan, launch, h200_machine());
    const Cost cost = cost_of(plan, stage, stage.launches[0], h200_machine());
    EXPECT_DOUBLE_EQ(cost.seconds, h200_machine().launch_seconds + time.start +
                                       time.step * static_cast<double>(chunk));
    EXPECT_GT(cost.flops, 2.0 * 2 * static_cast<double>(chunk) * 4 * 4 * 4);
    return cost.seconds;
  };
  EXPECT_GT(seconds(100), 5 * seconds(10));
}

/// Two recurrences of one launch of 1 µs each, and no work to speak of.
struct Two : SmallPlan {
  Two() {
    const BufferId a = buffer("a", Extent::Chunk, 1);
    const BufferId b = buffer("b", Extent::Chunk, 1);
    recurrence({tanh({}, {row(a)})});
    recurrence({tanh({row(a)}, {row(b)})});
  }
};

TEST(Cost, OfACallAddsUpStepsAndWaves) {
  const Two two;  // 10 steps in 3 waves
  EXPECT_NEAR(cost_of(two.plan, 10, machine()).seconds, 2 * 10e-6 + 3e-6, 1e-8);
}

TEST(Cost, LagsOverlapButForTheRamp) {
  Two two;
  two.plan.stages[1].lag = 1;
  // Waves of 4, 4, 4 and 2 steps.
  EXPECT_NEAR(cost_of(two.plan, 10, machine()).seconds, 14e-6 + 4e-6, 1e-8);
  // Many equal waves: 1000 chunks and one more.
  EXPECT_NEAR(cost_of(two.plan, 4000, machine()).seconds, 4004e-6 + 1001e-6, 1e-6);
}

TEST(Cost, OnACpuNothingOverlaps) {
  Two two;
  two.plan.stages[1].lag = 1;
  Machine cpu = machine();
  cpu.kind = Machine::Kind::Cpu;
  EXPECT_NEAR(cost_of(two.plan, 10, cpu).seconds, 20e-6 + 4e-6, 1e-7);
}

TEST(Cost, IndependentRecurrencesOverlap) {
  Two two;
  two.plan.stages[1].launches[0] = two.tanh({}, {two.row(1)});
  EXPECT_NEAR(cost_of(two.plan, 10, machine()).seconds, 10e-6 + 3e-6, 1e-8);
}

TEST(Cost, WhatOverlapsHasOneMachineTogether) {
  Lstm lstm;
  const double alone = lstm.cost(machine()).floor_seconds;
  Machine quick = machine();
  quick.launch_seconds = quick.wave_seconds = 0;
  const BufferId other = lstm.program_buffer("other", Extent::Batch, 4096);
  lstm.recurrence({lstm.gemm(other, lstm.row(lstm.h, 1), lstm.weight)});
  EXPECT_NEAR(cost_of(lstm.plan, 8, quick).seconds, 8 * 2 * alone, 1e-6);
  // What each of them does not reach alone, they do not reach together.
  quick.step_product.bandwidth = 0.25;
  EXPECT_NEAR(cost_of(lstm.plan, 8, quick).seconds, 8 * 2 * 4 * alone, 1e-6);
}

TEST(Machine, RatesOfProducts) {
  const Machine h200 = h200_machine();
  EXPECT_EQ(product_flops(h200, DType::f32, false), h200.exact_flops);
  EXPECT_EQ(product_flops(h200, DType::f32, true), h200.tf32_flops);
  EXPECT_EQ(product_flops(h200, DType::f16, false), h200.tensor_flops);
  EXPECT_EQ(product_flops(h200, DType::f64, false), h200.exact_flops / 2);
  EXPECT_EQ(cpu_machine(4).exact_flops, 4 * cpu_machine(1).exact_flops);
  EXPECT_EQ(cpu_machine(0).units, 1);
}

}  // namespace
}  // namespace rnnc::test
