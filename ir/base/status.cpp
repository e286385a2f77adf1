#include "ir/base/status.h"

#include <string_view>

namespace rnnc {

void internal_error(const char* file, int line, const std::string& what) {
  std::string_view path = file;
  const size_t slash = path.rfind('/');
  const size_t folder = slash == std::string_view::npos || slash == 0 ? std::string_view::npos
                                                                      : path.rfind('/', slash - 1);
  if (folder != std::string_view::npos) path.remove_prefix(folder + 1);
  throw InternalError(fmt::format("this is a bug in rnnc: {}:{}: {}", path, line, what));
}

}  // namespace rnnc
