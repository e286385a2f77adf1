#include "ir/base/status.h"

#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace rnnc {

void internal_error(const char* file, int line, const std::string& what) {
  std::string_view path = file;
  const size_t slash = path.rfind('/');
  const size_t folder = slash == std::string_view::npos || slash == 0 ? std::string_view::npos
                                                                      : path.rfind('/', slash - 1);
  if (folder != std::string_view::npos) path.remove_prefix(folder + 1);
  // Going on with a broken invariant could give wrong results: the one place that prints and ends.
  fmt::print(stderr, "this is a bug in rnnc: {}:{}: {}\n", path, line, what);
  std::abort();
}

}  // namespace rnnc
