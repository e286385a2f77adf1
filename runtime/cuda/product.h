/// Matrix products through cuBLASLt: algorithms are chosen and their kernels loaded while
/// preparing, so that running one neither allocates nor waits.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "ir/base/dtype.h"
#include "runtime/cuda/cublaslt.h"
#include "runtime/cuda/cuda_device.h"

namespace rnnc::cuda {

/// out[row, 0:n] = left[row, 0:k] @ weight, as `GemmLaunch` says; or, where there is an m, the sum
/// over rows of left[row, 0:m] and weight[row, 0:n], as totals are, with `right` as weight.
struct ProductShape {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  bool transposed = false;
  int64_t blocks = 1;
  int64_t left_stride = 0;  // elements between rows
  int64_t weight_stride = 0;
  int64_t turned_stride = 0;  // of a total's weight that has rows as columns: between these; else 0
  int64_t out_stride = 0;
  DType dtype = DType::f32;      // of left and weight
  DType out_dtype = DType::f32;  // or `dtype`, of a sum that is rounded once
  bool tf32 = false;
  bool accumulate = false;
};

struct ProductPointers {
  const void* left = nullptr;
  const void* weight = nullptr;
  void* out = nullptr;
};

/// Bytes that the addresses of left, weight and out are multiples of.
struct ProductAlignment {
  uint32_t left = 0;
  uint32_t weight = 0;
  uint32_t out = 0;
  friend bool operator==(const ProductAlignment&, const ProductAlignment&) = default;
};

/// How a product is run: over so many rows of arrays that are aligned so.
struct ProductUse {
  int64_t rows = 0;
  ProductAlignment alignment;
};

/// One product for a few numbers of rows.
class Product {
 public:
  /// The most memory that an algorithm may ask for.
  static constexpr size_t kMostWorkspaceBytes = size_t{32} << 20;

  /// Chooses an algorithm for each use; `run` takes the first that fits. Needs no memory. Only
  /// algorithms that give the same bits every time.
  static Result<Product> prepare(const CublasLt& lt, const ProductShape& shape,
                                 const std::vector<ProductUse>& uses);

  /// Of library workspace, for every algorithm chosen.
  size_t workspace_bytes() const { return workspace_bytes_; }
  /// Elements that the largest number of rows touches.
  int64_t left_elements() const;
  int64_t weight_elements() const;
  int64_t out_elements() const;

  /// Runs each algorithm once on scratch memory, so that its kernels are loaded from then on.
  Status warm_up(const ProductPointers& scratch, void* workspace, cudaStream_t stream) const;
  /// Does so on left and weight of bytes `kTestByte`, waits, and looks at all that came out. One
  /// that is wrong gives its place to the next best that is right; an error if there is none.
  Status replace_wrong_algorithms(const ProductPointers& scratch, void* workspace,
                                  cudaStream_t stream);
  static constexpr uint8_t kTestByte = 0x3c;  // makes a small normal number of every type

  /// `rows` is one of those prepared; `workspace` has `workspace_bytes()`. `opens`: nothing has been
  /// added up so far, and what lies at `out` counts for nothing.
  Status run(int64_t rows, const ProductPointers& pointers, void* workspace, cudaStream_t stream,
             bool opens = false) const;

 private:
  struct Variant : ProductUse {
    cublasLtMatrixLayoutOpaque_t weight = {};
    cublasLtMatrixLayoutOpaque_t left = {};
    cublasLtMatrixLayoutOpaque_t out = {};
    cublasLtMatmulAlgo_t algorithm = {};
  };

  Product(const CublasLt& lt, const ProductShape& shape) : lt_(&lt), shape_(shape) {}
  bool is_total() const { return shape_.m > 0; }
  int64_t most_rows() const;
  Status describe();
  Status describe_matrices(Variant& variant) const;
  Status init_layout(cublasLtMatrixLayoutOpaque_t& layout, DType dtype, int64_t rows,
                     int64_t columns, int64_t stride, int64_t block_offset) const;
  Status add_variant(const ProductUse& use);
  Status choose_algorithm(Variant& variant);
  /// Whether the time between the sums of two tiles counts, and one of small tiles has less of it.
  bool prefers_small_tiles(const ProductAlignment& alignment) const;
  /// For arrays of this alignment, best first, at least one and at most `most`; each with so much
  /// workspace at most.
  Result<std::vector<cublasLtMatmulHeuristicResult_t>> ask_library(
      const Variant& variant, const ProductAlignment& alignment, int most,
      size_t workspace_bytes) const;
  Status replace_if_wrong(Variant& variant, const ProductPointers& scratch, void* workspace,
                          cudaStream_t stream);
  Result<bool> is_right(const Variant& variant, const ProductPointers& scratch, void* workspace,
                        cudaStream_t stream) const;
  std::string describe(const Variant& variant) const;
  Status run(const Variant& variant, const ProductPointers& pointers, bool accumulate,
             void* workspace, cudaStream_t stream) const;

  const CublasLt* lt_;
  ProductShape shape_;
  cublasLtMatmulDescOpaque_t operation_ = {};
  std::vector<Variant> variants_;
  size_t workspace_bytes_ = 0;
};

}  // namespace rnnc::cuda
