/// How much text a source file may have.
#pragma once

#include <cstddef>

#include "ir/base/source_file.h"

namespace rnnc {

/// Bytes that a source file may have. The largest shipped one has 8 KiB; what this many bytes can
/// say is checked within two seconds and 500 MB.
constexpr size_t kLargestSource = 1 << 20;

}  // namespace rnnc
