/// Plan → LLVM IR → machine code for this host. Only this folder sees LLVM.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ir/plan.h"

namespace rnnc {

/// A compiled elementwise kernel: rows [begin, end), `arguments[i]` points at row 0 of argument i,
/// rows of it lie `strides[i]` elements apart. Pure, reentrant, touches only its arguments'
/// memory and `scratch`, which holds at least `CpuModule::scratch_bytes`, 64-byte aligned.
using CpuKernel = void (*)(void* const* arguments, const int64_t* strides, int64_t begin,
                           int64_t end, void* scratch);

/// CPU name and feature string that code is compiled for (part of the cache key).
std::string cpu_target_description();

/// LLVM IR before and assembly after optimisation, for `rnnc emit`.
Result<std::string> emit_llvm(const Plan& plan);
Result<std::string> emit_assembly(const Plan& plan);

/// Relocatable object code of the plan's kernels: what the kernel cache keeps.
Result<std::string> compile_object(const Plan& plan);

/// Object code loaded into this process.
class CpuModule {
 public:
  static Result<std::unique_ptr<CpuModule>> load(const Plan& plan, const std::string& object);
  virtual ~CpuModule() = default;
  /// One per `Plan::kernels`; valid while the module lives.
  virtual const std::vector<CpuKernel>& kernels() const = 0;
  virtual size_t scratch_bytes() const = 0;
};

}  // namespace rnnc
