/// The matrix products of a plan that cuBLASLt does, ready to run.
#pragma once

#include <map>

#include "codegen/cuda/device/cuda_module.h"
#include "runtime/cuda/addresses.h"
#include "runtime/cuda/cuda_backend.h"
#include "runtime/cuda/library_products.h"
#include "runtime/cuda/product.h"

namespace rnnc::cuda {

class PlanProducts {
 public:
  /// Those that `module` has no kernel for. `plan` and `context` outlive this. Makes the context's
  /// cuBLASLt handle if there are products.
  static Result<PlanProducts> prepare(const Plan& plan, const CudaModule& module,
                                      CudaContext& context);

  /// Of library workspace.
  size_t workspace_bytes() const;
  /// Runs everything once on memory of its own, so that kernels are loaded from then on; under MPS
  /// takes other algorithms for those that are wrong there.
  Status warm_up(const CudaDevice& device, const DeviceAllocator& allocator, void* workspace,
                 cudaStream_t stream);
  /// Runs one over `rows` rows; in Sequence stages any number up to a chunk's. `opens`: as Product::run.
  Status run(LaunchId launch, int64_t rows, const Addresses& addresses, LaunchPosition position,
             void* workspace, cudaStream_t stream, bool opens = false) const;

 private:
  struct Planned {
    LibraryProduct operands;
    Product product;
  };

  explicit PlanProducts(const Plan& plan) : plan_(plan) {}
  std::vector<int64_t> row_counts(Domain domain, int64_t once_rows, int64_t most_steps) const;
  uint32_t alignment(const Access& access, int64_t apart, uint32_t caller_alignment) const;
  uint32_t turned_alignment(const LibraryProduct& operands, int64_t steps) const;
  std::vector<ProductAlignment> alignments(const LibraryProduct& operands, int64_t rows) const;
  Status clear(const LibraryProduct& operands, const Addresses& addresses,
               cudaStream_t stream) const;
  Status add(LaunchId id, const LibraryProduct& operands, CudaContext& context);

  const Plan& plan_;
  std::map<LaunchId, Planned> products_;
};

}  // namespace rnnc::cuda
