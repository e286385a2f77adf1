/// The contract of a RecurrenceLaunch's kernel: what the choice of its tile (passes), the Plan's
/// verifier and the text of the kernel (codegen/cuda) must agree on. All that these know of an
/// NVIDIA GPU's threads is here; ir/persistent/recurrence_footprint.h makes of it what a tile
/// needs, and ir/persistent/recurrence_exchange.h says where thread blocks put what they hand to
/// each other.
///
/// The unit of work of a warp is one `mma` of tensor cores: 16 gates (an element of one matrix of a
/// product each) by 8 rows of the batch, along 32 bytes of k. A tile of weights is two of these, 64
/// bytes of k. Products without tensor cores take weights in the same tiles, so that one choice and
/// one layout serve both.
#pragma once

#include <cstdint>

namespace rnnc {

// ---- Threads and what they load ----

inline constexpr int64_t kThreadsOfWarp = 32;
/// A register; also a place of sums, carries and exact operands in shared memory, which are f32.
inline constexpr int64_t kBytesOfWord = 4;
/// The most that a thread loads or stores at once.
inline constexpr int64_t kBytesOfLoad = 16;
/// What memory takes as one: two blocks that write to one of these slow each other.
inline constexpr int64_t kBytesOfSector = 32;

// ---- Tiles of weights, and the rows that they are multiplied with ----

/// Gates of a tile: the 16 rows of the left matrix of an `mma`.
inline constexpr int64_t kTileGates = 16;
/// Words of a tile in each thread of a warp: 16 gates of 64 bytes are 256 words.
inline constexpr int64_t kTileWords = 8;
/// Bytes of k of a tile, and of the pieces in which blocks hand vectors to each other.
inline constexpr int64_t kExchangePieceBytes = 64;
/// Rows of the batch that a tile is multiplied with at once: the 8 columns of an `mma`. Rows at
/// once of a RecurrenceTile are a multiple of it.
inline constexpr int64_t kExchangeTileRows = 8;
/// Rows that products without tensor cores multiply a weight with at once.
inline constexpr int64_t kRowsAdded = 2;
/// Of a left operand, in registers during the elementwise work of the step or lap before.
inline constexpr int64_t kMostWordsAhead = 32;

// ---- Sums of products ----

/// Lanes that have the sums of a gate of a tile, of two rows each.
inline constexpr int64_t kLanesOfGate = 4;
/// Elements whose gates are all of one warp, where warps keep their sums
/// (RecurrenceTile::own_sums): a tile for each matrix of the product.
inline constexpr int64_t kUnitsOfWarp = 16;
/// Sums otherwise lie in shared memory, for two steps or laps in turn: rows of all gates of a
/// phase and so many words more, so that rows begin in different banks.
inline constexpr int64_t kSumBuffers = 2;
inline constexpr int64_t kPadOfSums = 4;

// ---- Elements ----

/// Neighbouring elements of a thread: two halves of 16 bits are a word.
inline constexpr int64_t kMostSpan = 2;
/// Values of an element that are the same at every step stay in registers if they are no more.
inline constexpr int64_t kMostInvariants = 8;
/// One code serves all laps of a tile's rows, which keep what they carry in shared memory then,
/// where there are more laps, or more rows of each: that is much code and takes long to compile.
/// (On an H200, two laps of 24 rows, LSTM 43x1085 in TF32: a third less time to compile, but
/// steps of 9.0 us, else 8.65; of 32 rows, GRU 54x1152 in f32: two fifths less, steps of 16.7 us,
/// else 16.9.)
inline constexpr int64_t kMostUnrolledLaps = 2;
inline constexpr int64_t kMostUnrolledRows = 16;

// ---- What else a block has in shared memory ----

/// A block's part of a reduction, and the result of one: a sum and squared deviations, or an
/// extremum.
inline constexpr int64_t kBytesOfPart = 8;
/// Of what a block hands to itself, which is not of the exchange: a step reads while it writes.
inline constexpr int64_t kStepsKept = 2;
/// Of each vector that blocks of a cluster exchange, at each step: an `mbarrier`.
inline constexpr int64_t kBytesOfBarrier = 8;

}  // namespace rnnc
