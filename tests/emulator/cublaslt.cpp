// cuBLASLt by plain loops, for what runtime/cuda/product.cpp asks: column-major d = a' @ b' + beta c
// in f32, with a and b transposed or not, of one type each for inputs and results, in blocks; results
// of 16 bits are rounded once, and not added to.
// Algorithms are numbers, best first; the first of them need aligned arrays, and the very first has
// larger tiles than others.
#include <cublasLt.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <vector>

#include "ir/base/dtype.h"
#include "tests/emulator/emulator.h"
#include "tests/emulator/queue.h"

namespace rnnc::emulator {
cudaError_t submit(cudaStream_t stream, Work work);
}

namespace {

constexpr int kAlgorithms = 5;
constexpr int kOfAlignedArrays = 3;
constexpr uint32_t kAlignment = 16;
constexpr int kTileElements = 128 * 128;
constexpr int kLargeTileElements = 256 * 128;

struct Operation {
  cublasComputeType_t compute;
  int32_t left_transposed, right_transposed;
};
struct Layout {
  int32_t type, blocks;
  uint64_t rows, columns;
  int64_t stride, block_offset;
};
static_assert(sizeof(Operation) <= sizeof(cublasLtMatmulDescOpaque_t));
static_assert(sizeof(Layout) <= sizeof(cublasLtMatrixLayoutOpaque_t));

template <typename Plain, typename Opaque>
Plain read(const Opaque* opaque) {
  Plain plain;
  std::memcpy(&plain, opaque, sizeof(plain));
  return plain;
}
template <typename Plain, typename Opaque>
cublasStatus_t write(Opaque* opaque, const Plain& plain) {
  std::memcpy(opaque, &plain, sizeof(plain));
  return CUBLAS_STATUS_SUCCESS;
}

float load(const void* array, int32_t type, int64_t index, bool tf32) {
  if (type == CUDA_R_32F) {
    const float value = static_cast<const float*>(array)[index];
    return tf32 ? std::bit_cast<float>(std::bit_cast<uint32_t>(value) & 0xffffe000U) : value;
  }
  const uint16_t bits = static_cast<const uint16_t*>(array)[index];
  return type == CUDA_R_16BF ? rnnc::float_from_bf16(bits) : rnnc::float_from_f16(bits);
}

void store(void* array, int32_t type, int64_t index, float value) {
  if (type == CUDA_R_32F) {
    static_cast<float*>(array)[index] = value;
    return;
  }
  static_cast<uint16_t*>(array)[index] =
      type == CUDA_R_16BF ? rnnc::bf16_from_float(value) : rnnc::f16_from_float(value);
}

struct Product {
  Operation operation;
  Layout a, b, d;
  const void* left;
  const void* right;
  void* result;
  float alpha, beta;
  bool unfinished;  // its last column is not written

  int64_t depth() const {
    return static_cast<int64_t>(operation.right_transposed != 0 ? b.columns : b.rows);
  }
  int64_t width() const {
    return static_cast<int64_t>(operation.right_transposed != 0 ? b.rows : b.columns);
  }
  bool tf32() const { return operation.compute == CUBLAS_COMPUTE_32F_FAST_TF32; }

  void run() const {
    std::vector<Rows> rows(static_cast<size_t>(depth()));
    const int64_t groups = (width() + kColumns - 1) / kColumns;
    std::vector<Columns> columns(static_cast<size_t>(depth() * groups));
    for (int64_t block = 0; block < d.blocks; ++block) {
      load_columns(block, columns);
      for (int64_t first = 0; first < static_cast<int64_t>(d.rows); first += kRows) {
        load_rows(block, first, rows);
        multiply_rows(block, first, rows, columns);
      }
    }
  }

 private:
  // Rows and columns are loaded and multiplied some at a time: elements that lie far apart from the
  // next along k lie beside those of other rows or columns, and sums stay in registers.
  static constexpr int64_t kRows = 8;
  static constexpr int64_t kColumns = 4;
  using Rows = std::array<float, kRows>;                                 // at one place along k
  using Columns [[gnu::vector_size(kColumns * sizeof(float))]] = float;  // likewise

  void load_rows(int64_t block, int64_t first, std::vector<Rows>& rows) const {
    const int64_t count = std::min(kRows, static_cast<int64_t>(d.rows) - first);
    for (int64_t k = 0; k < depth(); ++k) {
      Rows& here = rows[static_cast<size_t>(k)];
      here = {};
      for (int64_t i = first; i < first + count; ++i) {
        const int64_t at = operation.left_transposed != 0 ? k + i * a.stride : i + k * a.stride;
        here[static_cast<size_t>(i - first)] =
            load(left, a.type, block * a.block_offset + at, tf32());
      }
    }
  }

  /// [width / kColumns][depth]; zeros after the last column.
  void load_columns(int64_t block, std::vector<Columns>& columns) const {
    for (int64_t first = 0; first < width(); first += kColumns) {
      const int64_t count = std::min(kColumns, width() - first);
      for (int64_t k = 0; k < depth(); ++k) {
        std::array<float, kColumns> here = {};
        for (int64_t j = first; j < first + count; ++j) {
          const int64_t at = operation.right_transposed != 0 ? j + k * b.stride : k + j * b.stride;
          here[static_cast<size_t>(j - first)] =
              load(right, b.type, block * b.block_offset + at, tf32());
        }
        columns[static_cast<size_t>(first / kColumns * depth() + k)] = std::bit_cast<Columns>(here);
      }
    }
  }

  /// Each sum along k one after the other, in f32.
  void multiply_rows(int64_t block, int64_t first_row, const std::vector<Rows>& rows,
                     const std::vector<Columns>& columns) const {
    const int64_t end = static_cast<int64_t>(d.columns) - (unfinished ? 1 : 0);
    const int64_t count = std::min(kRows, static_cast<int64_t>(d.rows) - first_row);
    for (int64_t first = 0; first < end; first += kColumns) {
      const Columns* const group = columns.data() + first / kColumns * depth();
      Columns sums[kRows] = {};
      for (size_t k = 0; k < rows.size(); ++k) {
        for (size_t i = 0; i < kRows; ++i) sums[i] += rows[k][i] * group[k];
      }
      for (int64_t j = first; j < std::min(first + kColumns, end); ++j) {
        for (int64_t i = 0; i < count; ++i) {
          finish(block * d.block_offset + first_row + i + j * d.stride, sums[i][j - first]);
        }
      }
    }
  }

  void finish(int64_t at, float sum) const {
    const float before = beta != 0 ? load(result, d.type, at, /*tf32=*/false) : 0;
    store(result, d.type, at, alpha * sum + (beta != 0 ? beta * before : 0));
  }
};

}  // namespace

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = reinterpret_cast<cublasLtHandle_t>(new int);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete reinterpret_cast<int*>(handle);
  return CUBLAS_STATUS_SUCCESS;
}
const char* cublasLtGetStatusString(cublasStatus_t status) {
  return status == CUBLAS_STATUS_SUCCESS ? "no error" : "error of the emulated cuBLASLt";
}

cublasStatus_t cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t operation, size_t,
                                               cublasComputeType_t compute, cudaDataType_t) {
  return write(operation, Operation{compute, 0, 0});
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t operation,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, size_t) {
  auto changed = read<Operation>(operation);
  if (attribute == CUBLASLT_MATMUL_DESC_TRANSA) {
    std::memcpy(&changed.left_transposed, value, sizeof(changed.left_transposed));
  } else if (attribute == CUBLASLT_MATMUL_DESC_TRANSB) {
    std::memcpy(&changed.right_transposed, value, sizeof(changed.right_transposed));
  } else {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  return write(operation, changed);
}

cublasStatus_t cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout_t layout, size_t,
                                                 cudaDataType type, uint64_t rows, uint64_t columns,
                                                 int64_t stride) {
  if (stride < static_cast<int64_t>(rows)) return CUBLAS_STATUS_INVALID_VALUE;
  return write(layout, Layout{type, 1, rows, columns, stride, 0});
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                const void* value, size_t) {
  auto changed = read<Layout>(layout);
  if (attribute == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT) {
    std::memcpy(&changed.blocks, value, sizeof(changed.blocks));
  } else if (attribute == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET) {
    std::memcpy(&changed.block_offset, value, sizeof(changed.block_offset));
  } else {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  return write(layout, changed);
}

cublasStatus_t cublasLtMatmulPreferenceInit_internal(cublasLtMatmulPreference_t preference,
                                                     size_t) {
  return write(preference, kAlignment);
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, size_t) {
  if (attribute != CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES) return CUBLAS_STATUS_SUCCESS;
  uint32_t alignment = 0;
  std::memcpy(&alignment, value, sizeof(alignment));
  return write(preference, alignment);
}
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int most,
                                              cublasLtMatmulHeuristicResult_t results[],
                                              int* count) {
  const bool aligned = read<uint32_t>(preference) >= kAlignment;
  const int first = aligned ? 0 : kOfAlignedArrays;
  const int end = aligned ? kOfAlignedArrays : kAlgorithms;
  *count = std::min(most, end - first);
  const auto result = read<Layout>(d);
  const auto elements = static_cast<float>(result.rows * result.columns);
  for (int i = 0; i < *count; ++i) {
    results[i] = {};
    results[i].algo.data[0] = static_cast<uint64_t>(first + i);
    const int tile = first + i == 0 ? kLargeTileElements : kTileElements;
    results[i].wavesCount =
        elements / static_cast<float>(tile * rnnc::emulator::settings().multiprocessors);
  }
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t, cublasLtMatmulDesc_t,
                                       cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                       cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                       const cublasLtMatmulAlgo_t*,
                                       cublasLtMatmulHeuristicResult_t* result) {
  *result = {};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t operation, const void* alpha,
                              const void* left, cublasLtMatrixLayout_t a, const void* right,
                              cublasLtMatrixLayout_t b, const void* beta, const void* c,
                              cublasLtMatrixLayout_t, void* d, cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t* algorithm, void*, size_t,
                              cudaStream_t stream) {
  const auto wrong = static_cast<uint64_t>(rnnc::emulator::settings().wrong_algorithms);
  const Product product = {read<Operation>(operation),
                           read<Layout>(a),
                           read<Layout>(b),
                           read<Layout>(d_layout),
                           left,
                           right,
                           d,
                           *static_cast<const float*>(alpha),
                           *static_cast<const float*>(beta),
                           algorithm->data[0] < wrong};
  const bool is_narrow = product.d.type != CUDA_R_32F;
  const bool fits = !is_narrow || (product.d.type == product.a.type && product.beta == 0);
  if (c != d || !fits) return CUBLAS_STATUS_NOT_SUPPORTED;
  const cudaError_t error = rnnc::emulator::submit(stream, [product] { product.run(); });
  return error == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}
