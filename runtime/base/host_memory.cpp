#include "runtime/base/host_memory.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>

namespace rnnc {

int64_t host_memory() {
  int64_t bytes = static_cast<int64_t>(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGESIZE);
  int64_t limit = 0;  // not a number there: no limit
  if (std::ifstream("/sys/fs/cgroup/memory.max") >> limit) bytes = std::min(bytes, limit);
  return bytes;
}

Status check_host_memory(std::string_view what, double bytes) {
  const auto available = static_cast<double>(host_memory());
  if (bytes <= available) return {};
  constexpr double kGiB = 1 << 30;
  return fail_as(ErrorKind::OutOfMemory,
                 "not enough memory: {} {:.1f} GiB, and there are {:.1f} GiB", what, bytes / kGiB,
                 available / kGiB);
}

}  // namespace rnnc
