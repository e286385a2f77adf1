/// What generated kernels and the runtime that launches them agree on: names, parameters and block
/// shapes. The device's side of the structs is prelude.cuh; sizes and order must match.
#pragma once

#include <cstdint>
#include <string>

#include "ir/plan.h"

namespace rnnc {

/// Where an array lies; `rnnc_access`. `slot` < 0: `address` is row 0's. Else row 0 lies `address`
/// bytes, and `per_step` bytes for every step before the chunk, from the address in that slot of
/// the parameter block.
struct CudaAccess {
  int64_t address = 0;
  int64_t per_step = 0;
  int64_t stride = 0;  // elements
  int32_t slot = -1;
};
static_assert(sizeof(CudaAccess) == 32);

/// First parameter of every kernel of a plan, before one CudaAccess per argument; `rnnc_rows`.
struct CudaRows {
  const int64_t* frame = nullptr;  // the parameter block; may be null if no access has a slot
  uint32_t count = 0;
  uint32_t per_slice = 0;  // rows of one blockIdx.y
};
static_assert(sizeof(CudaRows) == 16);

/// Sets words of the parameter block: one block of kCudaFrameWords threads. Parameters: int64_t*
/// frame, int first, int count, CudaFrameWords. Word 0 is the chunk's first step, word 1 + s the
/// address in slot s.
inline constexpr const char* kCudaSetFrameName = "rnnc_set_frame";
inline constexpr int kCudaFrameWords = 64;
struct CudaFrameWords {
  int64_t word[kCudaFrameWords] = {};
};

/// Ends a chunk; gridDim.y is the number of histories. Parameters: int64_t* frame (null: its step
/// stays), int steps, CudaHistories.
inline constexpr const char* kCudaEndChunkName = "rnnc_end_chunk";
inline constexpr int kCudaHistoriesPerLaunch = 64;
struct CudaHistory {
  int64_t address = 0;  // of slot 0
  int64_t units = 0;    // 16-bit words in a slot
  int64_t depth = 0;    // slots
};
struct CudaHistories {
  CudaHistory history[kCudaHistoriesPerLaunch] = {};
};

/// Kernels of sequence.cuh, which are there if `has_sequence_kernels`. Names end in the element's
/// size in bytes, 2 or 4. The mask's kind is MaskLaunch::Kind in order. Grids and parameters:
/// runtime/cuda/executable.cpp.
inline constexpr const char* kCudaReverseName = "rnnc_reverse_";
inline constexpr const char* kCudaTransposeName = "rnnc_transpose_";
inline constexpr const char* kCudaMaskName = "rnnc_mask";
inline constexpr int kCudaTransposeTile = 32;
inline constexpr int kCudaTransposeThreads = 8;  // times the tile
/// Whether the plan has launches that need them: Reverse, Mask, transposing Copy.
bool has_sequence_kernels(const Plan& plan);

/// The largest number of arguments of a kernel: parameters end at 32764 bytes.
inline constexpr size_t kCudaMaxArguments = 1000;

/// The function that `Plan::kernels[index]` becomes.
std::string cuda_kernel_name(size_t index);

/// How a kernel is launched.
struct CudaKernelShape {
  int64_t length = 0;      // elements of a row
  int threads = 0;         // per block
  int items = 1;           // elements per thread
  bool row_block = false;  // one block per row; else one thread per element of all rows
};
CudaKernelShape cuda_kernel_shape(const Kernel& kernel);

/// The largest number of rows of a launch whose rows have `length` elements.
int64_t cuda_most_rows(int64_t length);

/// Blocks for `rows` rows, and the parameter that goes with them.
struct CudaGrid {
  uint32_t x = 0;
  uint32_t y = 0;
  CudaRows rows;
};
CudaGrid cuda_grid(const CudaKernelShape& shape, int64_t rows);

}  // namespace rnnc
