/// Named arrays in and out, on the CPU, against the interpreter.
#ifdef RNNC_WITH_CPU
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <thread>

#include "ir/graph/text.h"
#include "passes/graph/delays.h"
#include "runtime/program/run.h"
#include "tests/support/reference/deterministic.h"
#include "tests/support/reference/golden.h"
#include "tests/support/reference/interpreter_run.h"
#include "tests/support/shared_program.h"

namespace rnnc {
namespace {

/// Two states of different sizes, two inputs of which one is delayed, a scalar, a declared initial
/// value.
constexpr std::string_view kGraph = R"(graph Toy(I, H = 5) {
  input x: [I]
  input s: []
  param W: [H, I]
  param b: [H]
  param m0: []
  state h: [H]
  state m: []
  %0 = param W : [H, I]
  %1 = input x : [I]
  %2 = matmul %0, %1 : [H]
  %3 = param b : [H]
  %4 = add %2, %3 : [H]
  %5 = state h @ 1 : [H]
  %6 = mul %4, %5 : [H]
  %7 = input s @ 1 : []
  %8 = add %6, %7 : [H]
  %9 = tanh %8 : [H]
  %10 = state m @ 1 : []
  %11 = sum %9 : []
  %12 = add %10, %11 : []
  %13 = param m0 : []
  %14 = input s : []
  %15 = mul %12, %14 : []
  init h = %3
  init m = %13
  next h = %9
  next m = %15
  output h = %9
  output total = %12
}
)";

NamedArray typed_array(std::string name, std::vector<int64_t> shape, DType dtype = DType::f64) {
  Array zeros = Array::zeros(dtype, shape);
  const std::vector<double> values =
      test::deterministic_values(name, zeros.elements(), 1, DType::f32);
  return {std::move(name), Array::from_doubles(values, std::move(shape), dtype)};
}

RunArgs arguments(int64_t steps, int64_t batch, DType dtype = DType::f64) {
  return {.inputs = {typed_array("s", {steps, batch}, dtype),
                     typed_array("x", {steps, batch, 3}, dtype)},
          .params = {typed_array("b", {5}, dtype), typed_array("m0", {}, dtype),
                     typed_array("W", {5, 3}, dtype)},
          .initial_states = {}};
}

Graph toy() {
  Result<Graph> graph = parse_graph(kGraph);
  EXPECT_TRUE(graph) << graph.error().message;
  graph->bind({{"I", 3}, {"H", 5}});
  return std::move(*graph);
}

Program compile(DType dtype) {
  CompileOptions options;
  options.dtype = dtype;
  options.threads = 1;
  Result<Program> program = Program::compile(toy(), options);
  EXPECT_TRUE(program) << program.error().message;
  return std::move(*program);
}

/// With the states that its delays imply, as a program has them.
Graph explicit_toy() {
  Graph graph = toy();
  run_delays(graph);
  return graph;
}

void expect_like_interpreter(const RunResult& result, const RunArgs& args, double tolerance) {
  const RunResult expected = test::interpret_run(explicit_toy(), args);
  const auto compare = [tolerance](const std::vector<NamedArray>& ours,
                                   const std::vector<NamedArray>& theirs) {
    ASSERT_EQ(ours.size(), theirs.size());
    for (size_t i = 0; i < ours.size(); ++i) {
      EXPECT_EQ(ours[i].name, theirs[i].name);
      EXPECT_EQ(ours[i].array.shape, theirs[i].array.shape);
      EXPECT_LE(test::error_of(ours[i].array.to_doubles(), theirs[i].array.to_doubles()),
                tolerance);
    }
  };
  ASSERT_EQ(result.final_states.size(), 3U);  // s@1 behind h and m
  compare(result.outputs, expected.outputs);
  compare(result.final_states, expected.final_states);
}

TEST(Runner, ComputesWhatTheInterpreterDoes) {
  for (const DType dtype : {DType::f64, DType::f32}) {
    Program program = compile(dtype);
    Runner runner(program);
    // Growing and shrinking shapes share one runner; arrays come in another dtype.
    for (const auto& [steps, batch] : {std::pair(1, 1), {7, 3}, {40, 2}, {7, 3}, {2, 1}}) {
      const RunArgs args = arguments(steps, batch, DType::f32);
      const Result<RunResult> result = runner.run(args);
      ASSERT_TRUE(result) << result.error().message;
      EXPECT_EQ(result->outputs[0].array.dtype, dtype);
      expect_like_interpreter(*result, args, dtype == DType::f64 ? 1e-13 : 1e-5);
    }
  }
}

TEST(Runner, TakesOneMoreAxisOfSizeOne) {
  Program program = compile(DType::f64);
  Runner runner(program);
  const RunArgs args = arguments(6, 2);
  RunArgs wider = args;
  for (NamedArray& input : wider.inputs) input.array.shape.push_back(1);
  const Result<RunResult> result = runner.run(wider);
  ASSERT_TRUE(result) << result.error().message;
  expect_like_interpreter(*result, args, 1e-13);
}

TEST(Runner, StartsFromGivenStatesAndGoesOnFromFinalOnes) {
  Program program = compile(DType::f64);
  Runner runner(program);
  RunArgs args = arguments(6, 2);
  args.initial_states = {typed_array("m", {2})};
  const Result<RunResult> given = runner.run(args);
  ASSERT_TRUE(given) << given.error().message;
  expect_like_interpreter(*given, args, 1e-13);
  args.initial_states = {typed_array("m", {2}), typed_array("h", {2, 5})};
  expect_like_interpreter(*runner.run(args), args, 1e-13);
  args.initial_states = {};
  expect_like_interpreter(*runner.run(args), args, 1e-13);
}

TEST(Runner, KeepsLoadedParams) {
  Program program = compile(DType::f64);
  Runner runner(program);
  const RunArgs args = arguments(4, 2);
  ASSERT_TRUE(runner.load_params(args.params));
  RunArgs bare = args;
  bare.params.clear();
  for (int i = 0; i < 2; ++i) {
    const Result<RunResult> result = runner.run(bare);
    ASSERT_TRUE(result) << result.error().message;
    expect_like_interpreter(*result, args, 1e-13);
  }
  // Other params take the place of the old ones, derived values included.
  RunArgs other = args;
  for (NamedArray& param : other.params) {
    param = {param.name, Array::from_doubles(std::vector<double>(param.array.elements(), 0.25),
                                             param.array.shape, DType::f64)};
  }
  ASSERT_TRUE(runner.load_params(other.params));
  const Result<RunResult> result = runner.run(bare);
  ASSERT_TRUE(result);
  expect_like_interpreter(*result, other, 1e-13);
}

TEST(Runner, NanAndInfinityFlowThrough) {
  Program program = compile(DType::f32);
  Runner runner(program);
  RunArgs args = arguments(3, 2);
  std::vector<double> values = args.inputs[1].array.to_doubles();
  values[0] = NAN;           // x[0], sequence 0
  values[3 + 1] = INFINITY;  // x[0], sequence 1
  args.inputs[1].array = Array::from_doubles(values, {3, 2, 3}, DType::f64);
  const Result<RunResult> result = runner.run(args);
  ASSERT_TRUE(result);
  const std::vector<double> h = result->outputs[0].array.to_doubles();
  const RunResult expected = test::interpret_run(toy(), args);
  const std::vector<double> expected_h = expected.outputs[0].array.to_doubles();
  for (size_t i = 0; i < h.size(); ++i) {
    EXPECT_EQ(std::isnan(h[i]), std::isnan(expected_h[i])) << i;
  }
  EXPECT_TRUE(std::isnan(h[0]));
  EXPECT_FALSE(std::isnan(h[5]));
}

TEST(Runner, ListsEverythingThatDoesNotFit) {
  Program program = compile(DType::f32);
  Runner runner(program);
  RunArgs args = arguments(4, 2);
  args.inputs[0] = typed_array("s", {5, 2});
  args.params[0].name = "bb";
  args.params[2] = typed_array("W", {3, 5});
  args.initial_states = {typed_array("h", {3, 5}), typed_array("q", {2}), typed_array("m", {2}),
                         typed_array("m", {2})};
  args.inputs[1] = typed_array("x", {4, 2, 3});
  const Result<RunResult> result = runner.run(args);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().message,
            "the arrays do not fit `Toy`:\n"
            "  input `s` is [5, 2], expected [4, 2]\n"
            "  param `b` [5] is missing\n"
            "  param `bb` [5] is not in `Toy` (did you mean `b`?)\n"
            "  param `W` is [3, 5], expected [5, 3]: it looks transposed\n"
            "  initial state `m` is given twice\n"
            "  initial state `q` [2] is not in `Toy` (did you mean `s@1`?)\n"
            "  initial state `h` is [3, 5], expected [2, 5]");
  EXPECT_EQ(runner.load_params({}).error().message,
            "the arrays do not fit `Toy`:\n"
            "  param `W` [5, 3] is missing\n"
            "  param `b` [5] is missing\n"
            "  param `m0` [] is missing");
}

TEST(Runner, RefusesEmptySequencesAndBatches) {
  Program program = compile(DType::f32);
  Runner runner(program);
  EXPECT_EQ(runner.run(arguments(0, 2)).error().message,
            "the inputs have no steps (T = 0); at least 1 is needed");
  EXPECT_EQ(runner.run(arguments(4, 0)).error().message,
            "the inputs have no sequences (B = 0); at least 1 is needed");
}

TEST(Runner, RefusesLengthsAndResetsThatDoNotFit) {
  Program program = compile(DType::f32);
  Runner runner(program);
  const auto problem = [&](const std::vector<int64_t>& lengths) {
    RunArgs args = arguments(4, 2);
    args.lengths = lengths;
    const Result<RunResult> result = runner.run(args);
    EXPECT_FALSE(result);
    return result ? "" : result.error().message;
  };
  EXPECT_EQ(problem({4}), "lengths are [1], expected [B] = [2]");
  EXPECT_EQ(problem({4, 5}), "lengths[1] is 5, expected 0 to T = 4");
  EXPECT_EQ(problem({-1, 9}), "lengths[0] is -1, expected 0 to T = 4");

  RunArgs args = arguments(4, 2);
  args.reset = Array::zeros(DType::f32, {2, 4});
  EXPECT_EQ(runner.run(args).error().message, "reset is [2, 4], expected [T, B] = [4, 2]");
  args.reset = Array::from_doubles({0, 1, 0, 0, 0, NAN, 0, 0}, {4, 2}, DType::f32);
  EXPECT_EQ(runner.run(args).error().message,
            "reset[2, 1] is not a number, expected true or false");
  args.lengths = {7, 7};
  args.inputs[0] = typed_array("s", {4, 3});
  EXPECT_EQ(runner.run(args).error().message,
            "the arrays do not fit `Toy`:\n"
            "  input `s` is [4, 3], expected [4, 2]\n"
            "  lengths[0] is 7, expected 0 to T = 4\n"
            "  reset[2, 1] is not a number, expected true or false");
}

TEST(Runner, RefusesPiecesOfWhatRunsInReverse) {
  CompileOptions options;
  options.reverse = true;
  Result<Program> program = Program::compile(toy(), options);
  ASSERT_TRUE(program) << program.error().message;
  Runner runner(*program);
  RunArgs args = arguments(4, 2);
  args.piece = 2;
  EXPECT_EQ(runner.run(args).error().message,
            "pieces of 2 steps are asked for, but `Toy` cannot be run in pieces: it runs in "
            "reverse, from a sequence's last step on");
  args.piece = -2;
  EXPECT_EQ(runner.run(args).error().message, "piece must be 0 or more steps, got -2");
  args.piece = 0;
  args.initial_states = {typed_array("h", {2, 5}), typed_array("s@1", {2})};
  EXPECT_EQ(runner.run(args).error().message,
            "initial state `s@1` carries a sequence on, but `Toy` cannot be run in pieces: it runs "
            "in reverse, from a sequence's last step on");
  args.initial_states.pop_back();
  EXPECT_TRUE(runner.run(args));
}

TEST(Runner, PiecesGiveWhatOneRunDoes) {
  Program program = compile(DType::f64);
  Runner runner(program);
  RunArgs args = arguments(11, 2);
  args.initial_states = {typed_array("m", {2})};
  for (const int64_t piece : {1, 3, 11, 20}) {
    args.piece = piece;
    const Result<RunResult> result = runner.run(args);
    ASSERT_TRUE(result) << result.error().message;
    expect_like_interpreter(*result, args, 1e-13);
  }
  const Result<double> seconds = runner.time_per_step(2);
  ASSERT_TRUE(seconds) << seconds.error().message;
}

TEST(Runner, MeasuresTheLastRun) {
  Program program = compile(DType::f32);
  Runner runner(program);
  EXPECT_EQ(runner.time_per_step(1).error().message,
            "there was no run whose time could be measured");
  ASSERT_TRUE(runner.run(arguments(4, 2)));
  EXPECT_EQ(runner.time_per_step(0).error().message, "repeats must be at least 1, got 0");
  const Result<double> seconds = runner.time_per_step(4);
  ASSERT_TRUE(seconds) << seconds.error().message;
  EXPECT_GT(*seconds, 0);
  EXPECT_LT(*seconds, 1);
}

TEST(Runner, RecordsEachLaunchOfARun) {
  Program program = compile(DType::f32);
  Runner runner(program);
  EXPECT_EQ(runner.record_launches(1).error().message,
            "there was no run whose time could be measured");
  RunArgs args = arguments(11, 2);
  ASSERT_TRUE(runner.run(args));
  const Result<RecordedRun> run = runner.record_launches(3);
  ASSERT_TRUE(run) << run.error().message;
  EXPECT_FALSE(run->backward);
  std::map<std::pair<size_t, size_t>, int64_t> steps;
  for (const std::vector<LaunchSpan>& thread : run->forward.of_threads()) {
    for (const LaunchSpan& span : thread) {
      EXPECT_LE(0, span.begin);
      EXPECT_LE(span.begin, span.end);
      EXPECT_LE(span.end, run->seconds());
      steps[{span.stage, span.launch}] += span.steps;
    }
  }
  EXPECT_FALSE(steps.empty());
  for (const auto& [launch, count] : steps) EXPECT_EQ(count % 11, 0) << launch.first;
  args.piece = 3;
  ASSERT_TRUE(runner.run(args));
  EXPECT_EQ(runner.record_launches(1).error().message,
            "launches are timed in runs of one piece, without checkpoints");
}

TEST(Runner, ReplaysNothingOnTheCpu) {
  Program program = compile(DType::f32);
  Runner runner(program);
  EXPECT_EQ(runner.time_replayed_per_step(1).error().message,
            "there was no run whose time could be measured");
  const RunArgs args = arguments(4, 2);
  ASSERT_TRUE(runner.run(args));
  EXPECT_EQ(runner.time_replayed_per_step(0).error().message, "repeats must be at least 1, got 0");
  EXPECT_EQ(runner.time_replayed_per_step(1).error().message,
            "only a GPU can capture calls in a graph and replay them");
  const Result<RunResult> result = runner.run(args);
  ASSERT_TRUE(result) << result.error().message;
  expect_like_interpreter(*result, args, 1e-5);
}

TEST(Runner, EachRunsOnItsOwnParams) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    test::check_shared_program({.dtype = dtype, .threads = 2});
  }
}

TEST(Runner, RefusesArraysThatAreNotWhole) {
  Program program = compile(DType::f32);
  Runner runner(program);
  RunArgs args = arguments(4, 2);
  args.inputs[1].array.data.resize(8);
  args.params[0].array.data.push_back({});
  args.reset = Array::from_doubles({1, 0}, {4, 2}, DType::f32);
  args.initial_states = {{"h", Array{DType::f32, {2, 5}, {}}}};
  EXPECT_EQ(runner.run(args).error().message,
            "the arrays do not fit `Toy`:\n"
            "  input `x` has 8 bytes, but [4, 2, 3] in f64 takes 192\n"
            "  param `b` has 41 bytes, but [5] in f64 takes 40\n"
            "  initial state `h` has 0 bytes, but [2, 5] in f32 takes 40\n"
            "  reset has 8 bytes, but [4, 2] in f32 takes 32");
  args = arguments(4, 2);
  args.inputs = {{"x", Array{DType::f32, {int64_t{1} << 40, int64_t{1} << 40, 3}, {}}}};
  EXPECT_EQ(runner.run(args).error().message,
            "the arrays do not fit `Toy`:\n"
            "  input `s` [1099511627776, 1099511627776] is missing\n"
            "  input `x` has the shape [1099511627776, 1099511627776, 3], which no array has");
}

TEST(Runner, KeepsItsProgram) {
  std::optional<Program> program(compile(DType::f64));
  Runner runner(*program);
  const RunArgs args = arguments(4, 2);
  Program moved = *std::move(program);
  program.reset();
  expect_like_interpreter(*runner.run(args), args, 1e-13);
  moved = compile(DType::f32);
  expect_like_interpreter(*runner.run(args), args, 1e-13);
}

TEST(Runner, WhatWasMovedFromSaysSo) {
  constexpr std::string_view kNothing =
      "this runner has no program: it, or the program that it was made for, was moved from";
  Program program = compile(DType::f32);
  Runner runner(program);
  Runner other(std::move(runner));
  const RunArgs args = arguments(4, 2);
  EXPECT_TRUE(other.run(args));
  const auto check = [&](Runner& empty) {
    EXPECT_EQ(empty.run(args).error().message, kNothing);
    EXPECT_EQ(empty.prepare(args).error().message, kNothing);
    EXPECT_EQ(empty.load_params(args.params).error().message, kNothing);
    EXPECT_EQ(empty.time_per_step(1).error().message, kNothing);
    EXPECT_EQ(empty.time_replayed_per_step(1).error().message, kNothing);
    EXPECT_EQ(empty.time_replayed_training_per_step(1).error().message, kNothing);
  };
  check(runner);  // NOLINT(bugprone-use-after-move)
  const Program moved = std::move(program);
  Runner of_nothing(program);  // NOLINT(bugprone-use-after-move)
  check(of_nothing);
}

/// Calls that overlap: each is right or refused, and the program goes on as if it had not been.
TEST(Runner, RefusesCallsThatOverlap) {
  Program program = compile(DType::f64);
  Runner first(program);
  Runner second(program);
  const RunArgs args = arguments(40, 2);
  const auto run = [&](Runner& runner) {
    for (int i = 0; i < 300; ++i) {
      const Result<RunResult> result = runner.run(args);
      if (result) {
        expect_like_interpreter(*result, args, 1e-13);
        continue;
      }
      EXPECT_TRUE(result.error().message.starts_with("cannot ")) << result.error().message;
      EXPECT_TRUE(result.error().message.ends_with(" `Toy` while another call of it is running"))
          << result.error().message;
    }
  };
  for (const bool same : {false, true}) {
    std::thread other([&] { run(same ? first : second); });
    run(first);
    other.join();
    expect_like_interpreter(*first.run(args), args, 1e-13);
  }
}

TEST(Runner, ACellWithoutInputsHasNoLength) {
  const Result<Graph> graph = parse_graph(R"(graph Counter() {
  state n: []
  %0 = state n @ 1 : []
  %1 = const 1 : []
  %2 = add %0, %1 : []
  %3 = const 0 : []
  init n = %3
  next n = %2
  output n = %2
}
)");
  ASSERT_TRUE(graph) << graph.error().message;
  Result<Program> program = Program::compile(*graph, {});
  ASSERT_TRUE(program) << program.error().message;
  EXPECT_EQ(Runner(*program).run({}).error().message,
            "`Counter` has no inputs, so that no array says how many steps to run");
}

}  // namespace
}  // namespace rnnc
#endif
