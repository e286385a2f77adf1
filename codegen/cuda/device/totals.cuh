// ---- The kernel of Total launches that add up rows (ir/plan/plan.h). ----

// A thread's share of a slice's sums of a column: that of every 16th row.
template <typename T>
static __device__ __forceinline__ float rnnc_add_rows(const void* left, rnnc_word row,
                                                      rnnc_word end, rnnc_word stride) {
  const T* const from = static_cast<const T*>(left);
  float sum = 0;
#pragma unroll 8
  for (; row < end; row += 16) sum += rnnc_load(from + row * stride);
  return sum;
}

// Row blockIdx.y of `out`, of `columns` elements, is the sum of as many rows of `left`, the
// blockIdx.y-th `per_slice` of them, or that is added to it. `type`: of left, 0 f32, 1 bf16, 2 f16.
// Blocks of 32 x 16 threads; blockIdx.x goes along a row. The order of a sum's terms depends on
// `rows` and `per_slice` alone.
extern "C" __global__ void rnnc_total(const void* left, int type, rnnc_word stride, rnnc_word rows,
                                      rnnc_word per_slice, rnnc_word columns, float* out,
                                      int accumulate) {
  rnnc_begin();
  __shared__ float sums[16][32];
  const rnnc_word column = static_cast<rnnc_word>(blockIdx.x) * 32 + threadIdx.x;
  const rnnc_word first = static_cast<rnnc_word>(blockIdx.y) * per_slice;
  const rnnc_word end = min(first + per_slice, rows);
  const rnnc_word row = first + threadIdx.y;
  float sum = 0;
  if (column < columns) {
    const int bytes = type == 0 ? 4 : 2;
    const void* const from = static_cast<const char*>(left) + column * bytes;
    sum = type == 0   ? rnnc_add_rows<float>(from, row, end, stride)
          : type == 1 ? rnnc_add_rows<rnnc_bf16>(from, row, end, stride)
                      : rnnc_add_rows<rnnc_f16>(from, row, end, stride);
  }
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y > 0 || column >= columns) return;
#pragma unroll
  for (int i = 1; i < 16; ++i) sum += sums[i][threadIdx.x];
  float* const to = out + blockIdx.y * columns + column;
  *to = accumulate ? *to + sum : sum;
}
