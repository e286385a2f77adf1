/// Scenarios of calls. Both end with an error that names what went wrong; whatever is told the
/// caller, they go on.
#pragma once

#include <filesystem>

#include "ir/base/status.h"
#include "tests/api/odd_values.h"

namespace rnnc::test {

/// Of programs and their runners.
Status make_program_calls(Random& random, const std::filesystem::path& folder);
/// Of units, arrays, files, maps, dims, caches and devices.
Status make_other_calls(Random& random, const std::filesystem::path& folder);

/// While this lives, an allocation of so many bytes or more fails on this thread.
class ScarceMemory {
 public:
  explicit ScarceMemory(size_t bytes);
  ~ScarceMemory();
  ScarceMemory(const ScarceMemory&) = delete;
  ScarceMemory& operator=(const ScarceMemory&) = delete;
};

}  // namespace rnnc::test
