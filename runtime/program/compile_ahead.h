/// Compiling for a GPU on a machine that need not have one, so that programs start there with a
/// warm kernel cache.
#pragma once

#include <cstddef>
#include <string>

#include "runtime/backend/kernel_cache.h"
#include "runtime/program/planner.h"

namespace rnnc {

/// Plans depend on the GPU, above all on its number of multiprocessors.
struct AheadTarget {
  std::string arch = "sm_90";
  int multiprocessors = 0;  // 0: as many as the best known GPU of the architecture has
};

struct CompiledAhead {
  std::string device = {};  // whose plan it is: "NVIDIA H200"
  int multiprocessors = 0;
  size_t bytes = 0;       // of machine code
  bool cached = false;    // it was in the cache already
  std::string note = {};  // what of the plan is not as asked, and why; empty: nothing
};

/// Makes the plan that a program with the planner's options runs for the shape on the target's GPU,
/// and puts its kernels into the cache. An error names an architecture that is not known, or says
/// why the cache cannot be written. Only in builds with the CUDA backend.
Result<CompiledAhead> compile_ahead(const Planner& planner, const PlanShape& shape,
                                    const AheadTarget& target, const KernelCache& cache);
/// Likewise both plans of a program that is trained with these options, which are complete
/// (Planner::complete).
Result<CompiledAhead> compile_training_ahead(const Planner& planner, const PlanShape& shape,
                                             const TrainingOptions& options,
                                             const AheadTarget& target, const KernelCache& cache);

}  // namespace rnnc
