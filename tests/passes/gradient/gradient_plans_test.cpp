// Plans of both halves of a derivative compute what the interpreter does, run by the plain executor
// of tests/support.
#include <gtest/gtest.h>

#include <random>

#include "tests/passes/graph/pass_check.h"
#include "tests/support/cells/language_cells.h"
#include "tests/support/cells/networks.h"
#include "tests/support/gradients/half_check.h"

namespace rnnc::test {
namespace {

Result<InterpreterResult> execute(const Plan& plan, const InterpreterArgs& args,
                                  const SequenceArgs& sequences) {
  return execute_plan(plan, args, sequences);
}

TEST(GradientPlans, RandomGraphs) {
  for (uint64_t seed = 0; seed < 120; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    check_halves(any_random_graph(seed),
                 {.steps = static_cast<int64_t>(1 + seed % 9),
                  .chunk = static_cast<int64_t>(1 + seed % 4),
                  .seed = seed,
                  .lengths = seed % 5 == 1,
                  .resets = seed % 5 >= 3,
                  .given_states = seed % 3 == 0},
                 execute);
  }
}

/// In f32 or bf16, with about two passes of three.
void check_any_passes(uint64_t seed) {
  SCOPED_TRACE(fmt::format("seed {}", seed));
  PassSet passes = PassSet::all();
  std::mt19937_64 engine(seed);
  for (const PassInfo& info : all_passes()) {
    if (engine() % 3 == 0) passes = passes.without(info.pass);
  }
  check_halves(any_random_graph(seed),
               {.seed = seed,
                .dtype = seed % 2 == 0 ? DType::f32 : DType::bf16,
                .given_states = seed % 3 == 0,
                .passes = passes,
                .machine = seed % 4 < 2 ? Machine{} : h200_machine()},
               execute);
}

TEST(GradientPlans, RandomGraphsInEveryTypeWithAnyPasses) {
  for (uint64_t seed = 200; seed < 260; ++seed) check_any_passes(seed);
}

/// Of 16-bit arrays totals take products' results rounded, which a kernel stores first.
/// What products take of params is rounded, and no more of them, nor of their gradients.
TEST(GradientPlans, F32ParamsBeside16BitArrays) {
  int rounded = 0;
  for (uint64_t seed = 300; seed < 340; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const auto count = [&](const Plan& plan, const InterpreterArgs& args,
                           const SequenceArgs& sequences) {
      for (const Buffer& buffer : plan.buffers) {
        const bool of_param = buffer.role == Role::Param || buffer.role == Role::Result;
        EXPECT_TRUE(!of_param || buffer.dtype == DType::f32) << buffer.name;
      }
      for (const Stage& stage : plan.stages) {
        if (stage.domain == Domain::Once) ++rounded;
      }
      return execute(plan, args, sequences);
    };
    check_halves(any_random_graph(seed),
                 {.chunk = static_cast<int64_t>(1 + seed % 4),
                  .seed = seed,
                  .dtype = seed % 2 == 0 ? DType::bf16 : DType::f16,
                  .param_dtype = DType::f32,
                  .lengths = seed % 5 == 1,
                  .given_states = seed % 3 == 0},
                 count);
  }
  EXPECT_GE(rounded, 20);
}

TEST(GradientPlans, TotalsOfProducts) {
  for (const uint64_t seed : {30005, 30219}) check_any_passes(seed);
}

TEST(GradientPlans, LanguageCellsAndNetworks) {
  uint64_t seed = 0;
  const auto check = [&](const std::string& name, const Graph& graph) {
    SCOPED_TRACE(name);
    ++seed;
    check_halves(graph, {.seed = seed}, execute);
    check_halves(graph, {.seed = seed, .dtype = DType::f32, .machine = h200_machine()}, execute);
    check_halves(graph, {.seed = seed, .lengths = true, .given_states = true}, execute);
  };
  for (const std::string& name : language_cells()) check(name, language_cell(name, 6));
  for (const std::string& name : networks()) check(name, network(name, 5));
}

// Adjoints of histories are histories, and no state is an array that moves at each step.
TEST(GradientPlans, OfHistories) {
  uint64_t seed = 0;
  for (const std::string cell : {"Dilated", "Skip", "Lags", "Echoes"}) {
    for (const int64_t steps : {1, 7, 45}) {
      for (const int64_t chunk : {3, 11, 40}) {
        SCOPED_TRACE(fmt::format("{}, {} steps, chunks of {}", cell, steps, chunk));
        ++seed;
        const auto run = [&](const Plan& plan, const InterpreterArgs& args,
                             const SequenceArgs& sequences) {
          for (const Buffer& buffer : plan.buffers) {
            const bool of_history = buffer.name.find("@history") != std::string::npos;
            const bool moves = of_history && buffer.extent == Extent::Chunk && buffer.width > 4 * 5;
            EXPECT_FALSE(moves) << buffer.name;
          }
          return execute(plan, args, sequences);
        };
        for (const unsigned kind : {0U, 1U, 2U, 3U, 4U, 5U, 6U, 7U}) {
          check_halves(tower({cell, cell}, 5),
                       {.steps = steps,
                        .batch = 4,
                        .chunk = chunk,
                        .seed = seed,
                        .dtype = chunk == 3 ? DType::f64 : DType::f32,
                        .lengths = (kind & 1) != 0,
                        .resets = (kind & 2) != 0,
                        .given_states = (kind & 4) != 0,
                        .machine = chunk == 3 ? Machine{} : h200_machine()},
                       run);
        }
      }
    }
  }
}

}  // namespace
}  // namespace rnnc::test
