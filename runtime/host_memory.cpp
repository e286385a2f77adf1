#include "runtime/host_memory.h"

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

Status check_host_memory(std::string_view what, int64_t bytes) {
  const int64_t available = host_memory();
  if (bytes <= available) return {};
  constexpr double kGiB = 1 << 30;
  return fail("not enough memory: {} {:.1f} GiB, and there are {:.1f} GiB", what,
              static_cast<double>(bytes) / kGiB, static_cast<double>(available) / kGiB);
}

}  // namespace rnnc
