/// The version of a library, remembered in the kernel cache: loading NVRTC only to ask it takes
/// longer than all else on the way to kernels that are compiled already.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/backend/kernel_cache.h"

namespace rnnc {

/// `places`: files that decide which library is loaded (SharedLibrary::places).
/// What was remembered, if each of these files and the library's own are as they were then, or are
/// not there as they were not; who looks in other places has a record of its own.
std::optional<std::string> recall_version(const std::vector<std::string>& places,
                                          const KernelCache& cache);

/// `file`: what the library was loaded from.
void remember_version(const std::string& version, const std::string& file,
                      const std::vector<std::string>& places, const KernelCache& cache);

}  // namespace rnnc
