#include "tests/support/kept_kernels.h"

#include <cerrno>

namespace rnnc::test {

std::filesystem::path kept_kernels() {
  const std::filesystem::path build = RNNC_BINARY_DIR;
  // By program, since writing looks through the folder.
  static const bool there = std::filesystem::exists(build);
  return there ? build / "tests/kernels" / program_invocation_short_name : "";
}

CompileOptions with_kept_kernels(CompileOptions options) {
  if (options.device.kind == Device::Kind::cpu && options.cache_directory.empty()) {
    options.cache_directory = kept_kernels();
  }
  return options;
}

}  // namespace rnnc::test
