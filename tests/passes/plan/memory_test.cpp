// Which buffers share memory, on plans put together by hand; that packings are small and without
// overlaps, on random lifetimes; and both on the plans of all shipped cells and networks.
#include "passes/memory/memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "passes/build_plan.h"
#include "passes/memory/packing.h"
#include "tests/passes/cases.h"
#include "tests/passes/plan/small_plan.h"
#include "tests/support/cells/golden_cases.h"
#include "tests/support/cells/random_graph.h"
#include "tests/support/reference/plan_executor.h"

namespace rnnc::test {
namespace {

constexpr int64_t kRow = 2 * 64 * 4;  // bytes of a step of a buffer of width 64: 512
constexpr int64_t kChunk = 4 * kRow;

void assign(SmallPlan& small) {
  ASSERT_TRUE(assign_memory(small.plan, /*reuse=*/true));
  EXPECT_EQ(small.plan.workspace_bytes, live_workspace_bytes(small.plan));
}

bool share(const SmallPlan& small, BufferId a, BufferId b) {
  const auto end = [&](BufferId id) {
    return small.offset(id) + byte_size(small.plan, small.plan.buffers[id]);
  };
  return small.offset(a) < end(b) && small.offset(b) < end(a);
}

/// Chunks a to d, each made of the one before.
struct Chain : SmallPlan {
  BufferId x = caller("x", Role::Input, Extent::Steps, 64);
  BufferId y = caller("y", Role::Output, Extent::Steps, 64);
  BufferId a = buffer("a", Extent::Chunk, 64);
  BufferId b = buffer("b", Extent::Chunk, 64);
  BufferId c = buffer("c", Extent::Chunk, 64);
};

TEST(Memory, WithoutReuseEachBufferHasItsOwn) {
  Chain chain;
  chain.stage(Domain::Sequence, {chain.tanh({chain.row(chain.x)}, {chain.row(chain.a)}),
                                 chain.tanh({chain.row(chain.a)}, {chain.row(chain.b)}),
                                 chain.tanh({chain.row(chain.b)}, {chain.row(chain.y)})});
  ASSERT_TRUE(assign_memory(chain.plan, /*reuse=*/false));
  EXPECT_EQ(chain.plan.workspace_bytes, 3 * kChunk);
  EXPECT_EQ(chain.offset(chain.b), kChunk);
}

TEST(Memory, ElementwiseLaunchesWriteInPlaceOfWhatTheyReadLast) {
  Chain chain;
  chain.stage(Domain::Sequence, {chain.tanh({chain.row(chain.x)}, {chain.row(chain.a)}),
                                 chain.tanh({chain.row(chain.a)}, {chain.row(chain.b)}),
                                 chain.tanh({chain.row(chain.b)}, {chain.row(chain.c)}),
                                 chain.tanh({chain.row(chain.c)}, {chain.row(chain.y)})});
  assign(chain);
  EXPECT_EQ(chain.plan.workspace_bytes, kChunk);
}

TEST(Memory, WhatIsReadAgainStays) {
  Chain chain;
  chain.stage(Domain::Sequence,
              {chain.tanh({chain.row(chain.x)}, {chain.row(chain.a)}),
               chain.tanh({chain.row(chain.a)}, {chain.row(chain.b)}),
               chain.tanh({chain.row(chain.a), chain.row(chain.b)}, {chain.row(chain.c)}),
               chain.tanh({chain.row(chain.c)}, {chain.row(chain.y)})});
  assign(chain);
  EXPECT_FALSE(share(chain, chain.a, chain.b));
  EXPECT_EQ(chain.plan.workspace_bytes, 2 * kChunk);
}

TEST(Memory, ReductionsReadTheWholeRowFirst) {
  Chain chain;
  chain.stage(Domain::Sequence, {chain.tanh({chain.row(chain.x)}, {chain.row(chain.a)}),
                                 chain.mean({chain.row(chain.a)}, {chain.row(chain.b)}),
                                 chain.mean({chain.row(chain.b)}, {chain.row(chain.c)}),
                                 chain.mean({chain.row(chain.c)}, {chain.row(chain.y)})});
  assign(chain);
  EXPECT_FALSE(share(chain, chain.a, chain.b));
  EXPECT_FALSE(share(chain, chain.b, chain.c));
  EXPECT_TRUE(share(chain, chain.a, chain.c));
  EXPECT_EQ(chain.plan.workspace_bytes, 2 * kChunk);
}

TEST(Memory, AStoreBeforeTheLoadIsNotInPlace) {
  Chain chain;
  const Launch copy = chain.tanh({chain.row(chain.a)}, {chain.row(chain.b)});
  Kernel& kernel = chain.plan.kernels[0];  // stores a constant before it loads
  kernel.body = {{.kind = Instruction::Kind::Constant, .operands = {}},
                 {.kind = Instruction::Kind::Store, .vector = true, .argument = 1, .operands = {0}},
                 {.vector = true, .argument = 0, .operands = {}}};
  chain.stage(Domain::Sequence, {chain.tanh({chain.row(chain.x)}, {chain.row(chain.a)}), copy,
                                 chain.tanh({chain.row(chain.b)}, {chain.row(chain.y)})});
  assign(chain);
  EXPECT_FALSE(share(chain, chain.a, chain.b));
}

TEST(Memory, OtherShapesAreNotInPlace) {
  Chain chain;
  const BufferId wide = chain.buffer("wide", Extent::Chunk, 128);
  Access half = chain.row(wide);
  half.column = 64;
  chain.stage(Domain::Sequence,
              {chain.tanh({chain.row(chain.x)}, {chain.row(chain.a)}),
               chain.tanh({chain.row(chain.a)}, {half}), chain.tanh({half}, {chain.row(chain.y)})});
  chain.plan.kernels[1].length = 64;
  assign(chain);
  EXPECT_FALSE(share(chain, chain.a, wide));
}

/// A recurrence of two kernels behind products of x.
struct Recurrence : Chain {
  BufferId weight = resident("W", Extent::Invariant, 64 * 64);
  BufferId p = buffer("products of x", Extent::Chunk, 64);
  BufferId h = resident("h", Extent::Chunk, 64, 1);
  BufferId q = resident("products of h", Extent::Batch, 64);
  BufferId r = resident("r", Extent::Batch, 64);
  BufferId s = resident("s", Extent::Batch, 64);

  Recurrence() { state(h); }
  void add(uint32_t sweep = 0) {
    stage(Domain::Sequence, {gemm(p, row(x), weight)}, sweep);
    recurrence({gemm(q, row(h, 1), weight), tanh({row(p), row(q)}, {row(r)}),
                mean({row(r)}, {row(s)}), tanh({row(s)}, {row(h), row(a)})},
               sweep);
  }
};

TEST(Memory, ValuesOfAStepAreThereForAllOfThem) {
  // Slices of the batch may be at different steps.
  Recurrence net;
  net.add();
  net.stage(Domain::Sequence, {net.tanh({net.row(net.a)}, {net.row(net.y)})});
  assign(net);
  EXPECT_FALSE(share(net, net.q, net.r));
  EXPECT_FALSE(share(net, net.q, net.s));
  EXPECT_FALSE(share(net, net.h, net.s));
  EXPECT_EQ(net.plan.resident_bytes, 64 * 64 * 4 + 5 * kRow + 3 * kRow);  // W, h; q, r, s
}

TEST(Memory, StepsOfDifferentRecurrencesShare) {
  Recurrence net;
  const BufferId later = net.resident("later", Extent::Batch, 64);
  net.add();
  net.recurrence(
      {net.tanh({net.row(net.a)}, {net.row(later)}), net.tanh({net.row(later)}, {net.row(net.y)})});
  assign(net);
  EXPECT_EQ(net.plan.resident_bytes, 64 * 64 * 4 + 5 * kRow + 3 * kRow);
}

TEST(Memory, ChunksOutliveTheLoopOverSteps) {
  // At step 1 the products are read after `a` was written at step 0.
  Recurrence net;
  net.add();
  net.stage(Domain::Sequence, {net.tanh({net.row(net.a)}, {net.row(net.y)})});
  assign(net);
  EXPECT_FALSE(share(net, net.p, net.a));
  EXPECT_EQ(net.plan.workspace_bytes, 2 * kChunk);
}

TEST(Memory, OnceStagesKeepWhatOthersReadAndNothingElse) {
  Recurrence net;
  const BufferId param = net.caller("V", Role::Param, Extent::Invariant, 64 * 64);
  const BufferId temporary = net.resident("V^T", Extent::Invariant, 64 * 64);
  net.stage(Domain::Once, {CopyLaunch{{param}, {temporary}, 64, 64, true},
                           CopyLaunch{{temporary}, {net.weight}, 64, 64, true}});
  net.add();
  net.stage(Domain::Sequence, {net.tanh({net.row(net.a)}, {net.row(net.y)})});
  assign(net);
  EXPECT_FALSE(share(net, temporary, net.weight));
  EXPECT_TRUE(share(net, temporary, net.h));
  EXPECT_FALSE(share(net, net.weight, net.h));
  EXPECT_EQ(net.plan.resident_bytes, 2 * 64 * 64 * 4);
}

TEST(Memory, SweepsShare) {
  Recurrence net;
  const BufferId kept = net.buffer("kept", Extent::Steps, 64);
  const BufferId later = net.buffer("later", Extent::Steps, 64);
  const BufferId last = net.buffer("last", Extent::Steps, 64);
  net.add();
  net.stage(Domain::Sequence, {net.tanh({net.row(net.a)}, {net.row(kept)})});
  net.stage(
      Domain::Sequence,
      {ReverseLaunch{net.row(kept), net.row(net.b), 64},
       net.mean({net.row(net.b)}, {net.row(net.c)}), net.mean({net.row(net.c)}, {net.row(later)})},
      1);
  net.stage(Domain::Sequence, {net.tanh({net.row(later)}, {net.row(last)})}, 2);
  net.stage(Domain::Sequence, {net.tanh({net.row(last)}, {net.row(net.y)})}, 3);
  assign(net);
  EXPECT_EQ(net.plan.workspace_bytes, 2 * kChunk);
  EXPECT_TRUE(share(net, net.p, net.b) || share(net, net.p, net.c));
  EXPECT_EQ(net.plan.workspace_bytes_per_step, 2 * kRow);
  EXPECT_FALSE(share(net, kept, later));
  EXPECT_TRUE(share(net, kept, last));
}

TEST(Memory, LagsShareNothing) {
  Chain chain;
  chain.stage(Domain::Sequence, {chain.mean({chain.row(chain.x)}, {chain.row(chain.a)}),
                                 chain.mean({chain.row(chain.a)}, {chain.row(chain.y)})});
  chain.stage(Domain::Sequence, {chain.mean({chain.row(chain.x)}, {chain.row(chain.b)}),
                                 chain.mean({chain.row(chain.b)}, {chain.row(chain.y)})});
  assign(chain);
  EXPECT_TRUE(share(chain, chain.a, chain.b));
  chain.plan.stages[1].lag = 1;
  assign(chain);
  EXPECT_FALSE(share(chain, chain.a, chain.b));
}

TEST(Memory, IndependentRecurrencesOfALagShareNothing) {
  Chain chain;
  const BufferId s = chain.buffer("s", Extent::Batch, 64);
  const BufferId t = chain.buffer("t", Extent::Batch, 64);
  const auto add = [&](BufferId step, BufferId out) {
    chain.recurrence({chain.mean({chain.row(chain.x)}, {chain.row(step)}),
                      chain.mean({chain.row(step)}, {chain.row(out)})});
  };
  add(s, chain.a);
  add(t, chain.b);
  chain.stage(Domain::Sequence,
              {chain.mean({chain.row(chain.a), chain.row(chain.b)}, {chain.row(chain.y)})});
  assign(chain);
  EXPECT_EQ(chain.plan.workspace_bytes, 2 * kChunk + 2 * kRow);
  // The second reads the first: one after the other.
  chain.plan.stages[1].launches[0] = chain.mean({chain.row(chain.a)}, {chain.row(t)});
  assign(chain);
  EXPECT_EQ(chain.plan.workspace_bytes, 2 * kChunk + kRow);
}

TEST(Memory, RefusesWhatNoMachineHas) {
  Chain chain;
  chain.plan.batch = int64_t{1} << 40;
  const Status status = assign_memory(chain.plan, true);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message, "batch 1099511627776 needs more memory than any device has");
}

// ---- Packings ----

std::vector<Lifetime> random_lifetimes(std::mt19937_64& engine, size_t count) {
  std::vector<Lifetime> lifetimes(count);
  for (Lifetime& lifetime : lifetimes) {
    lifetime.bytes = 256 * static_cast<int64_t>(1 + engine() % 16);
    lifetime.begin = static_cast<uint32_t>(engine() % 20);
    lifetime.end = lifetime.begin + static_cast<uint32_t>(engine() % 6);
    lifetime.lane = engine() % 8 == 0 ? 1 : 0;
  }
  return lifetimes;
}

TEST(Packing, IsWithoutOverlapsAndNearlyAlwaysAsSmallAsCanBe) {
  std::mt19937_64 engine(1);
  int best = 0;
  constexpr int kTries = 300;
  for (int i = 0; i < kTries; ++i) {
    SCOPED_TRACE(i);
    const std::vector<Lifetime> lifetimes = random_lifetimes(engine, 1 + engine() % 40);
    const Packing packing = pack(lifetimes);
    const int64_t least = live_bytes(lifetimes);
    EXPECT_GE(packing.bytes, least);
    EXPECT_LE(static_cast<double>(packing.bytes), 1.2 * static_cast<double>(least));
    best += packing.bytes == least ? 1 : 0;
    for (size_t a = 0; a < lifetimes.size(); ++a) {
      EXPECT_EQ(packing.offsets[a] % 256, 0);
      EXPECT_LE(packing.offsets[a] + lifetimes[a].bytes, packing.bytes);
      for (size_t b = 0; b < a; ++b) {
        if (!overlap(lifetimes[a], lifetimes[b])) continue;
        EXPECT_TRUE(packing.offsets[a] + lifetimes[a].bytes <= packing.offsets[b] ||
                    packing.offsets[b] + lifetimes[b].bytes <= packing.offsets[a]);
      }
    }
  }
  EXPECT_GE(best, kTries * 4 / 5);
}

/// The least of all placings at multiples of 256 below `limit`.
bool fits(const std::vector<Lifetime>& lifetimes, int64_t limit, std::vector<int64_t>& offsets) {
  const size_t i = offsets.size();
  if (i == lifetimes.size()) return true;
  for (int64_t at = 0; at + lifetimes[i].bytes <= limit; at += 256) {
    const auto free = [&](size_t j) {
      return !overlap(lifetimes[i], lifetimes[j]) || offsets[j] + lifetimes[j].bytes <= at ||
             at + lifetimes[i].bytes <= offsets[j];
    };
    bool all = true;
    for (size_t j = 0; j < i; ++j) all = all && free(j);
    if (!all) continue;
    offsets.push_back(at);
    if (fits(lifetimes, limit, offsets)) return true;
    offsets.pop_back();
  }
  return false;
}

TEST(Packing, OfFewIsTheSmallestThereIs) {
  std::mt19937_64 engine(2);
  for (int i = 0; i < 200; ++i) {
    SCOPED_TRACE(i);
    std::vector<Lifetime> lifetimes = random_lifetimes(engine, 1 + engine() % 6);
    for (Lifetime& lifetime : lifetimes) {
      lifetime.bytes = lifetime.bytes / 1024 * 256 + 256;
      lifetime.begin /= 3;
      lifetime.end /= 3;
    }
    const int64_t bytes = pack(lifetimes).bytes;
    std::vector<int64_t> offsets;
    EXPECT_FALSE(fits(lifetimes, bytes - 256, offsets));
  }
}

TEST(Packing, LanesAreAtTheirWorstTogether) {
  // Lane 0: 2 then 3; lane 1: 4; all the time: 1.
  const std::vector<Lifetime> lifetimes = {
      {.buffers = {}, .bytes = 512, .begin = 0, .end = 0, .lane = 0},
      {.buffers = {}, .bytes = 768, .begin = 1, .end = 1, .lane = 0},
      {.buffers = {}, .bytes = 1024, .begin = 2, .end = 2, .lane = 1},
      {.buffers = {}, .bytes = 256, .begin = 0, .end = 2}};
  EXPECT_EQ(live_bytes(lifetimes), 768 + 1024 + 256);
  EXPECT_EQ(pack(lifetimes).bytes, 768 + 1024 + 256);
}

// ---- Plans of graphs ----

void check_bound(const Graph& graph, DType dtype, int64_t batch, int64_t steps) {
  for (const bool wavefront : {false, true}) {
    const PassSet passes = wavefront ? PassSet::all() : PassSet::all().without(Pass::Wavefront);
    const Result<Plan> plan =
        build_plan(graph, {.dtype = dtype, .batch = batch, .max_steps = steps, .passes = passes});
    ASSERT_TRUE(plan.has_value()) << plan.error().message;
    EXPECT_EQ(plan->workspace_bytes, live_workspace_bytes(*plan));
    const Result<Plan> plain = build_plan(graph, {.dtype = dtype,
                                                  .batch = batch,
                                                  .max_steps = steps,
                                                  .passes = passes.without(Pass::Reuse)});
    ASSERT_TRUE(plain.has_value()) << plain.error().message;
    EXPECT_LE(plan->workspace_bytes, plain->workspace_bytes);
    EXPECT_LE(plan->workspace_bytes_per_step, plain->workspace_bytes_per_step);
    EXPECT_LE(plan->resident_bytes, plain->resident_bytes);
  }
}

TEST(Memory, ShippedCellsNeedNoMoreThanLives) {
  for (const std::string& cell : golden_cells()) {
    const std::vector<GoldenCase> cases = golden_cases(cell, {DType::f32});
    for (const GoldenCase& golden_case : {cases.front(), cases.back()}) {
      SCOPED_TRACE(fmt::format("{} {}", cell, golden_case.name()));
      const Result<Graph> graph = golden_graph(golden_case);
      ASSERT_TRUE(graph.has_value()) << graph.error().message;
      check_bound(*graph, DType::f32, golden_case.size.batch, golden_case.size.steps);
      check_bound(*graph, DType::bf16, golden_case.size.batch, golden_case.size.steps);
    }
  }
}

TEST(Memory, SharingChangesNoBit) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const Graph graph = random_graph(seed, {.operations = 10 + static_cast<int>(seed % 50),
                                            .structure = seed % 4 > 0,
                                            .reversals = seed % 2 > 0});
    const InterpreterArgs args = random_args(graph, 7, 3, seed);
    const auto run = [&](PassSet passes) {
      const Result<Plan> plan =
          build_plan(graph, {.batch = 3, .max_steps = 7, .chunk = 3, .passes = passes});
      RNNC_CHECK(plan.has_value(), "{}", plan.error().message);
      return execute_plan(*plan, args);
    };
    const InterpreterResult with = run(PassSet::all());
    const InterpreterResult without = run(PassSet::all().without(Pass::Reuse));
    EXPECT_EQ(with.outputs, without.outputs);
    EXPECT_EQ(with.final_states, without.final_states);
  }
}

}  // namespace
}  // namespace rnnc::test
