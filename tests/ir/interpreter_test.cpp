#include "ir/graph/interpreter.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ir/graph/text.h"
#include "ir/graph/verify.h"
#include "tests/support/expect_bug.h"

namespace rnnc {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

using Values = std::vector<double>;

InterpreterResult run(std::string_view text, const InterpreterArgs& args) {
  const Result<Graph> graph = parse_graph(text);
  EXPECT_TRUE(graph) << graph.error().message;
  if (!graph) return {};
  const Status verified = verify(*graph);
  EXPECT_TRUE(verified) << verified.error().message;
  return verified ? interpret(*graph, args) : InterpreterResult();
}

/// One step, batch 1, of an expression over two params.
Values once(std::string_view left_shape, const Values& left, std::string_view right_shape,
            const Values& right, std::string_view node) {
  const std::string text = fmt::format(
      "graph G {{\n input x: [{0}]\n param W: [{1}]\n"
      " %0 = input x : [{0}]\n %1 = param W : [{1}]\n %2 = {2}\n output y = %2\n}}",
      left_shape, right_shape, node);
  return run(text,
             {.steps = 1, .batch = 1, .inputs = {left}, .params = {right}, .initial_states = {}})
      .outputs.at(0);
}

TEST(Interpreter, MatMulOnRanksOneAndTwo) {
  const Values matrix = {1, 2, 3, 4, 5, 6};
  EXPECT_EQ(once("3", {1, 10, 100}, "2, 3", matrix, "matmul %1, %0 : [2]"), (Values{321, 654}));
  EXPECT_EQ(once("2", {1, 10}, "2, 3", matrix, "matmul %0, %1 : [3]"), (Values{41, 52, 63}));
  EXPECT_EQ(once("3", {1, 2, 3}, "3", {4, 5, 6}, "matmul %0, %1 : []"), (Values{32}));
  EXPECT_EQ(once("2, 2", {1, 2, 3, 4}, "2, 3", matrix, "matmul %0, %1 : [2, 3]"),
            (Values{9, 12, 15, 19, 26, 33}));
  EXPECT_EQ(once("9", {1, 2, 3, 4, 5, 6, 7, 8, 9}, "9", {1, 1, 1, 1, 1, 1, 1, 1, 2},
                 "matmul %0, %1 : []"),
            (Values{54}));
}

TEST(Interpreter, MatMulOfBlocks) {
  const Values blocks = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};  // [2, 2, 3]
  EXPECT_EQ(once("6", {1, 10, 100, 1, 0, 2}, "2, 2, 3", blocks, "matmul %1, %0 : [4]"),
            (Values{321, 654, 25, 34}));
  EXPECT_EQ(once("4", {1, 10, 1, 0}, "2, 2, 3", blocks, "matmul %0, %1 : [6]"),
            (Values{41, 52, 63, 7, 8, 9}));
}

TEST(Interpreter, StructureMovesElements) {
  const Values matrix = {1, 2, 3, 4, 5, 6};
  EXPECT_EQ(once("3, 2", matrix, "", {0}, "slice %0 from 1 to 3 : [2, 2]"), (Values{3, 4, 5, 6}));
  EXPECT_EQ(once("6", matrix, "", {0}, "slice %0 from 4 to 5 : [1]"), (Values{5}));
  EXPECT_EQ(once("3, 2", matrix, "", {0}, "index %0 at 2 : [2]"), (Values{5, 6}));
  EXPECT_EQ(once("6", matrix, "", {0}, "index %0 at 0 : []"), (Values{1}));
  EXPECT_EQ(once("", {7}, "", {0}, "broadcast %0 : [2, 2]"), (Values{7, 7, 7, 7}));
  EXPECT_EQ(once("2, 2", {1, 2, 3, 4}, "1, 2", {8, 9}, "concat %0, %1, %0 : [5, 2]"),
            (Values{1, 2, 3, 4, 8, 9, 1, 2, 3, 4}));
  EXPECT_EQ(once("2", {1, 2}, "2", {8, 9}, "stack %1, %0 : [2, 2]"), (Values{8, 9, 1, 2}));
  EXPECT_EQ(once("", {1}, "", {8}, "stack %1, %0 : [2]"), (Values{8, 1}));
  EXPECT_EQ(once("2, 3", matrix, "", {0}, "transpose %0 : [3, 2]"), (Values{1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(once("", {0}, "", {0}, "eye : [3, 3]"), (Values{1, 0, 0, 0, 1, 0, 0, 0, 1}));
  EXPECT_EQ(once("", {0}, "", {0}, "vector 3, -0.5, 1e-3 : [3]"), (Values{3, -0.5, 1e-3}));
  EXPECT_EQ(once("", {0}, "", {0}, "range : [1]"), (Values{0}));
  EXPECT_EQ(once("", {0}, "", {0}, "range : [7]"), (Values{0, 1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(once("", {0}, "", {0}, "valid : []"), (Values{1}));
  EXPECT_EQ(once("", {0}, "", {0}, "reset : []"), (Values{0}));
}

TEST(Interpreter, StructureKeepsSequencesApart) {
  const char* text = R"(graph Batch {
    input x: [2]
    param p: [2]
    state s: [2, 2]
    %0 = input x : [2]
    %1 = param p : [2]
    %2 = concat %0, %1 : [4]
    %3 = slice %2 from 1 to 3 : [2]
    %4 = state s @ 1 : [2, 2]
    %5 = index %4 at 1 : [2]
    %6 = stack %5, %0 : [2, 2]
    %7 = const 0 : []
    init s = %7
    next s = %6
    output y = %3
    output s = %6
  })";
  const InterpreterResult result = run(text, {.steps = 2,
                                              .batch = 2,
                                              .inputs = {{1, 2, 3, 4, 5, 6, 7, 8}},
                                              .params = {{-1, -2}},
                                              .initial_states = {}});
  EXPECT_EQ(result.outputs[0], (Values{2, -1, 4, -1, 6, -1, 8, -1}));
  EXPECT_EQ(result.outputs[1], (Values{0, 0, 1, 2, 0, 0, 3, 4, 1, 2, 5, 6, 3, 4, 7, 8}));
  EXPECT_EQ(result.final_states[0], (Values{1, 2, 5, 6, 3, 4, 7, 8}));
}

// Sums from the end, of the running sum from the beginning: three directions, two sweeps.
constexpr const char* kReversed = R"(graph Reversed {
  input x: []
  param p: []
  state a: []
  state b: [] reversed
  state c: [] reversed
  %0 = input x : []
  %1 = state a @ 1 : []
  %2 = add %0, %1 : []
  %3 = reverse %2 : []
  %4 = state b @ 1 : []
  %5 = add %3, %4 : []
  %6 = reverse %5 : []
  %7 = mul %6, %0 : []
  %8 = reverse %0 : []
  %9 = state c @ 2 : []
  %10 = sub %8, %9 : []
  %11 = reverse %10 : []
  %12 = const 0 : []
  %13 = param p : []
  %14 = reverse %13 : []
  %15 = add %14, %2 : []
  init a = %12
  next a = %2
  init b = %12
  next b = %5
  init c = %12
  next c = %8
  output sum = %2
  output back = %6
  output product = %7
  output difference = %11
  output param = %15
})";

TEST(Interpreter, ReversedValuesByHand) {
  InterpreterArgs args = {
      .steps = 4, .batch = 1, .inputs = {{1, 2, 3, 5}}, .params = {{100}}, .initial_states = {}};
  InterpreterResult result = run(kReversed, args);
  EXPECT_EQ(result.outputs[0], (Values{1, 3, 6, 11}));
  EXPECT_EQ(result.outputs[1], (Values{21, 20, 17, 11}));
  EXPECT_EQ(result.outputs[2], (Values{21, 40, 51, 55}));
  EXPECT_EQ(result.outputs[3], (Values{1 - 3, 2 - 5, 3, 5}));
  EXPECT_EQ(result.outputs[4], (Values{101, 103, 106, 111}));
  EXPECT_EQ(result.final_states, (std::vector<Values>{{11}, {21}, {1}}));

  args.initial_states = {{10}, {1000}, {7}};
  result = run(kReversed, args);
  EXPECT_EQ(result.outputs[0], (Values{11, 13, 16, 21}));
  EXPECT_EQ(result.outputs[1], (Values{1061, 1050, 1037, 1021}));
  EXPECT_EQ(result.outputs[3], (Values{1 - 3, 2 - 5, 3 - 7, 5 - 7}));
  EXPECT_EQ(result.final_states, (std::vector<Values>{{21}, {1061}, {1}}));

  args = {
      .steps = 2, .batch = 2, .inputs = {{1, 10, 2, 20}}, .params = {{0}}, .initial_states = {}};
  result = run(kReversed, args);
  EXPECT_EQ(result.outputs[1], (Values{1 + 3, 10 + 30, 3, 30}));
  args.steps = 0;
  args.inputs = {{}};
  EXPECT_EQ(run(kReversed, args).final_states, (std::vector<Values>{{0, 0}, {0, 0}, {0, 0}}));
}

TEST(Interpreter, DelaysStartAsWhatTheyAreDelaysOf) {
  const char* text = R"(graph Implied {
    state h@3: [] delay of h@2
    state h@2: [] delay of h
    state h: []
    %0 = state h@3 @ 1 : []
    %1 = state h@2 @ 1 : []
    %2 = state h @ 1 : []
    %3 = const 5 : []
    init h@3 = %3
    init h@2 = %3
    init h = %3
    next h@3 = %1
    next h@2 = %2
    next h = %0
    output y = %0
  })";
  InterpreterArgs args = {.steps = 4, .batch = 1, .inputs = {}, .params = {}, .initial_states = {}};
  EXPECT_EQ(run(text, args).outputs[0], (Values{5, 5, 5, 5}));
  args.initial_states = {{}, {}, {7}};
  EXPECT_EQ(run(text, args).outputs[0], (Values{7, 7, 7, 7}));
  args.initial_states = {{}, {6}, {7}};
  EXPECT_EQ(run(text, args).outputs[0], (Values{6, 6, 7, 6}));
  args.initial_states = {{}, {6}, {}};
  EXPECT_EQ(run(text, args).outputs[0], (Values{6, 6, 5, 6}));
  args.initial_states = {{4}, {}, {}};
  EXPECT_EQ(run(text, args).outputs[0], (Values{4, 5, 5, 4}));
}

TEST(Interpreter, ReductionsGoOverTheLastAxis) {
  const Values matrix = {1, 2, 3, 4, 0, 8};
  EXPECT_EQ(once("2, 3", matrix, "", {0}, "sum %0 : [2]"), (Values{6, 12}));
  EXPECT_EQ(once("2, 3", matrix, "", {0}, "mean %0 : [2]"), (Values{2, 4}));
  EXPECT_EQ(once("2, 3", matrix, "", {0}, "var %0 : [2]"), (Values{2.0 / 3, 32.0 / 3}));
  EXPECT_EQ(once("2, 3", matrix, "", {0}, "reduce_min %0 : [2]"), (Values{1, 0}));
  EXPECT_EQ(once("2, 3", matrix, "", {0}, "reduce_max %0 : [2]"), (Values{3, 8}));
  EXPECT_EQ(once("3", {-5, -2, -7}, "", {0}, "reduce_max %0 : []"), (Values{-2}));
}

TEST(Interpreter, VarianceTakesTwoPasses) {
  EXPECT_EQ(once("4", {1e9 + 4, 1e9 + 7, 1e9 + 13, 1e9 + 16}, "", {0}, "var %0 : []"),
            (Values{22.5}));
}

TEST(Interpreter, ScalarsBroadcast) {
  EXPECT_EQ(once("3", {1, 2, 3}, "", {10}, "sub %1, %0 : [3]"), (Values{9, 8, 7}));
  EXPECT_EQ(once("3", {1, 0, 3}, "", {10}, "where %0, %1, %0 : [3]"), (Values{10, 0, 10}));
}

constexpr const char* kDelays = R"(graph Delays {
  input x: []
  param start: []
  state h: []
  %0 = input x : []
  %1 = input x @ 2 : []
  %2 = state h @ 1 : []
  %3 = state h @ 3 : []
  %4 = add %2, %0 : []
  %5 = param start : []
  init h = %5
  next h = %4
  output h1 = %2
  output h3 = %3
  output x2 = %1
}
)";

// h[t] = h[t-1] + x[t]; two sequences side by side.
TEST(Interpreter, BeforeTheFirstStep) {
  InterpreterArgs args = {.steps = 4,
                          .batch = 2,
                          .inputs = {{1, 10, 2, 20, 3, 30, 4, 40}},
                          .params = {{100}},
                          .initial_states = {}};
  InterpreterResult result = run(kDelays, args);
  EXPECT_EQ(result.outputs[0], (Values{100, 100, 101, 110, 103, 130, 106, 160}));
  // A state stands at its initial value for all earlier times, an input at zero.
  EXPECT_EQ(result.outputs[1], (Values{100, 100, 100, 100, 100, 100, 101, 110}));
  EXPECT_EQ(result.outputs[2], (Values{0, 0, 0, 0, 1, 10, 2, 20}));
  EXPECT_EQ(result.final_states[0], (Values{110, 200}));

  args.initial_states = {{7, 8}};  // replaces the declared one, for every delay
  result = run(kDelays, args);
  EXPECT_EQ(result.outputs[0], (Values{7, 8, 8, 18, 10, 38, 13, 68}));
  EXPECT_EQ(result.outputs[1], (Values{7, 8, 7, 8, 7, 8, 8, 18}));
  EXPECT_EQ(result.final_states[0], (Values{17, 108}));

  args.initial_states = {{}};  // an empty entry means the declared one
  EXPECT_EQ(run(kDelays, args).final_states[0], (Values{110, 200}));
}

TEST(Interpreter, NoStepsAndNoBatch) {
  InterpreterArgs args = {
      .steps = 0, .batch = 2, .inputs = {{}}, .params = {{100}}, .initial_states = {}};
  InterpreterResult result = run(kDelays, args);
  EXPECT_EQ(result.outputs[0], Values());
  EXPECT_EQ(result.final_states[0], (Values{100, 100}));
  args.steps = 3;
  args.batch = 0;
  result = run(kDelays, args);
  EXPECT_EQ(result.outputs[0], Values());
  EXPECT_EQ(result.final_states[0], Values());
}

TEST(Interpreter, ScalarInitFillsAVector) {
  const char* text = R"(graph Fill {
    state h: [3]
    %0 = state h @ 1 : [3]
    %1 = const -30 : []
    init h = %1
    next h = %0
    output h = %0
  })";
  const InterpreterResult result =
      run(text, {.steps = 1, .batch = 2, .inputs = {}, .params = {}, .initial_states = {}});
  EXPECT_EQ(result.outputs[0], Values(6, -30));
}

TEST(Interpreter, InvariantValuesReachEveryStepAndRow) {
  const char* text = R"(graph Invariant {
    param W: [2, 2]
    param v: [2]
    state h: [2]
    %0 = param W : [2, 2]
    %1 = param v : [2]
    %2 = matmul %0, %1 : [2]
    init h = %1
    next h = %2
    output y = %2
  })";
  const InterpreterResult result = run(text, {.steps = 2,
                                              .batch = 2,
                                              .inputs = {},
                                              .params = {{1, 2, 3, 4}, {1, 1}},
                                              .initial_states = {}});
  EXPECT_EQ(result.outputs[0], (Values{3, 7, 3, 7, 3, 7, 3, 7}));
  EXPECT_EQ(result.final_states[0], (Values{3, 7, 3, 7}));
}

// h = tanh(w * x + r * h) by hand.
TEST(Interpreter, ElmanByHand) {
  const char* text = R"(graph Elman {
    input x: [1]
    param W: [1, 1]
    param R: [1, 1]
    state h: [1]
    %0 = param W : [1, 1]
    %1 = input x : [1]
    %2 = matmul %0, %1 : [1]
    %3 = param R : [1, 1]
    %4 = state h @ 1 : [1]
    %5 = matmul %3, %4 : [1]
    %6 = add %2, %5 : [1]
    %7 = tanh %6 : [1]
    %8 = const 0 : []
    init h = %8
    next h = %7
    output h = %7
  })";
  const InterpreterResult result = run(text, {.steps = 2,
                                              .batch = 1,
                                              .inputs = {{1, -2}},
                                              .params = {{0.5}, {0.25}},
                                              .initial_states = {}});
  const double first = std::tanh(0.5);
  EXPECT_EQ(result.outputs[0], (Values{first, std::tanh(-1 + 0.25 * first)}));
}

TEST(Interpreter, NanAndInfinityFlow) {
  for (const char* op : {"sum", "mean", "var", "reduce_min", "reduce_max"}) {
    for (const Values& values : {Values{kNan, 1, 2}, Values{1, kNan, 2}, Values{1, 2, kNan}}) {
      EXPECT_TRUE(std::isnan(once("3", values, "", {0}, fmt::format("{} %0 : []", op))[0])) << op;
    }
  }
  EXPECT_EQ(once("2", {kInf, 1}, "", {0}, "sum %0 : []"), (Values{kInf}));
  EXPECT_EQ(once("2", {kInf, 1}, "", {0}, "reduce_min %0 : []"), (Values{1}));
  // Zero weights do not hide them: 0 * inf is NaN.
  const Values product = once("2", {kInf, 1}, "2, 2", {0, 1, 1, 1}, "matmul %1, %0 : [2]");
  EXPECT_TRUE(std::isnan(product[0]));
  EXPECT_EQ(product[1], kInf);
  // A NaN stays in its own sequence, from its step on.
  const InterpreterResult result = run(kDelays, {.steps = 3,
                                                 .batch = 2,
                                                 .inputs = {{1, 1, kNan, 1, 1, 1}},
                                                 .params = {{0}},
                                                 .initial_states = {}});
  EXPECT_FALSE(std::isnan(result.outputs[0][2]));
  EXPECT_TRUE(std::isnan(result.outputs[0][4]));
  EXPECT_TRUE(std::isnan(result.final_states[0][0]));
  EXPECT_EQ(result.final_states[0][1], 3);
}

TEST(Interpreter, ChecksSizes) {
  const InterpreterArgs good = {
      .steps = 1, .batch = 1, .inputs = {{1}}, .params = {{1}}, .initial_states = {}};
  InterpreterArgs args = good;
  args.inputs = {{1, 2}};
  EXPECT_BUG(run(kDelays, args), "this is a bug in rnnc.*input `x` has 2 elements");
  args = good;
  args.params = {{}};
  EXPECT_BUG(run(kDelays, args), "this is a bug in rnnc.*param `start` has 0 elements");
  args = good;
  args.initial_states = {{1, 2}};
  EXPECT_BUG(run(kDelays, args), "this is a bug in rnnc.*initial state `h` has 2 elements");
  args = good;
  args.params = {};
  EXPECT_BUG(run(kDelays, args), "this is a bug in rnnc");
  args = good;
  args.steps = -1;
  EXPECT_BUG(run(kDelays, args), "this is a bug in rnnc");
}

TEST(Interpreter, DescendingGraphsRunFromTheLastStep) {
  // h[t] = 2 h[t + 1] + x[t], from the value past the end.
  const InterpreterResult result = run(R"(graph G descending {
    input x: []
    state h: []
    %0 = input x : []
    %1 = state h @ 1 : []
    %2 = add %1, %1 : []
    %3 = add %2, %0 : []
    %4 = const 0 : []
    %5 = total %3 : []
    %6 = final h : []
    %7 = total %6 : []
    init h = %4
    next h = %3
    output y = %3
    result sum = %5
    result h = %6
    result all = %7
  })",
                                       {.steps = 3,
                                        .batch = 2,
                                        .inputs = {{1, 10, 2, 20, 3, 30}},
                                        .params = {},
                                        .initial_states = {{100, 0}}});
  EXPECT_EQ(result.outputs[0], (Values{817, 170, 408, 80, 203, 30}));
  EXPECT_EQ(result.final_states[0], (Values{817, 170}));
  EXPECT_EQ(result.results[0], (Values{817 + 408 + 203 + 170 + 80 + 30}));
  EXPECT_EQ(result.results[1], (Values{817, 170}));
  EXPECT_EQ(result.results[2], (Values{987}));
}

TEST(Interpreter, TotalsOfOuterProducts) {
  const auto total = [](std::string_view shape) {
    return run(fmt::format("graph G {{\n input x: [4]\n input y: [2]\n %0 = input x : [4]\n"
                           " %1 = input y : [2]\n %2 = total %0, %1 : [{}]\n result W = %2\n}}",
                           shape),
               {.steps = 2,
                .batch = 1,
                .inputs = {{1, 2, 3, 4, 1, 0, 0, 1}, {1, 10, 100, 1000}},
                .params = {},
                .initial_states = {}})
        .results.at(0);
  };
  EXPECT_EQ(total("4, 2"), (Values{101, 1010, 2, 20, 3, 30, 104, 1040}));
  EXPECT_EQ(total("2, 2, 1"), (Values{101, 2, 30, 1040}));
}

}  // namespace
}  // namespace rnnc
