// ---- Kernels of Reverse, Mask, Rows, RowTotal, Real, Split and Copy launches (ir/plan/plan.h). ----
//
// A unit has those whose names it defines with `has_` before them.

// Steps of sequence b, within [0, steps].
static __device__ __forceinline__ rnnc_word rnnc_length(const int* lengths, rnnc_word steps,
                                                        unsigned b) {
  if (lengths == nullptr) return steps;
  const rnnc_word length = max(lengths[b], 0);
  return length < steps ? length : steps;
}

// The sequence `source` has `steps` steps; `target` takes those from `start` on of its reversal.
template <typename T>
static __device__ __forceinline__ void rnnc_reverse_rows(const T* source, T* target,
                                                         const int* lengths, rnnc_word steps,
                                                         rnnc_word start, unsigned batch,
                                                         rnnc_word rows, rnnc_word width,
                                                         rnnc_word source_stride,
                                                         rnnc_word target_stride) {
  rnnc_begin();
  const rnnc_word threads = static_cast<rnnc_word>(gridDim.x) * blockDim.x;
  rnnc_word i = static_cast<rnnc_word>(blockIdx.x) * blockDim.x + threadIdx.x;
#pragma unroll 1
  for (; i < rows * width; i += threads) {
    const rnnc_word row = i / width;
    const rnnc_word element = i % width;
    const auto b = static_cast<unsigned>(row % batch);
    const rnnc_word from = rnnc_length(lengths, steps, b) - 1 - (start + row / batch);
    target[row * target_stride + element] =
        from < 0 ? T(0) : source[(from * batch + b) * source_stride + element];
  }
}

#define RNNC_REVERSE(name, type)                                                                \
  extern "C" __global__ void name(const type* source, type* target, const int* lengths,         \
                                  rnnc_word steps, rnnc_word start, unsigned batch,             \
                                  rnnc_word rows, rnnc_word width, rnnc_word source_stride,     \
                                  rnnc_word target_stride) {                                    \
    rnnc_reverse_rows(source, target, lengths, steps, start, batch, rows, width, source_stride, \
                      target_stride);                                                           \
  }
#if has_rnnc_reverse_2
RNNC_REVERSE(rnnc_reverse_2, unsigned short)
#endif
#if has_rnnc_reverse_4
RNNC_REVERSE(rnnc_reverse_4, unsigned)
#endif

#if has_rnnc_mask
// kind 0: valid; 1: reset; 2: reset of values that run in reverse.
extern "C" __global__ void rnnc_mask(float* target, int kind, const int* lengths,
                                     const unsigned char* reset, rnnc_word steps, rnnc_word start,
                                     unsigned batch, rnnc_word rows) {
  rnnc_begin();
  const rnnc_word row = static_cast<rnnc_word>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  const auto b = static_cast<unsigned>(row % batch);
  const rnnc_word t = start + row / batch;
  const rnnc_word length = rnnc_length(lengths, steps, b);
  bool value = t < length;
  if (kind != 0) {
    const rnnc_word at = kind == 1 ? t : length - t;
    const bool inside = kind == 1 || (t > 0 && at > 0);
    value = reset != nullptr && inside && reset[at * batch + b] != 0;
  }
  target[row] = value ? 1.0f : 0.0f;
}
#endif

#if has_rnnc_real
// Row r of `source` is `stride` integers after row 0.
extern "C" __global__ void rnnc_real(const int* source, float* target, rnnc_word rows,
                                     rnnc_word source_stride, rnnc_word target_stride) {
  rnnc_begin();
  const rnnc_word row = static_cast<rnnc_word>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (row < rows) target[row * target_stride] = static_cast<float>(source[row * source_stride]);
}
#endif

// A warp takes a row, by units of one element or more.
template <typename Unit>
static __device__ __forceinline__ void rnnc_take_row(const Unit* from, Unit* to, rnnc_word units) {
#pragma unroll 4
  for (rnnc_word i = threadIdx.x % 32; i < units; i += 32) {
    Unit unit = {};
    if (from != nullptr) unit = from[i];
    to[i] = unit;
  }
}

// Rows of a table of `count` rows of `width` elements: those that `index` names, or zeros.
template <typename T>
static __device__ __forceinline__ void rnnc_take_rows(const T* table, const int* index, T* target,
                                                      rnnc_word rows, rnnc_word count,
                                                      rnnc_word width, rnnc_word index_stride,
                                                      rnnc_word target_stride) {
  rnnc_begin();
  constexpr rnnc_word kPacket = 16 / sizeof(T);
  const rnnc_word ends = reinterpret_cast<rnnc_word>(table) | reinterpret_cast<rnnc_word>(target);
  const bool packets = ends % 16 == 0 && width % kPacket == 0 && target_stride % kPacket == 0;
  const rnnc_word warps = static_cast<rnnc_word>(gridDim.x) * (blockDim.x / 32);
  rnnc_word row = static_cast<rnnc_word>(blockIdx.x) * (blockDim.x / 32) + threadIdx.x / 32;
#pragma unroll 1
  for (; row < rows; row += warps) {
    const rnnc_word number = index[row * index_stride];
    const T* const from = number >= 0 && number < count ? table + number * width : nullptr;
    T* const to = target + row * target_stride;
    if (packets) {
      rnnc_take_row(reinterpret_cast<const uint4*>(from), reinterpret_cast<uint4*>(to),
                    width / kPacket);
    } else {
      rnnc_take_row(from, to, width);
    }
  }
}
#define RNNC_ROWS(name, type)                                                              \
  extern "C" __global__ void name(const type* table, const int* index, type* target,       \
                                  rnnc_word rows, rnnc_word count, rnnc_word width,        \
                                  rnnc_word index_stride, rnnc_word target_stride) {       \
    rnnc_take_rows(table, index, target, rows, count, width, index_stride, target_stride); \
  }
#if has_rnnc_rows_2
RNNC_ROWS(rnnc_rows_2, unsigned short)
#endif
#if has_rnnc_rows_4
RNNC_ROWS(rnnc_rows_4, unsigned)
#endif

// Adds rows of `value` to those of a table that `index` names. Row v of the table is that of the
// blocks of blockIdx.x = v % gridDim.x. Each of these goes over all rows in their order, a row to a
// thread at a time, and adds those that are its own, every 256 * gridDim.y columns to a thread.
template <typename T>
static __device__ __forceinline__ void rnnc_add_to_rows(const int* index, const T* value,
                                                        float* out, rnnc_word rows, rnnc_word count,
                                                        rnnc_word width, rnnc_word index_stride,
                                                        rnnc_word value_stride) {
  rnnc_begin();
  constexpr int kThreads = 256;
  __shared__ int names[kThreads];
  __shared__ unsigned own[kThreads / 32];  // of each warp's rows, a bit for each
  const auto name_of = [&](rnnc_word row) { return row < rows ? index[row * index_stride] : -1; };
  const rnnc_word column = static_cast<rnnc_word>(blockIdx.y) * kThreads + threadIdx.x;
  int soon = name_of(threadIdx.x);
#pragma unroll 1
  for (rnnc_word first = 0; first < rows; first += kThreads) {
    const int name = soon;
    soon = name_of(first + kThreads + threadIdx.x);
    names[threadIdx.x] = name;
    const bool is_own = name >= 0 && name < count && name % gridDim.x == blockIdx.x;
    const unsigned of_warp = __ballot_sync(0xffffffffu, is_own);
    if (threadIdx.x % 32 == 0) own[threadIdx.x / 32] = of_warp;
    __syncthreads();
#pragma unroll 1
    for (int warp = 0; warp < kThreads / 32; ++warp) {
#pragma unroll 1
      for (unsigned rest = own[warp]; rest != 0; rest &= rest - 1) {
        const int i = 32 * warp + __ffs(static_cast<int>(rest)) - 1;
        float* const to = out + names[i] * width;
        const T* const from = value + (first + i) * value_stride;
#pragma unroll 1
        for (rnnc_word j = column; j < width; j += static_cast<rnnc_word>(gridDim.y) * kThreads) {
          to[j] += rnnc_load(from + j);
        }
      }
    }
    __syncthreads();
  }
}
#define RNNC_ADD_ROWS(name, type)                                                                  \
  extern "C" __global__ void name(const int* index, const type* value, float* out, rnnc_word rows, \
                                  rnnc_word count, rnnc_word width, rnnc_word index_stride,        \
                                  rnnc_word value_stride) {                                        \
    rnnc_add_to_rows(index, value, out, rows, count, width, index_stride, value_stride);           \
  }
#if has_rnnc_add_rows_f32
RNNC_ADD_ROWS(rnnc_add_rows_f32, float)
#endif
#if has_rnnc_add_rows_bf16
RNNC_ADD_ROWS(rnnc_add_rows_bf16, rnnc_bf16)
#endif
#if has_rnnc_add_rows_f16
RNNC_ADD_ROWS(rnnc_add_rows_f16, rnnc_f16)
#endif

#if has_rnnc_copy_arrays
struct rnnc_copy_one {
  const char* source;  // null: zeros
  char* target;
  rnnc_word rows;
  rnnc_word bytes;  // of a row
  rnnc_word source_pitch;
  rnnc_word target_pitch;
};
struct rnnc_copies {
  rnnc_copy_one copy[64];
};

// One where there is nothing is zero.
template <typename Unit>
static __device__ __forceinline__ Unit rnnc_unit(const Unit* source, rnnc_word i) {
  return source == nullptr ? Unit{} : source[i];
}

// By units of which each thread has four under way.
template <typename Unit>
static __device__ __forceinline__ void rnnc_copy_units(const rnnc_copy_one& copy) {
  const auto* source = reinterpret_cast<const Unit*>(copy.source);
  auto* target = reinterpret_cast<Unit*>(copy.target);
  const rnnc_word units = copy.bytes / static_cast<rnnc_word>(sizeof(Unit));
  const rnnc_word threads = static_cast<rnnc_word>(gridDim.x) * blockDim.x;
  rnnc_word i = static_cast<rnnc_word>(blockIdx.x) * blockDim.x + threadIdx.x;
#pragma unroll 1
  for (; i + 3 * threads < units; i += 4 * threads) {
    Unit unit[4];
    for (int k = 0; k < 4; ++k) unit[k] = rnnc_unit(source, i + k * threads);
    for (int k = 0; k < 4; ++k) target[i + k * threads] = unit[k];
  }
#pragma unroll 1
  for (; i < units; i += threads) target[i] = rnnc_unit(source, i);
}

// Row by row, each by a warp, of which each thread has four units under way.
template <typename Unit>
static __device__ __forceinline__ void rnnc_copy_rows(const rnnc_copy_one& copy) {
  const rnnc_word units = copy.bytes / static_cast<rnnc_word>(sizeof(Unit));
  const rnnc_word warps = static_cast<rnnc_word>(gridDim.x) * (blockDim.x / 32);
  rnnc_word row = static_cast<rnnc_word>(blockIdx.x) * (blockDim.x / 32) + threadIdx.x / 32;
#pragma unroll 1
  for (; row < copy.rows; row += warps) {
    const char* const from =
        copy.source == nullptr ? nullptr : copy.source + row * copy.source_pitch;
    const auto* source = reinterpret_cast<const Unit*>(from);
    auto* target = reinterpret_cast<Unit*>(copy.target + row * copy.target_pitch);
#pragma unroll 1
    for (rnnc_word i = threadIdx.x % 32; i < units; i += 4 * 32) {
      Unit unit[4];
      for (int k = 0; k < 4; ++k) {
        if (i + k * 32 < units) unit[k] = rnnc_unit(source, i + k * 32);
      }
      for (int k = 0; k < 4; ++k) {
        if (i + k * 32 < units) target[i + k * 32] = unit[k];
      }
    }
  }
}

// blockIdx.y takes one of the copies.
extern "C" __global__ void rnnc_copy_arrays(const __grid_constant__ rnnc_copies copies) {
  rnnc_begin();
  const rnnc_copy_one& copy = copies.copy[blockIdx.y];
  const rnnc_word ends = reinterpret_cast<rnnc_word>(copy.source) |
                         reinterpret_cast<rnnc_word>(copy.target) | copy.bytes | copy.source_pitch |
                         copy.target_pitch;
  if (copy.rows > 1) {
    if (ends % 16 == 0) {
      rnnc_copy_rows<uint4>(copy);
    } else if (ends % 8 == 0) {
      rnnc_copy_rows<uint2>(copy);
    } else if (ends % 4 == 0) {
      rnnc_copy_rows<unsigned>(copy);
    } else {
      rnnc_copy_rows<unsigned short>(copy);
    }
  } else if (ends % 16 == 0) {
    rnnc_copy_units<uint4>(copy);
  } else if (ends % 4 == 0) {
    rnnc_copy_units<unsigned>(copy);
  } else {
    rnnc_copy_units<unsigned short>(copy);
  }
}
#endif

// target[columns, rows] = source[rows, columns]^T, by tiles of 32 x 32, of which blockIdx.x counts
// those of a row first; blocks of 32 x 8 threads.
template <typename T>
static __device__ __forceinline__ void rnnc_transpose_tile(const T* source, T* target,
                                                           rnnc_word rows, rnnc_word columns) {
  rnnc_begin();
  __shared__ T tile[32][33];
  const rnnc_word across = (columns + 31) / 32;
  const rnnc_word row = blockIdx.x / across * 32;
  const rnnc_word column = blockIdx.x % across * 32;
  for (unsigned i = threadIdx.y; i < 32; i += 8) {
    if (row + i < rows && column + threadIdx.x < columns) {
      tile[i][threadIdx.x] = source[(row + i) * columns + column + threadIdx.x];
    }
  }
  __syncthreads();
  for (unsigned i = threadIdx.y; i < 32; i += 8) {
    if (column + i < columns && row + threadIdx.x < rows) {
      target[(column + i) * rows + row + threadIdx.x] = tile[threadIdx.x][i];
    }
  }
}
#if has_rnnc_transpose_2
extern "C" __global__ void rnnc_transpose_2(const unsigned short* source, unsigned short* target,
                                            rnnc_word rows, rnnc_word columns) {
  rnnc_transpose_tile(source, target, rows, columns);
}
#endif
#if has_rnnc_transpose_4
extern "C" __global__ void rnnc_transpose_4(const unsigned* source, unsigned* target,
                                            rnnc_word rows, rnnc_word columns) {
  rnnc_transpose_tile(source, target, rows, columns);
}
#endif

#if has_rnnc_split || has_rnnc_split_turned
// One element rounded to TF32, and what is left of it. Both count only where the first is below
// `most`.
struct rnnc_split_parts {
  float all;    // rounded
  float large;  // the same if it counts, else 0
  float small;  // the rest if it counts, else 0
};

// To the nearest, away from zero where there are two; but what is finite and not zero stays so, and
// NaNs become one that stays a NaN when its end is cut off.
static __device__ __forceinline__ float rnnc_round_part(float value) {
  const unsigned bits = __float_as_uint(value);
  const unsigned magnitude = bits & 0x7fffffffu;
  unsigned rounded = (magnitude + 0x1000u) & 0xffffe000u;
  if (magnitude - 1 < 0x7f7fffffu) rounded = min(max(rounded, 0x2000u), 0x7f7fe000u);
  if (magnitude > 0x7f800000u) rounded = 0x7fc00000u;
  return __uint_as_float(rounded | (bits & 0x80000000u));
}
static __device__ __forceinline__ rnnc_split_parts rnnc_split_element(float value, float most) {
  rnnc_split_parts parts;
  parts.all = rnnc_round_part(value);
  const bool counts = fabsf(parts.all) < most;
  parts.large = counts ? parts.all : 0.0f;
  parts.small = counts ? value - parts.all : 0.0f;
  return parts;
}

#endif
#if has_rnnc_split
// Rows of three parts, of a weight or a left operand. `target` is aligned to 16 bytes, and so are
// its rows and parts; `source` may be. Blocks of 32 x 8 threads, of 4 elements each of some rows at
// once, so that enough of memory is under way; blockIdx.x goes along a row.
extern "C" __global__ void rnnc_split(const float* source, float* target, int weight, float most,
                                      rnnc_word rows, rnnc_word length, rnnc_word part,
                                      rnnc_word source_stride, rnnc_word target_stride) {
  rnnc_begin();
  typedef rnnc_packet<float, 4, true> packet;
  constexpr int at_once = 4;
  const rnnc_word column = (static_cast<rnnc_word>(blockIdx.x) * 32 + threadIdx.x) * 4;
  if (column >= part) return;
  const bool aligned = reinterpret_cast<rnnc_word>(source) % 16 == 0 && source_stride % 4 == 0;
  const bool whole = aligned && column + 4 <= length;
  rnnc_word row = static_cast<rnnc_word>(blockIdx.y) * (8 * at_once) + threadIdx.y;
  for (; row < rows; row += static_cast<rnnc_word>(gridDim.y) * (8 * at_once)) {
    packet values[at_once] = {};
#pragma unroll
    for (int r = 0; r < at_once; ++r) {
      if (row + 8 * r >= rows) break;
      const float* from = source + (row + 8 * r) * source_stride + column;
      if (whole) {
        values[r] = packet::load(from);
        continue;
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (column + i < length) values[r].set(i, from[i]);
      }
    }
#pragma unroll
    for (int r = 0; r < at_once; ++r) {
      if (row + 8 * r >= rows) break;
      packet first, second, third;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const rnnc_split_parts parts = rnnc_split_element(values[r].get(i), most);
        first.set(i, weight ? parts.small : parts.large);
        second.set(i, weight ? parts.large : parts.small);
        third.set(i, parts.all);
      }
      float* to = target + (row + 8 * r) * target_stride + column;
      first.store(to);
      second.store(to + part);
      third.store(to + 2 * part);
    }
  }
}
#endif

#if has_rnnc_split_turned
// Rows as columns, `apart` elements from one another, with the one part or the three of each
// element behind one another. Blocks of 32 x 8 threads; blockIdx.x goes along a row, in tiles of 32
// x 32.
template <int parts>
static __device__ __forceinline__ void rnnc_turn(const float* source, float* target, int weight,
                                                 float most, rnnc_word rows, rnnc_word length,
                                                 rnnc_word part, rnnc_word source_stride,
                                                 rnnc_word apart) {
  // Threads read a column's elements with their parts in turn: each from another bank.
  constexpr int pitch = 33, part_pitch = 32 * pitch + 11;
  __shared__ float tile[parts * part_pitch];
  const rnnc_word column = static_cast<rnnc_word>(blockIdx.x) * 32;
  rnnc_word row = static_cast<rnnc_word>(blockIdx.y) * 32;
  for (; row < rows; row += static_cast<rnnc_word>(gridDim.y) * 32) {
    float values[4];
    const rnnc_word at = column + threadIdx.x;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const unsigned i = threadIdx.y + 8 * k;
      const bool inside = row + i < rows && at < length;
      values[k] = inside ? source[(row + i) * source_stride + at] : 0.0f;
    }
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      float* const to = tile + (threadIdx.y + 8 * k) * pitch + threadIdx.x;
      const rnnc_split_parts all = rnnc_split_element(values[k], most);
      to[(parts - 1) * part_pitch] = all.all;
      if (parts == 1) continue;
      to[0] = weight ? all.small : all.large;
      to[part_pitch] = weight ? all.large : all.small;
    }
    __syncthreads();
    for (unsigned j = threadIdx.y; j < 32 && column + j < part; j += 8) {
      float* to = target + (column + j) * apart + row * parts;
#pragma unroll
      for (int k = 0; k < parts; ++k) {
        const unsigned i = threadIdx.x + 32 * k;
        const unsigned from = i / parts;  // row
        if (row + from < rows) to[i] = tile[i % parts * part_pitch + from * pitch + j];
      }
    }
    __syncthreads();
  }
}
extern "C" __global__ void rnnc_split_turned(const float* source, float* target, int weight,
                                             float most, rnnc_word rows, rnnc_word length,
                                             rnnc_word part, int parts, rnnc_word source_stride,
                                             rnnc_word apart) {
  rnnc_begin();
  if (parts == 1) {
    rnnc_turn<1>(source, target, weight, most, rows, length, part, source_stride, apart);
  } else {
    rnnc_turn<3>(source, target, weight, most, rows, length, part, source_stride, apart);
  }
}
#endif
