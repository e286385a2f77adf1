/// What generated kernels and the runtime that launches them agree on: names, parameters and block
/// shapes. The device's side of the structs is prelude.cuh; sizes and order must match.
#pragma once

#include <cstdint>
#include <string>

#include "ir/base/launch_limits.h"
#include "ir/plan/plan.h"

namespace rnnc {

/// The parameter block, which launches in graphs of ours read: word 0 is the first step, in the
/// order in which steps run, of the chunk that stages of lag 0 are at, word 1 the steps of the
/// call, word 2 zero, word kCudaFirstSlot + s the address in slot s. A lag's steps are part of
/// `CudaAccess::address` and `CudaRows::step`.
inline constexpr int kCudaFirstSlot = 3;

/// Where an array lies; `rnnc_access`. `slot` < 0: `address` is row 0's. Else row 0 lies `address`
/// bytes, and `per_step` bytes times word 0 of the parameter block, from the address in that slot.
/// As it is made: no array, which a launch may have in the place of one that others store to.
struct CudaAccess {
  int64_t address = 0;
  int64_t per_step = 0;
  int64_t stride = 0;  // elements
  int32_t slot = -1;
  friend bool operator==(const CudaAccess&, const CudaAccess&) = default;
};
static_assert(sizeof(CudaAccess) == 32);

/// First parameter of every kernel of a plan, before one CudaAccess per argument; `rnnc_rows`.
struct CudaRows {
  const int64_t* frame = nullptr;  // the parameter block; may be null if no access has a slot
  uint32_t count = 0;              // 0: the launch does nothing
  uint32_t per_slice = 0;          // rows of one blockIdx.y
  int32_t step = 0;                // the launch's step less word 0: step in the chunk, less lag * C
  int32_t predicated = 0;  // not 0: the launch does nothing unless its step is one of the call's
};
static_assert(sizeof(CudaRows) == 24);

// Programmatic dependent launch: every kernel of a unit lets the next launch begin at once, and
// waits for the end of all launches before it before it touches anything but the parameter block,
// weights, and other arrays that no launch of a Step stage writes. So each may be launched with the
// attribute after another of the unit's, if the last launch without it began after all of those
// were written, as an ordinary first launch of a graph of Step stages does. A launch after one that
// writes the parameter block goes without.

/// Sets words of the parameter block: one block of kCudaFrameWords threads. Parameters: int64_t*
/// frame, int first, int count, CudaFrameWords.
inline constexpr const char* kCudaSetFrameName = "rnnc_set_frame";
inline constexpr int kCudaFrameWords = 64;
struct CudaFrameWords {
  int64_t word[kCudaFrameWords] = {};
};

/// Ends a wave; gridDim.y is the number of histories. Parameters: int64_t* frame, int steps, int
/// advance (whether word 0 moves on), int before_ends (not 0: nothing happens in the wave in which
/// the chunk of lag 0 is the last one, and after it), CudaHistories.
std::string cuda_end_chunk_name(const Plan& plan);
inline constexpr int kCudaHistoriesPerLaunch = 64;
struct CudaHistory {
  int64_t address = 0;  // of the slot that is written first, as in CudaAccess
  int64_t units = 0;    // 16-bit words in a slot
  int32_t depth = 0;    // slots
  int32_t slot = -1;    // of the parameter block, as in CudaAccess
};
static_assert(sizeof(CudaHistory) == 24);
struct CudaHistories {
  CudaHistory history[kCudaHistoriesPerLaunch] = {};
};

/// Kernels of sequence.cuh. Grids and parameters: runtime/cuda/sequence_launches.cpp.
inline constexpr const char* kCudaSplitName = "rnnc_split";
inline constexpr const char* kCudaSplitTurnedName = "rnnc_split_turned";
inline constexpr int kCudaRowsThreads = 256;
/// The kernel of resets.cuh, and how many steps of a sequence a thread of it takes.
inline constexpr const char* kCudaResetsBackName = "rnnc_resets_back";
inline constexpr int64_t kCudaResetSpan = 32;
inline constexpr const char* kCudaCopyName = "rnnc_copy_arrays";
/// Its parameter; gridDim.y is the number of copies.
inline constexpr int kCudaCopiesPerLaunch = 64;
struct CudaCopy {
  const char* source = nullptr;  // null: zeros
  char* target = nullptr;
  int64_t rows = 1;
  int64_t bytes = 0;  // of a row; even, as all distances
  int64_t source_pitch = 0;
  int64_t target_pitch = 0;
};
struct CudaCopies {
  CudaCopy copy[kCudaCopiesPerLaunch] = {};
};
inline constexpr int kCudaTransposeTile = 32;
inline constexpr int kCudaTransposeThreads = 8;  // times the tile
inline constexpr int kCudaSplitThreads = 32;     // along a row, of 4 elements each
inline constexpr int kCudaSplitRows = 8;
inline constexpr int kCudaSplitRowsOfThread = 4;  // where they are not turned
inline constexpr int kCudaSplitTile = 32;         // rows and columns of a block that turns them
/// The one that a launch needs; "" for launches of other kinds. A unit has those that its plan needs
/// and no others.
std::string cuda_sequence_kernel(const Plan& plan, const Launch& launch);

/// Those of a kernel with most arrays, of any kind.
static_assert(sizeof(CudaRows) + 2 * sizeof(int32_t) + kMostArrays * sizeof(CudaAccess) <=
              kMostParameterBytes);

/// The kernel of totals.cuh, for Total launches without products, and what tiles of scans add up.
/// Parameters and what it does: there.
inline constexpr const char* kCudaTotalName = "rnnc_total";
inline constexpr int kCudaTotalColumns = 64;  // of a block, two of a thread
inline constexpr int kCudaTotalThreads = 16;  // times half the columns
/// In how many slices `rows` rows of `columns` elements are added up, which are blocks of
/// blockIdx.y; if there are several, what they make is added up next. Of more rows no fewer.
int64_t cuda_row_slices(int64_t rows, int64_t columns);

/// The function that `Plan::kernels[index]` becomes.
std::string cuda_kernel_name(size_t index);

/// How a kernel is launched.
struct CudaKernelShape {
  int64_t length = 0;      // elements of a row
  int threads = 0;         // per block
  int items = 1;           // elements per thread
  bool row_block = false;  // one block per row; else threads have neighbours of all rows
};
/// `items`: without reductions; KernelTraits::of_thread.
CudaKernelShape cuda_kernel_shape(const Kernel& kernel, int items = 1);

/// The largest number of rows of a launch whose rows have `length` elements.
int64_t cuda_most_rows(int64_t length);

/// Blocks for `rows` rows, and the parameter that goes with them.
struct CudaGrid {
  uint32_t x = 0;
  uint32_t y = 0;
  CudaRows rows;
};
CudaGrid cuda_grid(const CudaKernelShape& shape, int64_t rows);

/// A kernel for fused launches (fused_kernels.h) that differ only in where their arrays lie. One
/// launch runs up to `most_instances` of them side by side, on a grid of (tiles, row_tiles, number
/// of instances). Its one parameter, of `most_instances * instance_bytes` bytes, is an array of
/// instances, each a CudaRows (`count`: the batch; `per_slice`: unused) and then the launch's
/// CudaAccesses. Instances past the grid's are not read.
struct CudaFusedShape {
  uint32_t threads = 0;       // per block
  uint32_t shared_bytes = 0;  // dynamic; may be more than a kernel gets without asking
  uint32_t tiles = 0;         // of a row
  uint32_t row_tiles = 0;     // of the batch
  uint32_t most_instances = 1;
  uint32_t instance_bytes = 0;
};

/// A kernel for loop launches (loop_kernels.h) that differ only in where their arrays lie.
/// Parameters: CudaRows, int32_t steps, then one CudaAccess per argument, whose row 0 is that of
/// the chunk's first step. Grid: `cuda_grid(shape, batch)`.
struct CudaLoopShape {
  CudaKernelShape shape;
};

/// A kernel for scan launches (scan_kernels.h) that differ only in where their arrays lie.
/// Parameters: CudaRows (`per_slice` unused), int32_t steps, one CudaAccess per argument, whose row
/// 0 is that of the chunk's first step, and the exchange's, all words of which have all bits set;
/// with totals, which it leaves to be added up, that of its partials; int32_t, which step of the
/// sequence the first one is. Grid: of as many blocks as there are tiles.
struct CudaScanShape {
  int64_t length = 0;    // threads that have a row
  uint32_t threads = 0;  // per block
  int64_t tile_steps = 0;
};
inline constexpr int64_t kCudaScanLanes = 32;  // threads of a tile that are beside each other
/// Tiles of so many steps and rows.
int64_t cuda_scan_tiles(const CudaScanShape& shape, int64_t steps, int64_t rows);

/// A kernel for recurrence launches (recurrence_kernels.h) that differ only in where their arrays
/// lie: a launch of `blocks` blocks in clusters of `cluster`, if that is not 1, and a cooperative one
/// if blocks of different clusters wait for each other. Its one parameter is a CudaRows
/// (`count`: the batch; `frame`, `per_slice`, `step` and `predicated` unused), int32_t steps, an
/// unused int32_t, and the CudaAccesses, none of them with a slot, whose row 0 is that of the
/// chunk's first step.
struct CudaRecurrenceShape {
  uint32_t threads = 0;       // per block
  uint32_t shared_bytes = 0;  // dynamic; may be more than a kernel gets without asking
  uint32_t blocks = 0;
  uint32_t cluster = 1;  // blocks of one, which divide all
  bool cooperative = true;
  double step_seconds = 0;  // of the shortest of its launches, as predicted (RecurrenceTile)
  uint32_t bytes = 0;       // of its parameter
};

/// The kernel that begins and ends states (state_kernel.h). Its one parameter is an array of
/// instances, as many as fit; a launch's grid is as wide and as high as the largest of its
/// instances needs, and as deep as there are instances. Each is a CudaRows, a uint32_t, the
/// kernel's index in the plan, an unused uint32_t, and the launch's CudaAccesses with room for as
/// many as any has. Of a plan with histories (ir/plan/state_steps.h) an instance stands for the
/// launches of a state's steps: their number is in the place of what is unused, and behind the
/// accesses are as many int64_t, bytes from one step's to the next one's. Behind all instances is
/// an int64_t, the number of all of their steps, which the blocks of a launch take in turns.
/// Of states that turn (likewise), behind that.
struct CudaStateTurn {
  const int32_t* lengths = nullptr;
  int64_t first = 0;       // steps of the sequences before the call's
  int64_t call_steps = 0;  // the call's
  int64_t apart = 0;       // bytes
  int32_t caller = 0;
  int32_t steps = 0;  // 0: it does not turn
  int32_t place = 0;
  int32_t ahead = 0;
};
static_assert(sizeof(CudaStateTurn) == 48);
/// Of states that hide (likewise), behind that: whether the launch is of entries that resets leave
/// in sight alone, or of those that they hide.
enum class CudaEntries : int32_t { All, Visible, Hidden };
struct CudaStateHide {
  const uint8_t* resets = nullptr;
  const int32_t* lengths = nullptr;
  int64_t first = 0;
  int64_t call_steps = 0;
  int32_t steps = 1;   // of the history
  int32_t place = 0;   // of the launch's first step by age: 0 is the newest
  int32_t length = 1;  // elements of a row
  int32_t turns = 0;   // 1: by as many places ahead as there are steps past the end; -1: back
  int32_t reversed = 0;
  CudaEntries entries = CudaEntries::All;
  int32_t newest_first = 0;  // whether the newest is from the step before the sequence's end
  int32_t behind = 0;        // steps of the caller's array that it goes on through
};
static_assert(sizeof(CudaStateHide) == 64);

struct CudaStatesShape {
  uint32_t threads = 0;
  int items = 1;  // elements of a thread, of all its kernels
  uint32_t most_instances = 0;
  uint32_t instance_bytes = 0;
  uint32_t bytes = 0;  // of the parameter
  // Where in an instance, in bytes, these are; 0: nowhere.
  uint32_t apart = 0;  // from step to step
  uint32_t turn = 0;   // the CudaStateTurn
  uint32_t hide = 0;   // the CudaStateHide
};

}  // namespace rnnc
