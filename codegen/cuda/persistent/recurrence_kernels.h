/// Recurrence launches as CUDA kernels: which launches share one, and its code.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "codegen/cuda/device/kernel_abi.h"
#include "ir/plan/plan.h"

namespace rnnc {

class CudaRecurrenceKernels {
 public:
  /// Of all recurrence launches. Knows them by their addresses: `plan` stays where it is as long as
  /// this is asked.
  explicit CudaRecurrenceKernels(const Plan& plan);

  /// What a launch's parameters are made of.
  struct Parameters {
    uint32_t shape = 0;  // index
    std::vector<Access> accesses;
  };
  const Parameters& of(const RecurrenceLaunch& launch) const { return parameters_.at(&launch); }

  const std::vector<CudaRecurrenceShape>& shapes() const { return shapes_; }
  /// The most arrays that a shape's launches have.
  size_t most_accesses() const { return most_accesses_; }
  /// CUDA C++ of all kernels, to stand behind the prelude; empty if there are none.
  const std::string& code() const { return code_; }

 private:
  std::vector<CudaRecurrenceShape> shapes_;
  std::unordered_map<const void*, Parameters> parameters_;
  size_t most_accesses_ = 0;
  std::string code_;
};

}  // namespace rnnc
