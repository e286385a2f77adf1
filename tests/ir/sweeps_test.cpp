#include "ir/graph/sweeps.h"

#include <gtest/gtest.h>

#include "ir/graph/text.h"

namespace rnnc {
namespace {

Graph parsed_sweep(std::string_view text) {
  Result<Graph> graph = parse_graph(text);
  EXPECT_TRUE(graph) << graph.error().message;
  return graph.value_or(Graph());
}

constexpr const char* kTwoLayers = R"(graph TwoLayers {
  input x: []
  param p: []
  state a: []
  state b: [] reversed
  state c: []
  %0 = input x : []
  %1 = reverse %0 : []
  %2 = state b @ 1 : []
  %3 = add %1, %2 : []
  %4 = reverse %3 : []
  %5 = state a @ 1 : []
  %6 = add %4, %5 : []
  %7 = param p : []
  %8 = reverse %7 : []
  %9 = add %8, %3 : []
  %10 = state c @ 2 : []
  %11 = reverse %6 : []
  %12 = input x @ 1 : []
  %13 = reverse %12 : []
  %14 = mul %3, %11 : []
  init a = %7
  init b = %7
  init c = %7
  next a = %6
  next b = %3
  next c = %6
})";

TEST(Sweeps, CountReversesOfComputedValues) {
  const auto sweeps = find_sweeps(parsed_sweep(kTwoLayers));
  ASSERT_TRUE(sweeps);
  // Reading the input backwards (%1) needs no sweep before; the read of a (%5) is in the sweep
  // that computes it, as is that of c (%10), which nobody else holds there.
  EXPECT_EQ(*sweeps, (std::vector<uint32_t>{0, 0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 2, 0, 1, 2}));
}

TEST(Sweeps, Directions) {
  const auto reversed = find_reversed(parsed_sweep(kTwoLayers));
  ASSERT_TRUE(reversed);
  EXPECT_EQ(*reversed, (std::vector<bool>{false, true, true, true, false, false, false, false,
                                          false, true, false, true, false, true, true}));
  const std::vector<Direction> directions = find_directions(parsed_sweep(kTwoLayers));
  EXPECT_EQ(directions[7], Direction::Invariant);
  EXPECT_EQ(directions[8], Direction::Invariant);
}

TEST(Sweeps, MasksRunAsTheySay) {
  const std::vector<Direction> directions = find_directions(
      parsed_sweep("graph G { %0 = valid : [] %1 = valid reversed : [] %2 = reset : []\n"
                   "%3 = reset reversed : [] %4 = reverse %3 : [] %5 = eye : [2, 2] }"));
  EXPECT_EQ(directions, (std::vector<Direction>{Direction::Forward, Direction::Reversed,
                                                Direction::Forward, Direction::Reversed,
                                                Direction::Forward, Direction::Invariant}));
}

TEST(Sweeps, MixedDirectionsAreFound) {
  const Graph graph = parsed_sweep(
      "graph G { input x: [] %0 = input x : [] %1 = reverse %0 : [] %2 = add %0, %1 : []\n"
      "%3 = reverse %2 : [] }");
  EXPECT_FALSE(find_reversed(graph));
  const std::vector<Direction> directions = find_directions(graph);
  EXPECT_EQ(directions[1], Direction::Reversed);
  EXPECT_EQ(directions[2], Direction::Mixed);
  EXPECT_EQ(directions[3], Direction::Mixed);
}

TEST(Sweeps, ARecurrenceThroughAReverseHasNone) {
  EXPECT_FALSE(find_sweeps(parsed_sweep(R"(graph G {
    state a: []
    %0 = state a @ 1 : []
    %1 = reverse %0 : []
    %2 = reverse %1 : []
    next a = %2
  })")));
}

TEST(Sweeps, ChainsOfStatesTakeTheLastSweep) {
  // The states are declared against the order in which values pass through them.
  const auto sweeps = find_sweeps(parsed_sweep(R"(graph G {
    input x: []
    state c: []
    state b: []
    state a: []
    %0 = state c @ 1 : []
    %1 = state b @ 1 : []
    %2 = state a @ 1 : []
    %3 = input x : []
    %4 = neg %3 : []
    %5 = reverse %4 : []
    %6 = neg %5 : []
    %7 = reverse %6 : []
    next c = %1
    next b = %2
    next a = %7
  })"));
  ASSERT_TRUE(sweeps);
  EXPECT_EQ(*sweeps, (std::vector<uint32_t>{2, 2, 2, 0, 0, 1, 1, 2}));
}

}  // namespace
}  // namespace rnnc
