/// What lengths, resets, reversal and runs in pieces promise, as checks for any device. Failures
/// are GoogleTest's.
///
/// Arguments are `random_args`, whose numbers every type holds exactly. `options` say where and in
/// which type a graph runs; `tolerance` is for `error_of_results`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/graph/graph.h"
#include "ir/graph/interpreter.h"
#include "runtime/program/program.h"

namespace rnnc::test {

/// What happens to the sequences of a run.
struct Sequences {
  int64_t steps = 0;
  int64_t batch = 0;
  std::vector<int64_t> lengths = {};  // [B]; empty: all are T
  std::vector<uint8_t> resets = {};   // [T, B]; empty: none
  bool given_states = false;

  SequenceFeatures features() const;
};

/// Lengths 0 and T are among them if there is room, and a reset at step 0.
Sequences random_sequences(int64_t steps, int64_t batch, SequenceFeatures features,
                           bool given_states, uint32_t seed);

/// Arguments for a graph with delays as states of its own. What goes on from a sequence's middle is
/// not given where a layer runs in reverse.
InterpreterArgs sequence_arguments(const Graph& graph, const Sequences& sequences, uint64_t seed);

/// Largest error over outputs and final states.
double error_of_results(const InterpreterResult& actual, const InterpreterResult& expected);

/// Of a chaotic cell, what rounding in between may do to results: so many times that of each number
/// that goes in (`moved_by_rounding`).
inline constexpr double kTimesRounding = 8;

/// Results up to this leave room in their type for what is greater in between.
double largest_result(DType dtype);

/// Which cells a check is for.
enum class Cells {
  tame,  // results are as exact as their type
  /// Chaotic cells are not to be had more exactly than some times what rounding each number that
  /// goes in does to their results. Some grow at each step: params are halved until results stay
  /// well below the largest number of their type.
  any,
};

/// One run means what each segment of each sequence by itself does (sequence_oracle.h).
void check_run(const Graph& graph, const CompileOptions& options, const Sequences& sequences,
               double tolerance, Cells cells = Cells::tame);
/// So do runs with and without lengths, resets and given states, of 1, 3, 4 and 13 steps.
void check_segments(const Graph& graph, const CompileOptions& options, double tolerance);
/// NaN past a sequence's end changes no bit.
void check_padding(const Graph& graph, CompileOptions options);
/// Pieces of whole chunks give the bits of one run, others its numbers. The graph runs forward, as
/// for all that follow.
void check_pieces(const Graph& graph, CompileOptions options, double tolerance);
/// Another program goes on from final states with the bits of one run.
void check_continuation(const Graph& graph, CompileOptions options);
/// CompileOptions::reverse reads each sequence from its own end.
void check_reversal(const Graph& graph, CompileOptions options, double tolerance);
/// A run in reverse begins anew where it crosses a reset.
void check_resets_in_reverse(const Graph& graph, CompileOptions options, double tolerance);

}  // namespace rnnc::test
