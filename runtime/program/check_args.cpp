#include "runtime/program/check_args.h"

namespace rnnc {

Status check_count(std::string_view kind, size_t pointers, size_t arrays) {
  if (pointers == 0 || pointers == arrays) return {};
  return fail("{}: none or {} pointers expected, got {}", kind, arrays, pointers);
}

Status check_lengths(const int32_t* lengths) {
  if (reinterpret_cast<uintptr_t>(lengths) % sizeof(int32_t) == 0) return {};
  return fail("lengths are not aligned to their 4-byte elements");
}

Status check_workspace(const void* workspace, size_t bytes, size_t needed) {
  if (needed > 0 && workspace == nullptr) {
    return fail("workspace is null; {} bytes are needed", needed);
  }
  if (bytes >= needed) return {};
  return fail("workspace has {} bytes; {} are needed", bytes, needed);
}

std::string_view to_text(SequenceFeatures features) {
  if (features.lengths && features.resets) return " with lengths and resets";
  if (features.lengths) return " with lengths";
  return features.resets ? " with resets" : "";
}

std::string_view to_argument(SequenceFeatures features) {
  if (features.lengths && features.resets) return ", {.lengths = true, .resets = true}";
  if (features.lengths) return ", {.lengths = true}";
  return features.resets ? ", {.resets = true}" : "";
}

}  // namespace rnnc
