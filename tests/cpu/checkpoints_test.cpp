// Training calls with checkpoints on the CPU: the bits of those without.
#include <gtest/gtest.h>

#include "runtime/arrays/signature.h"
#include "tests/support/cells/language_cells.h"
#include "tests/support/cells/networks.h"
#include "tests/support/cells/random_graph.h"
#include "tests/support/gradients/training_run.h"

namespace rnnc::test {
namespace {

bool streams(const Graph& graph) {
  const Result<Program> program = Program::compile(graph, {.threads = 1});
  return program && program->signature().streams;
}

TEST(CpuCheckpoints, OfRandomGraphs) {
  for (uint64_t seed = 0; seed < 24; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    check_checkpoints(random_graph(seed),
                      {.dtype = seed % 2 == 0 ? DType::f32 : DType::f64,
                       .threads = static_cast<int>(1 + seed % 2),
                       .chunk = static_cast<int64_t>(1 + seed % 3)},
                      {.steps = static_cast<int64_t>(3 + seed % 9),
                       .seed = seed,
                       .lengths = seed % 5 == 1,
                       .resets = seed % 5 >= 3,
                       .given_states = seed % 3 == 0},
                      {1, 2, 5, 100});
  }
}

TEST(CpuCheckpoints, OfLanguageCellsAndNetworks) {
  uint64_t seed = 0;
  int checked = 0;
  const auto check_one = [&](const std::string& name, const Graph& graph) {
    if (!streams(graph)) return;
    SCOPED_TRACE(name);
    ++seed;
    ++checked;
    check_checkpoints(graph, {.threads = 2, .chunk = 4},
                      {.steps = 30,
                       .seed = seed,
                       .lengths = seed % 2 == 1,
                       .resets = seed % 3 == 2,
                       .given_states = seed % 2 == 0},
                      {4, 12});
  };
  for (const std::string& name : language_cells()) check_one(name, language_cell(name, 7));
  for (const std::string& name : networks()) check_one(name, network(name, 7));
  EXPECT_GE(checked, 8);
}

/// What histories' adjoints have goes on from piece to piece, in one place of an array and in
/// several.
TEST(CpuCheckpoints, OfHistories) {
  uint64_t seed = 0;
  for (const std::string cell : {"Dilated", "Skip", "Lags", "Echoes"}) {
    for (const unsigned kind : {0U, 1U, 2U, 3U, 4U, 5U, 6U, 7U}) {
      SCOPED_TRACE(fmt::format("{}, {}", cell, kind));
      ++seed;
      check_checkpoints(tower({cell}, 7), {.threads = 2, .chunk = 4},
                        {.steps = 45,
                         .seed = seed,
                         .lengths = (kind & 1) != 0,
                         .resets = (kind & 2) != 0,
                         .given_states = (kind & 4) != 0},
                        {4, 12, 100});
    }
  }
}

/// The chunk that is chosen, and rows that fill blocks of sums.
TEST(CpuCheckpoints, OfManyRows) {
  check_checkpoints(network("Stack", 33), {.threads = 2},
                    {.steps = 700, .batch = 5, .lengths = true}, {1, 100});
}

}  // namespace
}  // namespace rnnc::test
