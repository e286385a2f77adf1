// ---- The kernel of Total launches that add up rows (ir/plan/plan.h). ----

// A thread's share of a slice's sums of two columns, or of the first of them alone: that of every
// 16th row.
template <typename T>
static __device__ __forceinline__ void rnnc_add_rows(const void* left, rnnc_word column,
                                                     bool is_pair, rnnc_word row, rnnc_word end,
                                                     rnnc_word stride, float (&sums)[2]) {
  typedef rnnc_packet<T, 2, true> packet;
  const T* const from = static_cast<const T*>(left) + column;
  const bool is_aligned = reinterpret_cast<rnnc_word>(from) % (2 * sizeof(T)) == 0;
  if (is_pair && is_aligned && stride % 2 == 0) {
#pragma unroll 8
    for (; row < end; row += 16) {
      const packet both = packet::load(from + row * stride);
      sums[0] += both.get(0);
      sums[1] += both.get(1);
    }
    return;
  }
#pragma unroll 8
  for (; row < end; row += 16) {
    sums[0] += rnnc_load(from + row * stride);
    if (is_pair) sums[1] += rnnc_load(from + row * stride + 1);
  }
}

// Row blockIdx.y of `out`, of `columns` elements, is the sum of as many rows of `left`, the
// blockIdx.y-th `per_slice` of them, or that is added to it. `type`: of left, 0 f32, 1 bf16, 2 f16.
// Blocks of 32 x 16 threads; blockIdx.x goes along a row, 64 columns at a time. The order of a sum's
// terms depends on `rows` and `per_slice` alone.
extern "C" __global__ void rnnc_total(const void* left, int type, rnnc_word stride, rnnc_word rows,
                                      rnnc_word per_slice, rnnc_word columns, float* out,
                                      int accumulate) {
  rnnc_begin();
  __shared__ float parts[16][64];
  const rnnc_word column = static_cast<rnnc_word>(blockIdx.x) * 64 + 2 * threadIdx.x;
  const rnnc_word first = static_cast<rnnc_word>(blockIdx.y) * per_slice;
  const rnnc_word end = min(first + per_slice, rows);
  const rnnc_word row = first + threadIdx.y;
  const bool is_pair = column + 1 < columns;
  float sums[2] = {};
  if (column < columns) {
    if (type == 0) {
      rnnc_add_rows<float>(left, column, is_pair, row, end, stride, sums);
    } else if (type == 1) {
      rnnc_add_rows<rnnc_bf16>(left, column, is_pair, row, end, stride, sums);
    } else {
      rnnc_add_rows<rnnc_f16>(left, column, is_pair, row, end, stride, sums);
    }
  }
  parts[threadIdx.y][2 * threadIdx.x] = sums[0];
  parts[threadIdx.y][2 * threadIdx.x + 1] = sums[1];
  __syncthreads();
  if (threadIdx.y > 0) return;
#pragma unroll
  for (int s = 0; s < 2; ++s) {
    if (column + s >= columns) return;
    float sum = sums[s];
#pragma unroll
    for (int i = 1; i < 16; ++i) sum += parts[i][2 * threadIdx.x + s];
    float* const to = out + blockIdx.y * columns + column + s;
    *to = accumulate ? *to + sum : sum;
  }
}
