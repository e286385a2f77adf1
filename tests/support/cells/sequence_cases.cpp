#include "tests/support/cells/sequence_cases.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <random>

#include "runtime/program/run.h"
#include "tests/support/cells/random_graph.h"
#include "tests/support/kept_kernels.h"
#include "tests/support/reference/golden.h"
#include "tests/support/reference/interpreter_run.h"
#include "tests/support/reference/sequence_oracle.h"

namespace rnnc::test {
namespace {

std::string describe(const Sequences& sequences) {
  return fmt::format("T {}, B {}, lengths [{}], {} resets, states {}", sequences.steps,
                     sequences.batch, fmt::join(sequences.lengths, " "),
                     std::ranges::count(sequences.resets, 1),
                     sequences.given_states ? "given" : "as declared");
}

std::vector<std::vector<double>> values_of(const std::vector<NamedArray>& arrays) {
  std::vector<std::vector<double>> values;
  for (const NamedArray& array : arrays) values.push_back(array.array.to_doubles());
  return values;
}

/// Of the finite ones, absolute.
double largest_of(const InterpreterResult& result) {
  double largest = 0;
  for (const auto* arrays : {&result.outputs, &result.final_states}) {
    for (const std::vector<double>& array : *arrays) {
      for (const double value : array) {
        if (std::isfinite(value)) largest = std::max(largest, std::fabs(value));
      }
    }
  }
  return largest;
}

/// A graph's program. What goes wrong is a failure of the test, and results are empty.
class SequenceProgram {
 public:
  SequenceProgram(const Graph& graph, const CompileOptions& options)
      : graph_(graph),
        dtype_(options.dtype),
        program_(Program::compile(graph, with_kept_kernels(options))) {
    if (program_) {
      runner_.emplace(*program_);
    } else {
      ADD_FAILURE() << program_.error().message;
    }
  }

  InterpreterResult run(const InterpreterArgs& args, const Sequences& sequences,
                        int64_t piece = 0) {
    if (!runner_) return {};
    RunArgs call = named_args(graph_, args, sequences.lengths, sequences.resets);
    call.piece = piece;
    const Result<RunResult> result = runner_->run(call);
    if (result) return {values_of(result->outputs), values_of(result->final_states)};
    ADD_FAILURE() << result.error().message;
    return {};
  }

  /// Against each segment by itself.
  void check(const Sequences& sequences, uint32_t seed, double tolerance, Cells cells) {
    constexpr int kHalvings = 20;  // more would not help
    SCOPED_TRACE(describe(sequences));
    InterpreterArgs args = sequence_arguments(graph_, sequences, seed);
    const auto interpret = [&](const InterpreterArgs& of) {
      return interpret_sequences(graph_, of, sequences.lengths, sequences.resets);
    };
    InterpreterResult expected = interpret(args);
    const auto fits = [&] { return largest_of(expected) <= largest_result(dtype_); };
    for (int i = 0; i < kHalvings && cells == Cells::any && !fits(); ++i) {
      for (std::vector<double>& param : args.params) {
        for (double& value : param) value /= 2;
      }
      expected = interpret(args);
    }
    const double error = error_of_results(run(args, sequences), expected);
    double allowed = tolerance;
    if (error > tolerance && cells == Cells::any) {
      const double moved =
          error_of_results(interpret(moved_by_rounding(graph_, args, dtype_)), expected);
      allowed = std::max(allowed, kTimesRounding * moved);
    }
    EXPECT_LE(error, allowed);
  }

 private:
  const Graph& graph_;
  DType dtype_;
  Result<Program> program_;
  std::optional<Runner> runner_;
};

void expect_same_bits(const InterpreterResult& actual, const InterpreterResult& expected) {
  EXPECT_EQ(actual.outputs, expected.outputs);
  EXPECT_EQ(actual.final_states, expected.final_states);
}

/// And states with histories, which are given with them or not at all.
void clear_implied_states(const Graph& graph, InterpreterArgs& args) {
  for (size_t i = 0; i < args.initial_states.size(); ++i) {
    const StateDecl& state = graph.states[i];
    const bool implied = state.name.find('@') != std::string::npos;
    if (implied) args.initial_states[i].clear();
    const bool history = state.delay_of && graph.states[*state.delay_of].type != state.type;
    if (history) args.initial_states[*state.delay_of].clear();
  }
}

/// Elements of a row (t, b) of a sequence.
int64_t width_of(const std::vector<double>& values, const Sequences& sequences) {
  return std::ssize(values) / (sequences.steps * sequences.batch);
}

int64_t length_of(const Sequences& sequences, int64_t b) {
  return sequences.lengths.empty() ? sequences.steps : sequences.lengths[static_cast<size_t>(b)];
}

/// Steps of each sequence's own length backwards; past the end as they are.
std::vector<double> reversed(const std::vector<double>& values, const Sequences& sequences) {
  std::vector<double> result = values;
  const int64_t width = width_of(values, sequences);
  for (int64_t b = 0; b < sequences.batch; ++b) {
    const int64_t length = length_of(sequences, b);
    for (int64_t t = 0; t < length; ++t) {
      std::copy_n(values.begin() + ((length - 1 - t) * sequences.batch + b) * width, width,
                  result.begin() + (t * sequences.batch + b) * width);
    }
  }
  return result;
}

/// A run's steps [begin, end), without its resets.
struct Part {
  Sequences sequences;
  InterpreterArgs args;
};

Part part_of(const InterpreterArgs& args, const Sequences& sequences, int64_t begin, int64_t end) {
  Part part{{.steps = end - begin, .batch = sequences.batch}, args};
  part.args.steps = end - begin;
  for (auto& input : part.args.inputs) {
    const int64_t row = width_of(input, sequences) * sequences.batch;
    input = {input.begin() + begin * row, input.begin() + end * row};
  }
  return part;
}

void append(std::vector<std::vector<double>>& sequences,
            const std::vector<std::vector<double>>& more) {
  sequences.resize(std::max(sequences.size(), more.size()));
  for (size_t i = 0; i < more.size(); ++i) {
    sequences[i].insert(sequences[i].end(), more[i].begin(), more[i].end());
  }
}

}  // namespace

SequenceFeatures Sequences::features() const {
  return {.lengths = !lengths.empty(), .resets = !resets.empty()};
}

Sequences random_sequences(int64_t steps, int64_t batch, SequenceFeatures features,
                           bool given_states, uint32_t seed) {
  std::mt19937 generator(seed);
  Sequences sequences = {.steps = steps, .batch = batch, .given_states = given_states};
  for (int64_t b = 0; b < batch && features.lengths; ++b) {
    const int64_t length = static_cast<int64_t>(generator() % (steps + 1));
    sequences.lengths.push_back(b == 1 ? 0 : b == 2 ? steps : length);
  }
  // Some far apart, so that there is something left of histories.
  const uint32_t apart = seed % 3 == 0 ? 16 : 4;
  for (int64_t i = 0; i < steps * batch && features.resets; ++i) {
    sequences.resets.push_back(i == 0 || generator() % apart == 0 ? 1 : 0);
  }
  return sequences;
}

InterpreterArgs sequence_arguments(const Graph& graph, const Sequences& sequences, uint64_t seed) {
  InterpreterArgs args =
      random_args(graph, sequences.steps, sequences.batch, seed, sequences.given_states);
  if (std::ranges::any_of(graph.states, &StateDecl::reversed)) clear_implied_states(graph, args);
  return args;
}

double largest_result(DType dtype) {
  constexpr double kRoom = 8;
  switch (dtype) {
    case DType::bf16:
      return 0x1.fep127 / kRoom;
    case DType::f16:
      return 65504 / kRoom;
    case DType::f64:
      return std::numeric_limits<double>::max() / kRoom;
    default:
      return 0x1.fffffep127 / kRoom;
  }
}

double error_of_results(const InterpreterResult& actual, const InterpreterResult& expected) {
  if (actual.outputs.size() != expected.outputs.size() ||
      actual.final_states.size() != expected.final_states.size()) {
    return std::numeric_limits<double>::infinity();
  }
  double error = 0;
  for (size_t i = 0; i < expected.outputs.size(); ++i) {
    error = std::max(error, error_of(actual.outputs[i], expected.outputs[i]));
  }
  for (size_t i = 0; i < expected.final_states.size(); ++i) {
    error = std::max(error, error_of(actual.final_states[i], expected.final_states[i]));
  }
  return error;
}

void check_run(const Graph& graph, const CompileOptions& options, const Sequences& sequences,
               double tolerance, Cells cells) {
  SequenceProgram(graph, options).check(sequences, 1, tolerance, cells);
}

void check_segments(const Graph& graph, const CompileOptions& options, double tolerance) {
  SequenceProgram program(graph, options);
  struct Shape {
    int64_t steps, batch;
  };
  uint32_t seed = 0;
  // The longest comes first: what is prepared for it serves the others.
  for (const Shape shape : {Shape{13, 5}, Shape{4, 5}, Shape{3, 5}, Shape{1, 1}}) {
    for (const unsigned kind : {0U, 1U, 2U, 3U, 4U, 5U, 6U, 7U}) {
      const SequenceFeatures features = {.lengths = (kind & 1) != 0, .resets = (kind & 2) != 0};
      ++seed;
      program.check(random_sequences(shape.steps, shape.batch, features, (kind & 4) != 0, seed),
                    seed, tolerance, Cells::tame);
    }
  }
}

void check_padding(const Graph& graph, CompileOptions options) {
  options.chunk = 4;
  const Sequences sequences =
      random_sequences(9, 4, {.lengths = true, .resets = true}, /*given_states=*/true, 5);
  InterpreterArgs args = sequence_arguments(graph, sequences, 5);
  SequenceProgram program(graph, options);
  const InterpreterResult clean = program.run(args, sequences);
  for (auto& input : args.inputs) {
    const int64_t width = width_of(input, sequences);
    for (int64_t t = 0; t < sequences.steps; ++t) {
      for (int64_t b = 0; b < sequences.batch; ++b) {
        if (t < length_of(sequences, b)) continue;
        std::fill_n(input.begin() + (t * sequences.batch + b) * width, width,
                    std::numeric_limits<double>::quiet_NaN());
      }
    }
  }
  expect_same_bits(program.run(args, sequences), clean);
}

void check_pieces(const Graph& graph, CompileOptions options, double tolerance) {
  options.chunk = 2;
  SequenceProgram program(graph, options);
  for (const bool features : {false, true}) {
    const Sequences sequences = random_sequences(11, 3, {.lengths = features, .resets = features},
                                                 /*given_states=*/true, 9);
    SCOPED_TRACE(describe(sequences));
    const InterpreterArgs args = sequence_arguments(graph, sequences, 9);
    const InterpreterResult expected = program.run(args, sequences);
    for (const int64_t piece : {2, 4, 6, 10, 12, 100}) {
      SCOPED_TRACE(fmt::format("pieces of {}", piece));
      expect_same_bits(program.run(args, sequences, piece), expected);
    }
    EXPECT_LE(error_of_results(program.run(args, sequences, 3), expected), tolerance);
  }
}

void check_continuation(const Graph& graph, CompileOptions options) {
  options.chunk = 4;
  const Sequences sequences =
      random_sequences(10, 3, {.lengths = false, .resets = true}, /*given_states=*/false, 2);
  const InterpreterArgs args = sequence_arguments(graph, sequences, 2);
  const InterpreterResult expected = SequenceProgram(graph, options).run(args, sequences);
  InterpreterResult joined;
  for (const auto& [begin, end] : {std::pair<int64_t, int64_t>(0, 4), {4, 8}, {8, 10}}) {
    Part part = part_of(args, sequences, begin, end);
    part.sequences.resets = {sequences.resets.begin() + begin * sequences.batch,
                             sequences.resets.begin() + end * sequences.batch};
    part.args.initial_states = joined.final_states;
    InterpreterResult result = SequenceProgram(graph, options).run(part.args, part.sequences);
    append(joined.outputs, result.outputs);
    joined.final_states = std::move(result.final_states);
  }
  expect_same_bits(joined, expected);
}

void check_reversal(const Graph& graph, CompileOptions options, double tolerance) {
  options.chunk = 3;
  options.reverse = true;
  SequenceProgram program(graph, options);
  for (const bool lengths : {false, true}) {
    const Sequences sequences = random_sequences(11, 4, {.lengths = lengths, .resets = false},
                                                 /*given_states=*/true, 6);
    SCOPED_TRACE(describe(sequences));
    InterpreterArgs args = sequence_arguments(graph, sequences, 6);
    clear_implied_states(graph, args);  // those start as their states do, or at zero
    const InterpreterResult got = program.run(args, sequences);
    for (auto& input : args.inputs) input = reversed(input, sequences);
    InterpreterResult expected = interpret_sequences(graph, args, sequences.lengths, {});
    for (auto& output : expected.outputs) output = reversed(output, sequences);
    EXPECT_LE(error_of_results(got, expected), tolerance);
  }
}

void check_resets_in_reverse(const Graph& graph, CompileOptions options, double tolerance) {
  options.reverse = true;
  SequenceProgram program(graph, options);
  // Resets before steps 3 and 4 part the sequence into [0, 3), [3, 4) and [4, 6).
  const Sequences sequences = {
      .steps = 6, .batch = 1, .resets = {0, 0, 0, 1, 1, 0}, .given_states = true};
  InterpreterArgs args = sequence_arguments(graph, sequences, 6);
  clear_implied_states(graph, args);
  const InterpreterResult got = program.run(args, sequences);
  InterpreterResult joined;
  for (const auto& [begin, end] : {std::pair<int64_t, int64_t>(0, 3), {3, 4}, {4, 6}}) {
    Part part = part_of(args, sequences, begin, end);
    if (end < sequences.steps) part.args.initial_states.clear();
    const InterpreterResult alone = program.run(part.args, part.sequences);
    append(joined.outputs, alone.outputs);
    if (begin == 0) joined.final_states = alone.final_states;
  }
  EXPECT_LE(error_of_results(got, joined), tolerance);
}

}  // namespace rnnc::test
