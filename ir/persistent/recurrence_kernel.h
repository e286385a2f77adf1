/// What the choice of a RecurrenceLaunch's tile (passes/tile/recurrence_tiles.h) and the text of
/// its kernel (codegen/cuda) must agree on, beside where blocks exchange what
/// (recurrence_exchange.h).
#pragma once

#include <cstdint>

namespace rnnc {

inline constexpr int64_t kThreadsOfWarp = 32;
inline constexpr int64_t kTileGates = 16;      // of weights, that tensor cores take at once
inline constexpr int64_t kTileWords = 8;       // of these, in each thread of a warp
inline constexpr int64_t kLanesOfGate = 4;     // of a tile's sums, of which each has 4
inline constexpr int64_t kUnitsOfWarp = 16;    // that keeps its sums
inline constexpr int64_t kMostSpan = 2;        // neighbouring elements of a thread
inline constexpr int64_t kMostInvariants = 8;  // of an element, in registers
/// Of a left operand, in registers during the elementwise work of the step or pass before.
inline constexpr int64_t kMostWordsAhead = 32;
/// One code serves all passes of a tile's rows, which keep what they carry in shared memory then,
/// where there are more passes, or more rows of each: that is much code and takes long to compile.
/// (Two passes of 24 rows, LSTM 43x1085 in TF32: a third less, but steps of 9.0 us, else 8.65; of
/// 32 rows, GRU 54x1152 in f32: two fifths less, steps of 16.7 us, else 16.9.)
inline constexpr int64_t kMostUnrolledPasses = 2;
inline constexpr int64_t kMostUnrolledRows = 16;

}  // namespace rnnc
