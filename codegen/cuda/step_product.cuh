// ---- Products of a step in exact f32, for few rows. ----

// A run of consecutive elements along k.
template <int Width>
struct rnnc_run {
  float element[Width];
  static __device__ __forceinline__ rnnc_run load(const float* from) {
    rnnc_run result;
    if constexpr (Width == 4) {
      const float4 all = *reinterpret_cast<const float4*>(from);
      result.element[0] = all.x;
      result.element[1] = all.y;
      result.element[2] = all.z;
      result.element[3] = all.w;
    } else {
      result.element[0] = *from;
    }
    return result;
  }
};

// out[row, 0:n] = left[row, 0:k] @ weight[0:n, 0:k]^T; blockIdx.z says which block of a
// block-diagonal weight. The warps of a thread block split its columns (WarpColumns), its rows
// (WarpRows) and k (Parts). In a warp 8 neighbouring lanes read 8 neighbouring runs along k, so
// that every load is a whole cache line, and the four groups of lanes make a 2 x 2 square of tiles
// of 4 columns by Rows rows. Partial sums are added in a fixed order.
template <int Width, int Rows, int WarpColumns, int WarpRows, int Parts>
static __device__ __forceinline__ void rnnc_step_product(const float* left, const float* weight,
                                                         float* out, int rows, int n, int k,
                                                         rnnc_word left_stride,
                                                         rnnc_word out_stride) {
  constexpr int kColumns = 4;
  constexpr int kLanes = 8;
  constexpr int kBlockColumns = WarpColumns * 2 * kColumns;
  constexpr int kBlockRows = WarpRows * 2 * Rows;
  constexpr int kThreads = 32 * WarpColumns * WarpRows * Parts;
  left += static_cast<rnnc_word>(blockIdx.z) * k;
  weight += static_cast<rnnc_word>(blockIdx.z) * n * k;
  out += static_cast<rnnc_word>(blockIdx.z) * n;
  const int lane = threadIdx.x % kLanes;
  const int group = threadIdx.x % 32 / kLanes;
  const int warp = threadIdx.x / 32;
  const int part = warp / (WarpColumns * WarpRows);
  const int first_column = (warp % WarpColumns * 2 + group % 2) * kColumns;
  const int first_row = (warp / WarpColumns % WarpRows * 2 + group / 2) * Rows;

  // Rows and columns past the end read the last one and are not stored.
  const float* weights[kColumns];
  const float* lefts[Rows];
#pragma unroll
  for (int i = 0; i < kColumns; ++i) {
    const int column = min(static_cast<int>(blockIdx.x) * kBlockColumns + first_column + i, n - 1);
    weights[i] = weight + static_cast<rnnc_word>(column) * k;
  }
#pragma unroll
  for (int i = 0; i < Rows; ++i) {
    const int row = min(static_cast<int>(blockIdx.y) * kBlockRows + first_row + i, rows - 1);
    lefts[i] = left + row * left_stride;
  }

  float sum[kColumns][Rows] = {};
  for (int at = (part * kLanes + lane) * Width; at < k; at += Parts * kLanes * Width) {
    rnnc_run<Width> w[kColumns], x[Rows];
#pragma unroll
    for (int i = 0; i < kColumns; ++i) w[i] = rnnc_run<Width>::load(weights[i] + at);
#pragma unroll
    for (int i = 0; i < Rows; ++i) x[i] = rnnc_run<Width>::load(lefts[i] + at);
#pragma unroll
    for (int i = 0; i < kColumns; ++i) {
#pragma unroll
      for (int j = 0; j < Rows; ++j) {
#pragma unroll
        for (int e = 0; e < Width; ++e) {
          sum[i][j] = fmaf(w[i].element[e], x[j].element[e], sum[i][j]);
        }
      }
    }
  }
#pragma unroll
  for (int distance = kLanes / 2; distance > 0; distance /= 2) {
#pragma unroll
    for (int i = 0; i < kColumns; ++i) {
#pragma unroll
      for (int j = 0; j < Rows; ++j) {
        sum[i][j] += __shfl_xor_sync(0xffffffffu, sum[i][j], distance);
      }
    }
  }
  __shared__ float partial[Parts][kBlockRows * kBlockColumns];
  if (lane == 0) {
#pragma unroll
    for (int i = 0; i < kColumns; ++i) {
#pragma unroll
      for (int j = 0; j < Rows; ++j) {
        partial[part][(first_row + j) * kBlockColumns + first_column + i] = sum[i][j];
      }
    }
  }
  __syncthreads();
  for (int i = threadIdx.x; i < kBlockRows * kBlockColumns; i += kThreads) {
    float total = partial[0][i];
#pragma unroll
    for (int p = 1; p < Parts; ++p) total += partial[p][i];
    const int row = blockIdx.y * kBlockRows + i / kBlockColumns;
    const int column = blockIdx.x * kBlockColumns + i % kBlockColumns;
    if (row < rows && column < n) out[row * out_stride + column] = total;
  }
}
