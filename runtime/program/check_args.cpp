#include "runtime/program/check_args.h"

#include <cmath>

#include "ir/graph/graph.h"

namespace rnnc {

Status check_count(std::string_view kind, size_t pointers, size_t arrays) {
  if (pointers == 0 || pointers == arrays) return {};
  return fail("{}: none or {} pointers expected, got {}", kind, arrays, pointers);
}

Status check_lengths(const int32_t* lengths) {
  if (reinterpret_cast<uintptr_t>(lengths) % sizeof(int32_t) == 0) return {};
  return fail("lengths are not aligned to their 4-byte elements");
}

std::string integer_problem(const ArrayInfo& input, double value) {
  const bool whole = value == std::floor(value) && std::abs(value) <= kMostInteger;
  if (!whole) {
    return fmt::format("{}, expected a whole number from {} to {}", value, -kMostInteger,
                       kMostInteger);
  }
  const bool inside =
      input.table_rows == 0 || (value >= 0 && value < static_cast<double>(input.table_rows));
  if (inside) return "";
  return fmt::format("{}, but {} has rows 0 to {}", value, quote(input.table),
                     input.table_rows - 1);
}

Status check_integers(std::span<const void* const> inputs, const std::vector<ArrayInfo>& arrays,
                      int64_t steps, int64_t batch, const int32_t* lengths) {
  for (size_t i = 0; i < arrays.size(); ++i) {
    if (arrays[i].dtype != DType::i32) continue;
    const auto* values = static_cast<const int32_t*>(inputs[i]);
    for (int64_t row = 0; row < steps * batch; ++row) {
      const int64_t b = row % batch;
      if (lengths != nullptr && row / batch >= lengths[b]) continue;
      const std::string problem = integer_problem(arrays[i], values[row]);
      if (problem.empty()) continue;
      return fail("input {}[{}, {}] is {}", arrays[i].name, row / batch, b, problem);
    }
  }
  return {};
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

}  // namespace rnnc
