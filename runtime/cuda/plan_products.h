/// The matrix products of a plan that cuBLASLt does, ready to run.
#pragma once

#include <unordered_map>

#include "runtime/cuda/addresses.h"
#include "runtime/cuda/cuda_backend.h"
#include "runtime/cuda/loaded_kernels.h"
#include "runtime/cuda/product.h"

namespace rnnc {

class PlanProducts {
 public:
  /// Those that `kernels` has none for. `plan` and `context` outlive this. Makes the context's
  /// cuBLASLt handle if there are products.
  static Result<PlanProducts> prepare(const Plan& plan, const LoadedKernels& kernels,
                                      CudaContext& context);

  /// Of library workspace.
  size_t workspace_bytes() const;
  /// Runs everything once on memory of its own, so that kernels are loaded from then on; under MPS
  /// takes other algorithms for those that are wrong there.
  Status warm_up(const CudaDevice& device, void* workspace, cudaStream_t stream);
  /// Runs one over `rows` rows; in Sequence stages any number up to a chunk's.
  Status run(const GemmLaunch& launch, Domain domain, int64_t rows, const Addresses& addresses,
             LaunchPosition position, void* workspace, cudaStream_t stream) const;

 private:
  explicit PlanProducts(const Plan& plan) : plan_(plan) {}
  std::vector<int64_t> row_counts(const GemmLaunch& launch, Domain domain) const;
  uint32_t alignment(const Access& access, int64_t apart, uint32_t caller_alignment) const;
  ProductAlignment alignment(const GemmLaunch& launch, bool aligned_caller) const;
  Status add(const GemmLaunch& launch, Domain domain, CudaContext& context);

  const Plan& plan_;
  std::unordered_map<const GemmLaunch*, Product> products_;
};

}  // namespace rnnc
