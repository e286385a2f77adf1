// ---- Kernels of Reverse, Mask and transposing Copy launches (ir/plan.h). ----

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
RNNC_REVERSE(rnnc_reverse_2, unsigned short)
RNNC_REVERSE(rnnc_reverse_4, unsigned)

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
extern "C" __global__ void rnnc_transpose_2(const unsigned short* source, unsigned short* target,
                                            rnnc_word rows, rnnc_word columns) {
  rnnc_transpose_tile(source, target, rows, columns);
}
extern "C" __global__ void rnnc_transpose_4(const unsigned* source, unsigned* target,
                                            rnnc_word rows, rnnc_word columns) {
  rnnc_transpose_tile(source, target, rows, columns);
}
