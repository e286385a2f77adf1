/// A module's kernels as machine code: from the kernel cache, or compiled and kept there.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "codegen/cuda/device/cuda_module.h"
#include "runtime/backend/kernel_cache.h"

namespace rnnc::cuda {

struct Cubin {
  std::string code;
  bool cached = false;  // it came from the cache
  Status kept = {};     // whether the cache has it now
};
/// `arch` is "sm_90" and the like. The same text has the same entry, on whichever machine.
Result<Cubin> compile_module(const CudaModule& module, std::string_view arch,
                             const KernelCache& cache);

/// Of the NVRTC that is loaded or, if none is, would be. None if that takes loading it.
std::optional<std::string> known_nvrtc_version(const KernelCache& cache);

/// The cache's code of a module's text by that NVRTC; none if it has none that is whole.
std::optional<std::string> find_cubin(std::string_view source, std::string_view arch,
                                      std::string_view nvrtc_version, const KernelCache& cache);

/// Bytes that a thread of a kernel has in local memory: what a device that loads the code says of
/// it, without a device. 0 where the code does not tell.
int64_t local_bytes(std::string_view cubin, std::string_view kernel);

/// Why a resident kernel with so many bytes in local memory, of steps that long, is not worth
/// running, for people; empty: it is.
std::string refuse_spills(int64_t local_bytes, double step_seconds);
/// The same of whether it is worth looking for one with fewer.
std::string doubt_spills(int64_t local_bytes, double step_seconds);

}  // namespace rnnc::cuda
