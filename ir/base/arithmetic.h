/// Division of whole numbers that are not negative.
#pragma once

#include <cstdint>

namespace rnnc {

constexpr int64_t ceil_div(int64_t count, int64_t unit) {
  return (count + unit - 1) / unit;
}

/// The least multiple of `unit` that is no less.
constexpr int64_t round_up(int64_t count, int64_t unit) {
  return ceil_div(count, unit) * unit;
}

/// The start of part `index` of `parts` nearly equal parts of [0, count).
constexpr int64_t part_begin(int64_t count, int64_t parts, int64_t index) {
  return count * index / parts;
}

}  // namespace rnnc
