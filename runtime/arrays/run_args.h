/// The arrays of a run (runtime/program/run.h).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/arrays/array.h"

namespace rnnc {

/// Arrays are matched by name and converted to the program's dtypes; everything missing, unknown or
/// of a wrong shape is listed in one error. Inputs [T, B, ...], initial states [B, ...].
struct RunArgs {
  std::vector<NamedArray> inputs;
  std::vector<NamedArray> params;
  std::vector<NamedArray> initial_states;  // those given; the others start as declared
  /// [B], steps of each sequence: whole numbers from 0 to T.
  std::optional<std::vector<int64_t>> lengths = {};
  /// [T, B], true or false (nonzero or zero).
  std::optional<Array> reset = {};
  /// Runs the sequence in pieces of so many steps, carrying the states; 0: in one. The bits are
  /// those of one run if pieces are multiples of the plan's chunk (CompileOptions::chunk). An error
  /// if a layer runs in reverse, as are given implied states (`x@1`) then: neither the sequence's
  /// beginning nor its end would be where that layer needs it.
  int64_t piece = 0;
};

}  // namespace rnnc
