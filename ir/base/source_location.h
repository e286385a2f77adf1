/// Where in the user's text something was written.
#pragma once

#include <cstdint>

namespace rnnc {

/// A half-open byte range [begin, end) in file number `file` of a compilation. `begin == end == 0`
/// in file 0 means "no place" (a node made by a pass).
struct SourceLocation {
  uint32_t file = 0;
  uint32_t begin = 0;
  uint32_t end = 0;
  /// Of a Graph's node: the equation that it is part of, counted from 1 in `Graph::equations`; 0:
  /// of none.
  uint32_t equation = 0;
};

}  // namespace rnnc
