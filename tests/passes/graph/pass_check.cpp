#include "tests/passes/graph/pass_check.h"

#include <gtest/gtest.h>

#include <cmath>

#include "ir/graph/interpreter.h"
#include "ir/graph/text.h"
#include "ir/graph/verify.h"
#include "tests/passes/cases.h"
#include "tests/support/cells/random_graph.h"

namespace rnnc::test {
namespace {

/// Sums in another order, and no more.
constexpr double kTolerance = 1e-12;

bool is_close(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return a == b || std::abs(a - b) <= kTolerance * (1 + std::abs(b));
}

void expect_close(const std::vector<std::vector<double>>& actual,
                  const std::vector<std::vector<double>>& expected, const char* what) {
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_EQ(actual[i].size(), expected[i].size()) << what << " " << i;
    for (size_t j = 0; j < expected[i].size(); ++j) {
      ASSERT_TRUE(is_close(actual[i][j], expected[i][j]))
          << what << " " << i << " at " << j << ": " << actual[i][j] << ", not " << expected[i][j];
    }
  }
}

}  // namespace

std::string normal(const std::string& text) {
  return to_string(graph_from(text));
}

Graph any_random_graph(uint64_t seed) {
  return random_graph(
      seed, {.structure = seed % 2 != 0, .reversals = seed % 4 >= 2, .far = seed % 8 >= 5});
}

void expect_same_results(const Graph& before, const Graph& after, uint64_t seed, int64_t steps) {
  for (const bool given : {false, true}) {
    InterpreterArgs args = random_args(before, steps, /*batch=*/2, seed, given);
    const InterpreterResult expected = interpret(before, args);
    if (given) args.initial_states.resize(after.states.size());
    const InterpreterResult actual = interpret(after, args);
    ASSERT_EQ(actual.outputs.size(), expected.outputs.size());
    ASSERT_GE(actual.final_states.size(), expected.final_states.size());
    expect_close(actual.outputs, expected.outputs, "output");
    expect_close(actual.final_states, expected.final_states, "final state");
  }
}

}  // namespace rnnc::test
