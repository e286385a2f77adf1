/// Random well-typed .rnn programs: cells with states, arrays, blocks, delays (of locals too, and
/// up to 300 steps), slices, derived weights, tables and inputs of integers, numbers of steps,
/// recurrences that can be scans, cells within cells, and networks with loops and reversed layers.
#pragma once

#include <cstdint>
#include <string>

#include "ir/graph/dim.h"

namespace rnnc::test {

struct WrittenProgram {
  std::string text;
  std::string main;       // the definition to run
  DimBindings dims;       // of all definitions
  bool reversed = false;  // some layer runs in reverse
  int64_t farthest = 0;   // steps back that something is read
};

/// The same seed gives the same program on every machine. For comparing arithmetic that rounds
/// differently: values stay bounded, denominators away from zero, and functions that jump (sign,
/// floor, mod, comparisons) see only inputs and params as they are, whose values (multiples of
/// 1/64) are never where these jump.
WrittenProgram write_program(uint64_t seed);

}  // namespace rnnc::test
