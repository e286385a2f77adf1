// cuBLASLt counts in column-major matrices. A row-major [rows, n] array with a stride between rows
// is the column-major n x rows matrix with that leading dimension, so that
//     out[rows, n] = left[rows, k] @ weight^T   is   out' = op(weight') @ left',
// where weight' is k x n and transposed for a weight [n, k], and n x k as it is for one of [k, n].
// A sum over rows, out[m, n] = left[rows, m]^T @ weight[rows, n], is out' = weight' @ left'^T; a
// weight that is turned, [n, rows], is rows x n and transposed.
// The blocks of a block-diagonal weight are the library's batch.
//
// Where CUDA's Multi-Process Service (MPS) leaves a program some of the multiprocessors, algorithms
// of blocks in clusters can leave parts of their result unwritten: with 104 of an H200's 132, two
// fifths of those that cuBLASLt 13.1 offered did, its favourites for 48 of 108 products among them.
// Hence `replace_wrong_algorithms`.
//
// For an H200 cuBLASLt's favourite is most often a kernel of large tiles, whose name has "coop": two
// warp groups share a tile, and multiply nothing while they write it. Of smaller tiles each of two
// groups has its own: while one writes, the other multiplies. With few terms in a sum these are
// faster, by 5 % on the mean and up to a third, and make the same bits
// (`bench/product_algorithms.cpp`). Hence `prefers_small_tiles`; less aligned arrays were not
// measured.
#include "runtime/cuda/product.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace rnnc::cuda {
namespace {

constexpr float kOne = 1;
constexpr float kZero = 0;
constexpr int kMostReplacements = 8;
constexpr int kMostChoices = 8;
/// Elements of the largest tile of one warp group: 176 x 128. From 192 x 128 on two have one.
constexpr double kMostOfOneGroup = 23'552;
constexpr uint32_t kFullAlignment = 16;  // that the Tensor Memory Accelerator needs
constexpr uint32_t kLessAlignment = 8;

cudaDataType_t data_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return CUDA_R_32F;
    case DType::bf16:
      return CUDA_R_16BF;
    case DType::f16:
      return CUDA_R_16F;
    case DType::f64:
    case DType::i32:
      break;
  }
  RNNC_CHECK(false, "there are no products of {} on a GPU", to_string(dtype));
}

bool is_aligned(const void* pointer, uint32_t alignment) {
  return reinterpret_cast<uintptr_t>(pointer) % alignment == 0;
}

/// The library takes descriptions by pointers to non-const, but does not write to them.
struct Descriptors {
  Descriptors(const cublasLtMatmulDescOpaque_t& operation_in, const auto& variant)
      : operation(const_cast<cublasLtMatmulDesc_t>(&operation_in)),
        weight(const_cast<cublasLtMatrixLayout_t>(&variant.weight)),
        left(const_cast<cublasLtMatrixLayout_t>(&variant.left)),
        out(const_cast<cublasLtMatrixLayout_t>(&variant.out)) {}
  cublasLtMatmulDesc_t operation;
  cublasLtMatrixLayout_t weight, left, out;
};

Status set_preference(const CublasLtLibrary& library, cublasLtMatmulPreference_t preference,
                      cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
  return library.check(library.set_preference(preference, attribute, &value, sizeof(value)),
                       "limiting the choice of algorithms");
}

Status limit_algorithms(const CublasLtLibrary& library, const ProductAlignment& alignment,
                        uint64_t workspace, cublasLtMatmulPreferenceOpaque_t& preference) {
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    return set_preference(library, &preference, attribute, value);
  };
  // Partial sums are added up by a kernel of their own, in f32 and in a fixed order.
  const uint32_t reductions =
      CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  return library
      .check(library.init_preference(&preference, sizeof(preference)),
             "limiting the choice of algorithms")
      .and_then([&] { return set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace); })
      .and_then([&] { return set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reductions); })
      .and_then([&] { return set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment.weight); })
      .and_then([&] { return set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment.left); })
      .and_then([&] { return set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment.out); })
      .and_then([&] { return set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment.out); });
}

}  // namespace

Result<Product> Product::prepare(const CublasLt& lt, const ProductShape& shape,
                                 const std::vector<ProductUse>& uses) {
  Product product(lt, shape);
  if (Status status = product.describe(); !status) return tl::unexpected(status.error());
  for (const ProductUse& use : uses) {
    if (Status status = product.add_variant(use); !status) return tl::unexpected(status.error());
  }
  return product;
}

Status Product::describe() {
  const CublasLtLibrary& library = lt_->library();
  const cublasComputeType_t compute =
      shape_.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  const auto turn = [&](cublasLtMatmulDescAttributes_t operand) {
    const cublasOperation_t operation = CUBLAS_OP_T;
    return library.check(library.set_operation(&operation_, operand, &operation, sizeof(operation)),
                         "describing a product");
  };
  Status begun =
      library.check(library.init_operation(&operation_, sizeof(operation_), compute, CUDA_R_32F),
                    "describing a product");
  if (!begun) return begun;
  if (is_total()) {
    return turn(CUBLASLT_MATMUL_DESC_TRANSB).and_then([&] {
      return shape_.turned_stride > 0 ? turn(CUBLASLT_MATMUL_DESC_TRANSA) : Status();
    });
  }
  return shape_.transposed ? Status() : turn(CUBLASLT_MATMUL_DESC_TRANSA);
}

/// A column-major matrix of `rows` rows, `stride` elements from column to column; one per block,
/// `block_offset` elements apart.
Status Product::init_layout(cublasLtMatrixLayoutOpaque_t& layout, DType dtype, int64_t rows,
                            int64_t columns, int64_t stride, int64_t block_offset) const {
  const CublasLtLibrary& library = lt_->library();
  Status status = library.check(
      library.init_layout(&layout, sizeof(layout), data_type(dtype), static_cast<uint64_t>(rows),
                          static_cast<uint64_t>(columns), stride),
      "describing a matrix");
  if (!status || shape_.blocks == 1) return status;
  const auto blocks = static_cast<int32_t>(shape_.blocks);
  return library
      .check(
          library.set_layout(&layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &blocks, sizeof(blocks)),
          "describing the blocks of a matrix")
      .and_then([&] {
        return library.check(
            library.set_layout(&layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &block_offset,
                               sizeof(block_offset)),
            "describing the blocks of a matrix");
      });
}

Status Product::add_variant(const ProductUse& use) {
  Variant variant = {use};
  return describe_matrices(variant).and_then([&] { return choose_algorithm(variant); }).map([&] {
    variants_.push_back(variant);
  });
}

Status Product::describe_matrices(Variant& variant) const {
  const int64_t n = shape_.n;
  const int64_t k = shape_.k;
  // Of `rows` rows. With one the stride says nothing, and may be less than the row.
  const auto array = [&](cublasLtMatrixLayoutOpaque_t& layout, DType dtype, int64_t width,
                         int64_t stride) {
    const int64_t apart = variant.rows == 1 ? shape_.blocks * width : stride;
    RNNC_CHECK(apart >= width);
    return init_layout(layout, dtype, width, variant.rows, apart, width);
  };
  if (is_total()) {
    const int64_t m = shape_.m;
    return array(variant.left, shape_.dtype, m, shape_.left_stride)
        .and_then([&] {
          if (shape_.turned_stride == 0) {
            return array(variant.weight, shape_.dtype, n, shape_.weight_stride);
          }
          return init_layout(variant.weight, shape_.dtype, variant.rows, n, shape_.turned_stride,
                             0);
        })
        .and_then([&] { return init_layout(variant.out, DType::f32, n, m, n, m * n); });
  }
  return array(variant.left, shape_.dtype, k, shape_.left_stride)
      .and_then([&] { return array(variant.out, shape_.out_dtype, n, shape_.out_stride); })
      .and_then([&] {
        const bool turned = shape_.transposed;
        return init_layout(variant.weight, shape_.dtype, turned ? n : k, turned ? k : n,
                           shape_.weight_stride, n * k);
      });
}

Status Product::choose_algorithm(Variant& variant) {
  // A kernel that is there for another number of rows need not be loaded again.
  for (const Variant& other : variants_) {
    if (other.alignment != variant.alignment) continue;
    cublasLtMatmulHeuristicResult_t checked = {};
    const cublasStatus_t status =
        lt_->library().check_algorithm(lt_->handle(), &operation_, &variant.weight, &variant.left,
                                       &variant.out, &variant.out, &other.algorithm, &checked);
    if (status == CUBLAS_STATUS_SUCCESS && checked.workspaceSize <= kMostWorkspaceBytes) {
      variant.algorithm = other.algorithm;
      workspace_bytes_ = std::max(workspace_bytes_, checked.workspaceSize);
      return {};
    }
    break;
  }
  const int most = prefers_small_tiles(variant.alignment) ? kMostChoices : 1;
  const auto found = ask_library(variant, variant.alignment, most, kMostWorkspaceBytes);
  if (!found) return tl::unexpected(found.error());
  // Workspace is cleared by an operation of its own.
  const auto has_small_tiles = [&](const cublasLtMatmulHeuristicResult_t& algorithm) {
    const double tiles = algorithm.wavesCount * lt_->device().multiprocessors;
    return algorithm.workspaceSize <= found->front().workspaceSize &&
           static_cast<double>(variant.rows * shape_.n) < kMostOfOneGroup * tiles;
  };
  const auto chosen = std::ranges::find_if(*found, has_small_tiles);
  const cublasLtMatmulHeuristicResult_t& best = chosen == found->end() ? found->front() : *chosen;
  variant.algorithm = best.algo;
  workspace_bytes_ = std::max(workspace_bytes_, best.workspaceSize);
  return {};
}

bool Product::prefers_small_tiles(const ProductAlignment& alignment) const {
  const CudaDevice& device = lt_->device();
  const uint32_t least = std::min({alignment.left, alignment.weight, alignment.out});
  const bool measured = device.major == 9 && device.minor == 0 && size_of(shape_.dtype) == 2 &&
                        least >= kFullAlignment;
  return measured && !is_total() && shape_.blocks == 1 && shape_.k >= 128 && shape_.k <= 3072;
}

Result<std::vector<cublasLtMatmulHeuristicResult_t>> Product::ask_library(
    const Variant& variant, const ProductAlignment& alignment, int most,
    size_t workspace_bytes) const {
  const CublasLtLibrary& library = lt_->library();
  cublasLtMatmulPreferenceOpaque_t preference = {};
  if (Status limited = limit_algorithms(library, alignment, workspace_bytes, preference);
      !limited) {
    return tl::unexpected(limited.error());
  }
  const Descriptors descriptors(operation_, variant);
  std::vector<cublasLtMatmulHeuristicResult_t> found(static_cast<size_t>(most));
  int count = 0;
  const cublasStatus_t status = library.get_heuristic(
      lt_->handle(), descriptors.operation, descriptors.weight, descriptors.left, descriptors.out,
      descriptors.out, &preference, most, found.data(), &count);
  const cublasStatus_t first = found.front().state;
  found.resize(static_cast<size_t>(count));
  std::erase_if(found, [](const auto& one) { return one.state != CUBLAS_STATUS_SUCCESS; });
  if (status == CUBLAS_STATUS_SUCCESS && !found.empty()) return found;
  return fail("cuBLASLt has no algorithm for {}: {}", describe(variant),
              library.status_string(status != CUBLAS_STATUS_SUCCESS ? status : first));
}

std::string Product::describe(const Variant& variant) const {
  if (is_total()) {
    return fmt::format("a {} product [{}, {}] @ [{}, {}]", to_string(shape_.dtype), shape_.m,
                       variant.rows, variant.rows, shape_.n);
  }
  return fmt::format("a {} product [{}, {}] @ [{}, {}]", to_string(shape_.dtype), variant.rows,
                     shape_.k, shape_.k, shape_.n);
}

int64_t Product::most_rows() const {
  return std::ranges::max(variants_, {}, &Variant::rows).rows;
}

int64_t Product::left_elements() const {
  const int64_t width = is_total() ? shape_.m : shape_.k;
  return std::max(shape_.left_stride, shape_.blocks * width) * most_rows();
}

int64_t Product::weight_elements() const {
  if (shape_.turned_stride > 0) return shape_.turned_stride * shape_.n;
  if (is_total()) {
    return std::max(shape_.weight_stride, shape_.blocks * shape_.n) * most_rows();
  }
  return shape_.blocks * shape_.weight_stride * (shape_.transposed ? shape_.k : shape_.n);
}

int64_t Product::out_elements() const {
  if (is_total()) return shape_.blocks * shape_.m * shape_.n;
  return std::max(shape_.out_stride, shape_.blocks * shape_.n) * most_rows();
}

Status Product::warm_up(const ProductPointers& scratch, void* workspace,
                        cudaStream_t stream) const {
  for (const Variant& variant : variants_) {
    if (Status status = run(variant, scratch, false, workspace, stream); !status) return status;
    if (!shape_.accumulate) continue;
    if (Status status = run(variant, scratch, true, workspace, stream); !status) return status;
  }
  return {};
}

Status Product::replace_wrong_algorithms(const ProductPointers& scratch, void* workspace,
                                         cudaStream_t stream) {
  for (Variant& variant : variants_) {
    if (Status status = replace_if_wrong(variant, scratch, workspace, stream); !status) {
      return status;
    }
  }
  return {};
}

Status Product::replace_if_wrong(Variant& variant, const ProductPointers& scratch, void* workspace,
                                 cudaStream_t stream) {
  Result<bool> right = is_right(variant, scratch, workspace, stream);
  if (!right) return tl::unexpected(right.error());
  if (*right) return {};
  // Where arrays are less aligned the library has no algorithms with clusters.
  const ProductAlignment& all = variant.alignment;
  const ProductAlignment less = {.left = std::min(all.left, kLessAlignment),
                                 .weight = std::min(all.weight, kLessAlignment),
                                 .out = std::min(all.out, kLessAlignment)};
  std::vector<ProductAlignment> alignments = {all};
  if (less != all) alignments.push_back(less);
  size_t tried = 0;
  for (const ProductAlignment& alignment : alignments) {
    // What there is of workspace has been handed out.
    const auto found = ask_library(variant, alignment, kMostReplacements, workspace_bytes_);
    if (!found) return tl::unexpected(found.error());
    for (const cublasLtMatmulHeuristicResult_t& next : *found) {
      variant.algorithm = next.algo;
      right = is_right(variant, scratch, workspace, stream);
      if (!right) return tl::unexpected(right.error());
      if (*right) return {};
      ++tried;
    }
  }
  return fail(
      "each of cuBLASLt's {} algorithms for {} gives wrong numbers on this GPU, which MPS shares "
      "among programs: another CUDA_MPS_ACTIVE_THREAD_PERCENTAGE, or none, may help",
      tried, describe(variant));
}

/// All elements are the same sum of equal terms.
Result<bool> Product::is_right(const Variant& variant, const ProductPointers& scratch,
                               void* workspace, cudaStream_t stream) const {
  constexpr double kTolerance = 0.01;  // relative; of TF32 too
  constexpr uint16_t kHalf = kTestByte * 0x101;
  const auto number = [](DType type, uint32_t bits) -> double {
    return type == DType::bf16  ? float_from_bf16(static_cast<uint16_t>(bits))
           : type == DType::f16 ? float_from_f16(static_cast<uint16_t>(bits))
                                : std::bit_cast<float>(bits);
  };
  const double term = number(shape_.dtype, kHalf * 0x10001U);
  const int64_t terms = is_total() ? variant.rows : shape_.k;
  const double expected = term * term * static_cast<double>(terms);
  const int64_t rows = is_total() ? 1 : variant.rows;
  const auto columns = static_cast<size_t>(is_total() ? out_elements() : shape_.blocks * shape_.n);
  const auto stride = rows == 1 ? columns : static_cast<size_t>(shape_.out_stride);
  const size_t count = stride * static_cast<size_t>(rows - 1) + columns;
  const size_t element = size_of(shape_.out_dtype);
  std::vector<std::byte> out(count * element);
  const Status done =
      check_cuda(cudaMemsetAsync(scratch.out, 0xff, out.size(), stream), "clearing")
          .and_then([&] { return run(variant, scratch, false, workspace, stream); })
          .and_then([&] {
            return check_cuda(cudaMemcpyAsync(out.data(), scratch.out, out.size(),
                                              cudaMemcpyDeviceToHost, stream),
                              "copying");
          })
          .and_then([&] { return check_cuda(cudaStreamSynchronize(stream), "multiplying"); });
  if (!done) return tl::unexpected(done.error());
  for (size_t i = 0; i < count; ++i) {
    uint32_t bits = 0;
    std::memcpy(&bits, out.data() + i * element, element);
    // NaN is not near either.
    const bool is_near =
        std::abs(number(shape_.out_dtype, bits) - expected) <= kTolerance * expected;
    if (i % stride < columns && !is_near) return false;
  }
  return true;
}

Status Product::run(int64_t rows, const ProductPointers& pointers, void* workspace,
                    cudaStream_t stream, bool opens) const {
  for (const Variant& variant : variants_) {
    if (variant.rows != rows || !is_aligned(pointers.left, variant.alignment.left) ||
        !is_aligned(pointers.weight, variant.alignment.weight) ||
        !is_aligned(pointers.out, variant.alignment.out)) {
      continue;
    }
    return run(variant, pointers, shape_.accumulate && !opens, workspace, stream);
  }
  RNNC_CHECK(false, "no product is prepared for {} rows at these addresses", rows);
}

Status Product::run(const Variant& variant, const ProductPointers& pointers, bool accumulate,
                    void* workspace, cudaStream_t stream) const {
  const CublasLtLibrary& library = lt_->library();
  const Descriptors descriptors(operation_, variant);
  return library.check(
      library.matmul(lt_->handle(), descriptors.operation, &kOne, pointers.weight,
                     descriptors.weight, pointers.left, descriptors.left,
                     accumulate ? &kOne : &kZero, pointers.out, descriptors.out, pointers.out,
                     descriptors.out, &variant.algorithm, workspace, workspace_bytes_, stream),
      "multiplying");
}

}  // namespace rnnc::cuda
