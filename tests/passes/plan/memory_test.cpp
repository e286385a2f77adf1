// That packings are small and without overlaps, on random lifetimes and on the plans of all shipped
// cells and networks. Which buffers share memory: cases/memory.txt.
#include "passes/memory/memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "passes/build_plan.h"
#include "passes/memory/packing.h"
#include "tests/passes/cases.h"
#include "tests/support/cells/golden_cases.h"
#include "tests/support/cells/random_graph.h"
#include "tests/support/reference/plan_executor.h"

namespace rnnc::test {
namespace {

// ---- Packings ----

std::vector<Lifetime> random_lifetimes(std::mt19937_64& engine, size_t count) {
  std::vector<Lifetime> lifetimes(count);
  for (Lifetime& lifetime : lifetimes) {
    lifetime.bytes = 256 * static_cast<int64_t>(1 + engine() % 16);
    lifetime.begin = static_cast<uint32_t>(engine() % 20);
    lifetime.end = lifetime.begin + static_cast<uint32_t>(engine() % 6);
    lifetime.lag = engine() % 8 == 0 ? 1 : 0;
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
  // Lag 0: 2 then 3; lag 1: 4; all the time: 1.
  const std::vector<Lifetime> lifetimes = {{{.begin = 0, .end = 0, .lag = 0}, {}, 512},
                                           {{.begin = 1, .end = 1, .lag = 0}, {}, 768},
                                           {{.begin = 2, .end = 2, .lag = 1}, {}, 1024},
                                           {{.begin = 0, .end = 2}, {}, 256}};
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
    EXPECT_LE(plan->program_bytes, plain->program_bytes);
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
