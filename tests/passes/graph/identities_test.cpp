#include "passes/graph/identities.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "ir/graph/interpreter.h"
#include "ir/graph/text.h"
#include "ir/graph/verify.h"
#include "passes/graph/dead_code.h"
#include "tests/passes/cases.h"
#include "tests/passes/graph/pass_check.h"

namespace rnnc::test {
namespace {

/// A graph of vectors x and y (%0, %1) and scalar s (%2) that computes `lines` and gives `result`.
std::string graph_text(const std::string& lines, const std::string& result) {
  return fmt::format(R"(graph G() {{
    input x: [3]
    input y: [3]
    input s: []
    %0 = input x : [3]
    %1 = input y : [3]
    %2 = input s : []
    {}
    output kept_x = %0
    output kept_y = %1
    output kept_s = %2
    output z = {}
  }})",
                     lines, result);
}

struct Identity {
  const char* before;
  const char* result;
  const char* after;
  const char* simpler;
};

constexpr Identity kIdentities[] = {
    // Nothing done.
    {"%3 = const 1 : []\n %4 = mul %0, %3 : [3]", "%4", "", "%0"},
    {"%3 = const 1 : []\n %4 = mul %3, %0 : [3]", "%4", "", "%0"},
    {"%3 = const 1 : []\n %4 = div %0, %3 : [3]", "%4", "", "%0"},
    {"%3 = const 0 : []\n %4 = sub %0, %3 : [3]", "%4", "", "%0"},
    {"%3 = const -0 : []\n %4 = add %0, %3 : [3]", "%4", "", "%0"},
    {"%3 = const -0 : []\n %4 = add %3, %0 : [3]", "%4", "", "%0"},
    {"%3 = const 1 : []\n %4 = pow %0, %3 : [3]", "%4", "", "%0"},
    {"%3 = neg %0 : [3]\n %4 = neg %3 : [3]", "%4", "", "%0"},
    {"%3 = relu %0 : [3]\n %4 = relu %3 : [3]", "%4", "%3 = relu %0 : [3]", "%3"},
    {"%3 = min %0, %0 : [3]", "%3", "", "%0"},
    {"%3 = max %0, %0 : [3]", "%3", "", "%0"},
    {"%3 = where %1, %0, %0 : [3]", "%3", "", "%0"},
    {"%3 = where %0, %2, %2 : [3]", "%3", "%3 = broadcast %2 : [3]", "%3"},
    {"%3 = const 2 : []\n %4 = where %3, %0, %1 : [3]", "%4", "", "%0"},
    {"%3 = const nan : []\n %4 = where %3, %0, %1 : [3]", "%4", "", "%0"},
    {"%3 = const -0 : []\n %4 = where %3, %0, %1 : [3]", "%4", "", "%1"},
    {"%3 = const 1 : []\n %4 = where %3, %2, %1 : [3]", "%4", "%3 = broadcast %2 : [3]", "%3"},
    // Signs.
    {"%3 = const -1 : []\n %4 = mul %0, %3 : [3]", "%4", "%3 = neg %0 : [3]", "%3"},
    {"%3 = const -1 : []\n %4 = mul %3, %0 : [3]", "%4", "%3 = neg %0 : [3]", "%3"},
    {"%3 = const -1 : []\n %4 = div %0, %3 : [3]", "%4", "%3 = neg %0 : [3]", "%3"},
    {"%3 = neg %0 : [3]\n %4 = neg %1 : [3]\n %5 = mul %3, %4 : [3]", "%5", "%3 = mul %0, %1 : [3]",
     "%3"},
    {"%3 = neg %1 : [3]\n %4 = add %0, %3 : [3]", "%4", "%3 = sub %0, %1 : [3]", "%3"},
    {"%3 = neg %0 : [3]\n %4 = add %3, %1 : [3]", "%4", "%3 = sub %1, %0 : [3]", "%3"},
    {"%3 = neg %1 : [3]\n %4 = sub %0, %3 : [3]", "%4", "%3 = add %0, %1 : [3]", "%3"},
    {"%3 = neg %2 : []\n %4 = sub %0, %3 : [3]", "%4", "%3 = add %0, %2 : [3]", "%3"},
    {"%3 = neg %0 : [3]\n %4 = abs %3 : [3]", "%4", "%3 = abs %0 : [3]", "%3"},
    {"%3 = abs %0 : [3]\n %4 = abs %3 : [3]", "%4", "%3 = abs %0 : [3]", "%3"},
    // Cheaper.
    {"%3 = const 2 : []\n %4 = pow %0, %3 : [3]", "%4", "%3 = mul %0, %0 : [3]", "%3"},
    {"%3 = const 8 : []\n %4 = div %0, %3 : [3]", "%4",
     "%3 = const 0.125 : []\n %4 = mul %0, %3 : [3]", "%4"},
    {"%3 = const -0.25 : []\n %4 = div %0, %3 : [3]", "%4",
     "%3 = const -4 : []\n %4 = mul %0, %3 : [3]", "%4"},
    // One after the other.
    {"%3 = const -1 : []\n %4 = mul %1, %3 : [3]\n %5 = add %0, %4 : [3]", "%5",
     "%3 = sub %0, %1 : [3]", "%3"},
};

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// The last output of a graph of `graph_text`, for every pair of values that are special somewhere.
std::vector<double> results_on_special_values(const Graph& graph) {
  const double values[] = {kNan,    kInfinity, -kInfinity, 0.0,    -0.0,  1.0,  -1.0, 2.5,
                           -3e-310, 1e-320,    1e308,      -1e308, 7e-40, 3e38, 0.1};
  std::vector<double> results;
  for (double x : values) {
    for (double y : values) {
      const std::vector<double> z = interpret(graph, {.steps = 1,
                                                      .batch = 1,
                                                      .inputs = {{x, y, x}, {y, x, -x}, {y}},
                                                      .params = {},
                                                      .initial_states = {}})
                                        .outputs.back();
      results.insert(results.end(), z.begin(), z.end());
    }
  }
  return results;
}

TEST(Identities, AreTextInTextOutAndHoldToTheBit) {
  for (const Identity& identity : kIdentities) {
    SCOPED_TRACE(identity.before);
    const Graph before = graph_from(graph_text(identity.before, identity.result));
    Graph graph = before;
    EXPECT_TRUE(run_identities(graph));
    run_dead_code(graph);
    ASSERT_TRUE(verify(graph));
    EXPECT_EQ(to_string(graph), normal(graph_text(identity.after, identity.simpler)));
    EXPECT_FALSE(run_identities(graph));

    const std::vector<double> expected = results_on_special_values(before);
    const std::vector<double> results = results_on_special_values(graph);
    ASSERT_EQ(results.size(), expected.size());
    for (size_t i = 0; i < results.size(); ++i) {
      if (std::isnan(expected[i]) && std::isnan(results[i])) continue;
      EXPECT_EQ(std::bit_cast<uint64_t>(results[i]), std::bit_cast<uint64_t>(expected[i]))
          << results[i] << " for " << expected[i];
    }
  }
}

TEST(Identities, LeaveWhatIsOtherForSomeValue) {
  constexpr const char* kNotIdentities[] = {
      "%3 = const 0 : []\n %4 = mul %0, %3 : [3]",    // NaN, infinity, -1
      "%3 = const 0 : []\n %4 = add %0, %3 : [3]",    // -0
      "%3 = const -0 : []\n %4 = sub %0, %3 : [3]",   // -0
      "%3 = const 0 : []\n %4 = sub %3, %0 : [3]",    // 0
      "%3 = const 0 : []\n %4 = div %3, %0 : [3]",    // 0, NaN
      "%3 = const 0 : []\n %4 = pow %0, %3 : [3]",    // NaN
      "%3 = const 0.5 : []\n %4 = pow %0, %3 : [3]",  // -infinity
      "%3 = const 3 : []\n %4 = div %0, %3 : [3]",    // rounding
      "%3 = const 1e-38 : []\n %4 = div %0, %3 : [3]",
      "%3 = const 0 : []\n %4 = max %0, %3 : [3]",  // not a relu of -0 everywhere
      "%3 = neg %0 : [3]\n %4 = mul %3, %1 : [3]",  // no fewer ops
      "%3 = const 1 : []\n %4 = div %3, %0 : [3]",
      "%3 = sub %0, %0 : [3]\n %4 = div %3, %3 : [3]",  // NaN
      "%3 = where %2, %0, %1 : [3]\n %4 = neg %3 : [3]",
  };
  for (const char* lines : kNotIdentities) {
    SCOPED_TRACE(lines);
    Graph graph = graph_from(graph_text(lines, "%4"));
    const std::string before = to_string(graph);
    EXPECT_FALSE(run_identities(graph));
    EXPECT_EQ(to_string(graph), before);
  }
}

}  // namespace
}  // namespace rnnc::test
