// Lengths and resets by hand, for a running sum forward and one in reverse.
#include "tests/support/reference/sequence_oracle.h"

#include <gtest/gtest.h>

#include <limits>

#include "ir/graph/text.h"

namespace rnnc {
namespace {

using Values = std::vector<double>;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// Declared initial values are 100 and 1000.
Graph sums() {
  Result<Graph> graph = parse_graph(R"(graph Sums {
    input x: []
    state f: []
    state r: [] reversed
    %0 = input x : []
    %1 = state f @ 1 : []
    %2 = add %0, %1 : []
    %3 = reverse %0 : []
    %4 = state r @ 1 : []
    %5 = add %3, %4 : []
    %6 = reverse %5 : []
    %7 = const 100 : []
    %8 = const 1000 : []
    %9 = input x @ 1 : []
    init f = %7
    init r = %8
    next f = %2
    next r = %5
    output forward = %2
    output backward = %6
    output before = %9
  })");
  EXPECT_TRUE(graph) << graph.error().message;
  return graph.value_or(Graph());
}

InterpreterArgs one_sequence(Values x, std::vector<Values> initial_states = {}) {
  InterpreterArgs args;
  args.steps = static_cast<int64_t>(x.size());
  args.batch = 1;
  args.inputs = {std::move(x)};
  args.initial_states = std::move(initial_states);
  return args;
}

TEST(SequenceOracle, WithoutLengthsAndResetsIsTheInterpreter) {
  const InterpreterArgs args = one_sequence({1, 2, 4}, {{0}, {5}});
  const InterpreterResult plain = interpret(sums(), args);
  const InterpreterResult result = interpret_sequences(sums(), args, {}, {});
  EXPECT_EQ(result.outputs, plain.outputs);
  EXPECT_EQ(result.final_states, plain.final_states);
}

TEST(SequenceOracle, LengthsEndEachSequenceByItself) {
  InterpreterArgs args;
  args.steps = 3;
  args.batch = 3;
  args.inputs = {{1, 10, kNan, 2, 20, kNan, 4, kNan, kNan}};
  args.initial_states = {{0, 0, 7}, {}};
  const InterpreterResult result = interpret_sequences(sums(), args, {3, 2, 0}, {});
  EXPECT_EQ(result.outputs[0], (Values{1, 10, 0, 3, 30, 0, 7, 0, 0}));
  EXPECT_EQ(result.outputs[1], (Values{1007, 1030, 0, 1006, 1020, 0, 1004, 0, 0}));
  EXPECT_EQ(result.outputs[2], (Values{0, 0, 0, 1, 10, 0, 2, 0, 0}));
  EXPECT_EQ(result.final_states[0], (Values{7, 30, 7}));
  EXPECT_EQ(result.final_states[1], (Values{1007, 1030, 1000}));
}

TEST(SequenceOracle, ResetsBeginAnew) {
  const InterpreterArgs args = one_sequence({1, 2, 4, 8}, {{0}, {0}});
  InterpreterResult result = interpret_sequences(sums(), args, {}, {0, 0, 1, 0});
  // The given states start the first segment forward and the last in reverse.
  EXPECT_EQ(result.outputs[0], (Values{1, 3, 104, 112}));
  EXPECT_EQ(result.outputs[1], (Values{1003, 1002, 12, 8}));
  EXPECT_EQ(result.outputs[2], (Values{0, 1, 0, 4}));
  EXPECT_EQ(result.final_states, (std::vector<Values>{{112}, {1003}}));
  // A reset at step 0 takes the given state from the forward layer alone.
  result = interpret_sequences(sums(), args, {}, {1, 0, 0, 1});
  EXPECT_EQ(result.outputs[0], (Values{101, 103, 107, 108}));
  EXPECT_EQ(result.outputs[1], (Values{1007, 1006, 1004, 8}));
  EXPECT_EQ(result.final_states, (std::vector<Values>{{108}, {1007}}));
}

TEST(SequenceOracle, ResetsPastTheEndMeanNothing) {
  const InterpreterArgs args = one_sequence({1, 2, 4, 8}, {{0}, {0}});
  const InterpreterResult result = interpret_sequences(sums(), args, {2}, {0, 1, 1, 1});
  EXPECT_EQ(result.outputs[0], (Values{1, 102, 0, 0}));
  EXPECT_EQ(result.outputs[1], (Values{1001, 2, 0, 0}));
  EXPECT_EQ(result.final_states, (std::vector<Values>{{102}, {1001}}));
  EXPECT_EQ(interpret_sequences(sums(), args, {0}, {1, 0, 0, 0}).final_states,
            (std::vector<Values>{{0}, {0}}));
}

TEST(SequenceOracle, ImpliedStatesStartAsTheirStateDoes) {
  Result<Graph> graph = parse_graph(R"(graph Implied {
    state h@2: [] delay of h
    state h: []
    %0 = state h@2 @ 1 : []
    %1 = state h @ 1 : []
    %2 = const 5 : []
    init h@2 = %2
    init h = %2
    next h@2 = %1
    next h = %0
    output y = %0
  })");
  ASSERT_TRUE(graph) << graph.error().message;
  InterpreterArgs args = {
      .steps = 3, .batch = 1, .inputs = {}, .params = {}, .initial_states = {{}, {7}}};
  EXPECT_EQ(interpret_sequences(*graph, args, {}, {0, 0, 1}).outputs[0], (Values{7, 7, 5}));
  EXPECT_EQ(interpret_sequences(*graph, args, {}, {1, 0, 0}).outputs[0], (Values{5, 5, 5}));
}

}  // namespace
}  // namespace rnnc
