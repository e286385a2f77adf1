/// Random step Graphs for property tests: a pass must not change what they compute, a backend must
/// compute what the interpreter does.
///
/// The same seed and options give the same graph on every machine, so a test loops over seeds and
/// names the one that failed: `SCOPED_TRACE(fmt::format("seed {}", seed))`.
#pragma once

#include <cstdint>

#include "ir/base/dtype.h"
#include "ir/graph/graph.h"
#include "ir/graph/interpreter.h"

namespace rnnc {

struct RandomGraphOptions {
  int operations = 30;       // about how many besides leaves and state updates
  int64_t largest_size = 8;  // of a vector
  bool structure = false;    // with slices, concatenations, arrays, block-diagonal products, …
  bool reversals = false;    // with values and states that run in reverse, in several sweeps
  bool far = false;          // with delays of up to 300 steps
};

/// A verified graph without symbolic dims, with 1 to 3 inputs, 1 to 3 states, params of rank 0 to 2
/// and 1 to 3 outputs, of different sizes and scalars among them. Over many seeds it has every
/// scalar op, reduction and product, delays up to 3 of inputs and states, products of products,
/// matrices computed from params alone, linear, elementwise and dense recurrences, shift registers,
/// and values that nothing reads.
///
/// `structure` adds arrays of inputs, params and states, block-diagonal params, and every
/// structural op but Reverse. `reversals` adds 1 or 2 further layers with states of their own, in
/// reverse and forward by turns, of what came before. `far` reads some inputs and states 4 to 300
/// steps back. Without these options a seed gives what it
/// gives without them, whatever they come to add.
///
/// Made for comparing arithmetic of different precision, with arguments from `random_args`:
/// operands stay within +-8 (and results within their products and sums), states within +-1, and
/// functions that jump (sign, floor, mod, comparisons) see only values that every storage type
/// holds exactly.
Graph random_graph(uint64_t seed, const RandomGraphOptions& options = {});

/// Arguments for a graph of `random_graph`; multiples of 1/64 up to 1 (matrices: 1/8), and integers
/// below 4 that name rows which there are.
InterpreterArgs random_args(const Graph& graph, int64_t steps, int64_t batch, uint64_t seed,
                            bool with_initial_states = false);

/// Each real number up or down by what rounding to `dtype` may change, relative to it.
InterpreterArgs moved_by_rounding(const Graph& graph, InterpreterArgs args, DType dtype);

}  // namespace rnnc
