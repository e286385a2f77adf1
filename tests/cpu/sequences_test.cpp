// Lengths, resets, reversed layers and runs in pieces, on the CPU, against plain runs of each
// segment of each sequence by itself (tests/support/sequence_oracle.h).
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

#include "ir/text.h"
#include "runtime/run.h"
#include "tests/cpu/program_run.h"
#include "tests/support/random_graph.h"
#include "tests/support/sequence_oracle.h"

namespace rnnc::test {
namespace {

/// x[t-1] and h[t-2], a declared initial state from a param and one from a constant.
constexpr std::string_view kQrnn = R"(graph Qrnn(I = 5, H = 7) {
  input x: [I]
  param W: [H, I]
  param V: [H, I]
  param U: [H, H]
  param h0: [H]
  state h: [H]
  state c: [H]
  %0 = param h0 : [H]
  %1 = const -0.5 : []
  %2 = param W : [H, I]
  %3 = input x : [I]
  %4 = matmul %2, %3 : [H]
  %5 = param V : [H, I]
  %6 = input x @ 1 : [I]
  %7 = matmul %5, %6 : [H]
  %8 = add %4, %7 : [H]
  %9 = tanh %8 : [H]
  %10 = param U : [H, H]
  %11 = state h @ 2 : [H]
  %12 = matmul %10, %11 : [H]
  %13 = add %4, %12 : [H]
  %14 = sigmoid %13 : [H]
  %15 = state c @ 1 : [H]
  %16 = sub %9, %15 : [H]
  %17 = mul %14, %16 : [H]
  %18 = add %15, %17 : [H]
  %19 = tanh %18 : [H]
  init h = %0
  init c = %1
  next h = %19
  next c = %18
  output y = %19
}
)";

/// Both directions side by side, and on top of them a reversed and a forward layer: three sweeps.
constexpr std::string_view kBidirectional = R"(graph Both(I = 3, H = 5) {
  input x: [I]
  param W: [H, I]
  param R: [H, H]
  param V: [H, I]
  param S: [H, H]
  param s0: [H]
  param U: [H, 2 * H]
  state F.h: [H]
  state B.h: [H] reversed
  state B.x@1: [I] reversed
  state T.h: [H] reversed
  state T.n: []
  %0 = const 0 : []
  %1 = param s0 : [H]
  %2 = param W : [H, I]
  %3 = input x : [I]
  %4 = matmul %2, %3 : [H]
  %5 = param R : [H, H]
  %6 = state F.h @ 1 : [H]
  %7 = matmul %5, %6 : [H]
  %8 = add %4, %7 : [H]
  %9 = tanh %8 : [H]
  %10 = reverse %3 : [I]
  %11 = param V : [H, I]
  %12 = state B.x@1 @ 1 : [I]
  %13 = add %10, %12 : [I]
  %14 = matmul %11, %13 : [H]
  %15 = param S : [H, H]
  %16 = state B.h @ 1 : [H]
  %17 = matmul %15, %16 : [H]
  %18 = add %14, %17 : [H]
  %19 = tanh %18 : [H]
  %20 = reverse %19 : [H]
  %21 = concat %9, %20 : [2 * H]
  %22 = reverse %21 : [2 * H]
  %23 = param U : [H, 2 * H]
  %24 = matmul %23, %22 : [H]
  %25 = state T.h @ 1 : [H]
  %26 = mul %25, %24 : [H]
  %27 = add %26, %24 : [H]
  %28 = tanh %27 : [H]
  %29 = reverse %28 : [H]
  %30 = sum %29 : []
  %31 = state T.n @ 1 : []
  %32 = const 0.5 : []
  %33 = mul %31, %32 : []
  %34 = add %33, %30 : []
  init F.h = %0
  init B.h = %1
  init B.x@1 = %0
  init T.h = %32
  init T.n = %0
  next F.h = %9
  next B.h = %19
  next B.x@1 = %10
  next T.h = %28
  next T.n = %34
  output both = %21
  output top = %29
  output n = %34
}
)";

/// R @ h and h @ Q with N blocks each.
constexpr std::string_view kBlocks = R"(graph Blocks(I = 4, H, N) {
  input x: [I]
  param W: [H, I]
  param R: [N, H / N, H / N]
  param Q: [N, H / N, H / N]
  state h: [H]
  state g: [H]
  %0 = const 0.25 : []
  %1 = param W : [H, I]
  %2 = input x : [I]
  %3 = matmul %1, %2 : [H]
  %4 = param R : [N, H / N, H / N]
  %5 = state h @ 1 : [H]
  %6 = matmul %4, %5 : [H]
  %7 = add %3, %6 : [H]
  %8 = tanh %7 : [H]
  %9 = param Q : [N, H / N, H / N]
  %10 = state g @ 1 : [H]
  %11 = matmul %10, %9 : [H]
  %12 = add %11, %8 : [H]
  %13 = tanh %12 : [H]
  init h = %0
  init g = %0
  next h = %8
  next g = %13
  output y = %13
}
)";

/// A stack of three layers of which each reads the one below as it was a step before.
constexpr std::string_view kArrays = R"(graph Arrays(H = 7) {
  input x: [H]
  param R: [3, H, H]
  param s0: [3, H]
  state s: [3, H]
  %0 = param s0 : [3, H]
  %1 = param R : [3, H, H]
  %2 = input x : [H]
  %3 = state s @ 1 : [3, H]
  %4 = index %3 at 0 : [H]
  %5 = index %3 at 1 : [H]
  %6 = index %3 at 2 : [H]
  %7 = index %1 at 0 : [H, H]
  %8 = index %1 at 1 : [H, H]
  %9 = index %1 at 2 : [H, H]
  %10 = matmul %7, %4 : [H]
  %11 = add %10, %2 : [H]
  %12 = tanh %11 : [H]
  %13 = matmul %8, %4 : [H]
  %14 = add %13, %5 : [H]
  %15 = tanh %14 : [H]
  %16 = matmul %9, %5 : [H]
  %17 = mul %16, %6 : [H]
  %18 = add %17, %15 : [H]
  %19 = tanh %18 : [H]
  %20 = stack %12, %15, %19 : [3, H]
  init s = %0
  next s = %20
  output y = %19
}
)";

Graph parse(std::string_view text, const DimBindings& dims = {}) {
  Result<Graph> graph = parse_graph(text);
  RNNC_CHECK(graph.has_value(), "{}", graph.error().message);
  const Result<DimBindings> complete = complete_bindings(*graph, dims);
  RNNC_CHECK(complete.has_value(), "{}", complete.error().message);
  graph->bind(*complete);
  return with_states(*graph);
}

struct NamedGraph {
  std::string name;
  Graph graph;
};

const std::vector<NamedGraph>& graphs() {
  static const std::vector<NamedGraph> kGraphs = {
      {"LSTM", example_graph("lstm.rnn", "LSTM", {{"I", 3}, {"H", 17}})},
      {"Qrnn", parse(kQrnn)},
      {"Bidirectional", parse(kBidirectional)},
      {"Blocks", parse(kBlocks, {{"H", 15}, {"N", 5}})},
      {"OneBlock", parse(kBlocks, {{"H", 7}, {"N", 1}})},
      {"Arrays", parse(kArrays)},
  };
  return kGraphs;
}

/// What happens to the sequences of a run.
struct Sequences {
  int64_t steps = 0;
  int64_t batch = 0;
  std::vector<int64_t> lengths;  // empty: all are T
  std::vector<uint8_t> resets;   // empty: none
  bool given_states = false;
};

/// Lengths 0 and T are among them if there is room; a reset at step 0 too.
Sequences random_sequences(int64_t steps, int64_t batch, bool lengths, bool resets, bool given,
                           uint32_t seed) {
  std::mt19937 generator(seed);
  Sequences sequences = {
      .steps = steps, .batch = batch, .lengths = {}, .resets = {}, .given_states = given};
  for (int64_t b = 0; b < batch && lengths; ++b) {
    const int64_t length = static_cast<int64_t>(generator() % (steps + 1));
    sequences.lengths.push_back(b == 1 ? 0 : b == 2 ? steps : length);
  }
  for (int64_t i = 0; i < steps * batch && resets; ++i) {
    sequences.resets.push_back(i == 0 || generator() % 4 == 0 ? 1 : 0);
  }
  return sequences;
}

std::string describe(const Sequences& sequences) {
  return fmt::format("T {}, B {}, lengths {}, {} resets, given {}", sequences.steps,
                     sequences.batch, fmt::join(sequences.lengths, " "),
                     std::ranges::count(sequences.resets, 1), sequences.given_states);
}

NamedArray named(const std::string& name, const Type& type, std::vector<int64_t> leading,
                 const std::vector<double>& values) {
  for (const Dim& dim : type.shape) leading.push_back(*dim.constant());
  return {name, Array::from_doubles(values, std::move(leading), DType::f64)};
}

RunArgs run_args(const Graph& graph, const InterpreterArgs& args, const Sequences& sequences) {
  RunArgs result;
  const auto& [steps, batch, lengths, resets, given] = sequences;
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    result.inputs.push_back(
        named(graph.inputs[i].name, graph.inputs[i].type, {steps, batch}, args.inputs[i]));
  }
  for (size_t i = 0; i < graph.params.size(); ++i) {
    result.params.push_back(named(graph.params[i].name, graph.params[i].type, {}, args.params[i]));
  }
  for (size_t i = 0; i < graph.states.size() && given; ++i) {
    if (args.initial_states[i].empty()) continue;
    result.initial_states.push_back(
        named(graph.states[i].name, graph.states[i].type, {batch}, args.initial_states[i]));
  }
  if (!lengths.empty()) result.lengths = lengths;
  if (!resets.empty()) {
    result.reset = Array::from_doubles({resets.begin(), resets.end()}, {steps, batch}, DType::f32);
  }
  return result;
}

std::vector<std::vector<double>> values_of(const std::vector<NamedArray>& arrays) {
  std::vector<std::vector<double>> values;
  for (const NamedArray& array : arrays) values.push_back(array.array.to_doubles());
  return values;
}

Program compile(const Graph& graph, const CompileOptions& options) {
  Result<Program> program = Program::compile(graph, options);
  RNNC_CHECK(program.has_value(), "{}", program.error().message);
  return std::move(*program);
}

InterpreterResult run(Runner& runner, const RunArgs& args) {
  const Result<RunResult> result = runner.run(args);
  RNNC_CHECK(result.has_value(), "{}", result.error().message);
  return {values_of(result->outputs), values_of(result->final_states)};
}

InterpreterResult run(const Graph& graph, const CompileOptions& options, const RunArgs& args) {
  Program program = compile(graph, options);
  Runner runner(program);
  return run(runner, args);
}

bool is_implied(const StateDecl& state) {
  return state.name.find('@') != std::string::npos;
}

/// What goes on from a sequence's middle is not given where a layer runs in reverse.
InterpreterArgs arguments(const Graph& graph, const Sequences& sequences, uint64_t seed) {
  InterpreterArgs args =
      random_args(graph, sequences.steps, sequences.batch, seed, sequences.given_states);
  if (std::ranges::none_of(graph.states, &StateDecl::reversed)) return args;
  for (size_t i = 0; i < args.initial_states.size(); ++i) {
    if (is_implied(graph.states[i])) args.initial_states[i].clear();
  }
  return args;
}

double tolerance(DType dtype) {
  return dtype == DType::f64 ? 1e-12 : 2e-5;
}

/// By index of `graphs()`.
class SequenceRuns : public testing::TestWithParam<size_t> {
 protected:
  const Graph& graph() const { return graphs()[GetParam()].graph; }
};

/// Those that run forward throughout.
class Streams : public SequenceRuns {};

TEST_P(SequenceRuns, MeanWhatEachSegmentByItselfDoes) {
  struct Shape {
    int64_t steps, batch, chunk;
  };
  uint32_t seed = 0;
  for (const unsigned kind : {0U, 1U, 2U, 3U, 4U, 5U, 6U, 7U}) {
    for (const Shape& shape : {Shape{13, 5, 4}, kind % 3 == 0 ? Shape{1, 1, 0} : Shape{7, 3, 0}}) {
      std::mt19937 generator(++seed);
      CompileOptions options;
      options.chunk = shape.chunk;
      options.dtype = generator() % 2 == 0 ? DType::f32 : DType::f64;
      options.threads = 1 + static_cast<int>(generator() % 3);
      const Sequences sequences = random_sequences(shape.steps, shape.batch, (kind & 1) != 0,
                                                   (kind & 2) != 0, (kind & 4) != 0, seed);
      SCOPED_TRACE(fmt::format("{}, {}", describe(sequences), to_string(options.dtype)));
      const InterpreterArgs args = arguments(graph(), sequences, seed);
      const InterpreterResult expected =
          interpret_sequences(graph(), args, sequences.lengths, sequences.resets);
      const InterpreterResult got = run(graph(), options, run_args(graph(), args, sequences));
      EXPECT_LE(worst_error(got, expected), tolerance(options.dtype));
    }
  }
}

TEST_P(SequenceRuns, PaddingChangesNothing) {
  const Sequences sequences = random_sequences(9, 4, true, true, true, 5);
  InterpreterArgs args = arguments(graph(), sequences, 5);
  CompileOptions options;
  options.chunk = 4;
  const InterpreterResult clean = run(graph(), options, run_args(graph(), args, sequences));
  for (auto& input : args.inputs) {
    const int64_t width = std::ssize(input) / (sequences.steps * sequences.batch);
    for (int64_t t = 0; t < sequences.steps; ++t) {
      for (int64_t b = 0; b < sequences.batch; ++b) {
        if (t < sequences.lengths[b]) continue;
        std::fill_n(input.begin() + (t * sequences.batch + b) * width, width,
                    std::numeric_limits<double>::quiet_NaN());
      }
    }
  }
  const InterpreterResult padded = run(graph(), options, run_args(graph(), args, sequences));
  EXPECT_EQ(clean.outputs, padded.outputs);
  EXPECT_EQ(clean.final_states, padded.final_states);
}

TEST_P(Streams, PiecesOfChunksGiveTheBitsOfOneRun) {
  for (const bool features : {false, true}) {
    const Sequences sequences = random_sequences(11, 3, features, features, true, 9);
    SCOPED_TRACE(describe(sequences));
    const InterpreterArgs args = arguments(graph(), sequences, 9);
    CompileOptions options;
    options.chunk = 2;
    options.threads = 2;
    Program program = compile(graph(), options);
    Runner runner(program);
    RunArgs whole = run_args(graph(), args, sequences);
    const InterpreterResult expected = run(runner, whole);
    for (const int64_t piece : {2, 4, 6, 10, 12, 100}) {
      RunArgs pieces = whole;
      pieces.piece = piece;
      const InterpreterResult got = run(runner, pieces);
      EXPECT_EQ(got.outputs, expected.outputs) << "pieces of " << piece;
      EXPECT_EQ(got.final_states, expected.final_states) << "pieces of " << piece;
    }
    whole.piece = 3;
    EXPECT_LE(worst_error(run(runner, whole), expected), tolerance(DType::f32));
  }
}

/// Rows [begin, end) of an array [T, ...].
Array rows(const Array& array, int64_t begin, int64_t end) {
  std::vector<double> values = array.to_doubles();
  const int64_t width = std::ssize(values) / array.shape[0];
  std::vector<int64_t> shape = array.shape;
  shape[0] = end - begin;
  return Array::from_doubles({values.begin() + begin * width, values.begin() + end * width}, shape,
                             DType::f64);
}

TEST_P(Streams, AnotherProgramGoesOnFromFinalStates) {
  const Sequences sequences = random_sequences(10, 3, false, true, false, 2);
  const RunArgs whole = run_args(graph(), arguments(graph(), sequences, 2), sequences);
  CompileOptions options;
  options.chunk = 4;
  const InterpreterResult expected = run(graph(), options, whole);
  RunArgs part = whole;
  std::vector<std::vector<double>> outputs(expected.outputs.size());
  for (const auto& [begin, end] : {std::pair<int64_t, int64_t>(0, 4), {4, 8}, {8, 10}}) {
    for (size_t i = 0; i < part.inputs.size(); ++i) {
      part.inputs[i].array = rows(whole.inputs[i].array, begin, end);
    }
    part.reset = rows(*whole.reset, begin, end);
    Program program = compile(graph(), options);
    const Result<RunResult> result = Runner(program).run(part);
    ASSERT_TRUE(result) << result.error().message;
    for (size_t i = 0; i < outputs.size(); ++i) {
      const std::vector<double> values = result->outputs[i].array.to_doubles();
      outputs[i].insert(outputs[i].end(), values.begin(), values.end());
    }
    part.initial_states = result->final_states;
  }
  EXPECT_EQ(outputs, expected.outputs);
  EXPECT_EQ(values_of(part.initial_states), expected.final_states);
}

TEST_P(SequenceRuns, AllocateNothingInACall) {
  const Sequences sequences = random_sequences(9, 4, true, true, true, 5);
  const InterpreterArgs args = arguments(graph(), sequences, 5);
  CompileOptions options;
  options.chunk = 4;
  options.threads = 2;
  CpuProgram program(graph(), options, 4, 9, {.lengths = true, .resets = true});
  const SequenceArgs given = {{sequences.lengths.begin(), sequences.lengths.end()},
                              sequences.resets};
  const InterpreterResult got = program.run(args, false, given);
  EXPECT_EQ(program.allocations_in_last_run(), 0);
  EXPECT_LE(
      worst_error(got, interpret_sequences(graph(), args, sequences.lengths, sequences.resets)),
      tolerance(DType::f32));
}

std::string graph_name(const testing::TestParamInfo<size_t>& test) {
  return graphs()[test.param].name;
}
INSTANTIATE_TEST_SUITE_P(Graphs, SequenceRuns, testing::Range<size_t>(0, 6), graph_name);
INSTANTIATE_TEST_SUITE_P(Graphs, Streams, testing::Values(0, 1, 3, 4, 5), graph_name);

/// Steps of each sequence's own length backwards; past the end as they are.
std::vector<double> reversed(const std::vector<double>& values, const Sequences& sequences) {
  std::vector<double> result = values;
  const int64_t width = std::ssize(values) / (sequences.steps * sequences.batch);
  for (int64_t b = 0; b < sequences.batch; ++b) {
    const int64_t length = sequences.lengths.empty() ? sequences.steps : sequences.lengths[b];
    for (int64_t t = 0; t < length; ++t) {
      std::copy_n(values.begin() + ((length - 1 - t) * sequences.batch + b) * width, width,
                  result.begin() + (t * sequences.batch + b) * width);
    }
  }
  return result;
}

TEST(Reversal, OfACellReadsEachSequenceFromItsEnd) {
  for (const size_t index : {0, 1, 3, 5}) {
    const Graph& graph = graphs()[index].graph;
    for (const bool lengths : {false, true}) {
      const Sequences sequences = random_sequences(11, 4, lengths, false, true, 6);
      InterpreterArgs args = arguments(graph, sequences, 6);
      CompileOptions options;
      options.dtype = DType::f64;
      options.chunk = 3;
      options.reverse = true;
      // The delays start as their states do, or at zero.
      for (size_t i = 0; i < graph.states.size(); ++i) {
        if (is_implied(graph.states[i])) args.initial_states[i].clear();
      }
      const RunArgs call = run_args(graph, args, sequences);
      for (size_t i = 0; i < graph.states.size(); ++i) {
        const std::optional<uint32_t> base = graph.states[i].delay_of;
        if (base) args.initial_states[i] = args.initial_states[*base];
      }
      const InterpreterResult got = run(graph, options, call);
      for (auto& input : args.inputs) input = reversed(input, sequences);
      InterpreterResult expected = interpret_sequences(graph, args, sequences.lengths, {});
      for (auto& output : expected.outputs) output = reversed(output, sequences);
      EXPECT_LE(worst_error(got, expected), 1e-12) << graph.name;
    }
  }
}

TEST(Reversal, OfACellBeginsAnewAfterEachReset) {
  // Resets before steps 3 and 4 part the sequence into [0, 3), [3, 4) and [4, 6).
  const Graph& graph = graphs()[0].graph;
  Sequences sequences = random_sequences(6, 1, false, false, true, 6);
  sequences.resets = {0, 0, 0, 1, 1, 0};
  const InterpreterArgs args = arguments(graph, sequences, 6);
  CompileOptions options;
  options.dtype = DType::f64;
  options.reverse = true;
  const InterpreterResult got = run(graph, options, run_args(graph, args, sequences));
  const auto part = [&](int64_t begin, int64_t end, bool given) {
    Sequences alone = random_sequences(end - begin, 1, false, false, given, 6);
    InterpreterArgs cut = args;
    if (!given) cut.initial_states.clear();
    const auto width = static_cast<int64_t>(args.inputs[0].size()) / 6;
    cut.inputs[0] = {args.inputs[0].begin() + begin * width, args.inputs[0].begin() + end * width};
    return run(graph, options, run_args(graph, cut, alone));
  };
  const InterpreterResult first = part(0, 3, false);
  const InterpreterResult second = part(3, 4, false);
  const InterpreterResult last = part(4, 6, true);
  std::vector<double> joined = first.outputs[0];
  joined.insert(joined.end(), second.outputs[0].begin(), second.outputs[0].end());
  joined.insert(joined.end(), last.outputs[0].begin(), last.outputs[0].end());
  EXPECT_EQ(got.outputs[0], joined);
  EXPECT_EQ(got.final_states, first.final_states);
}

}  // namespace
}  // namespace rnnc::test
