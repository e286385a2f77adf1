/// What is wrong with the arrays of a call, before anything is launched.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "ir/base/status.h"
#include "runtime/arrays/signature.h"
#include "runtime/backend/options.h"
#include "runtime/base/describe.h"

namespace rnnc {

/// One pointer per array, none null.
template <typename Pointer>
Status check_pointers(std::string_view kind, std::span<Pointer const> pointers,
                      const std::vector<ArrayInfo>& arrays) {
  if (pointers.size() != arrays.size()) {
    return fail("{} {} pointers expected, got {}", arrays.size(), kind, pointers.size());
  }
  for (size_t i = 0; i < arrays.size(); ++i) {
    if (pointers[i] == nullptr) return fail("{} {} is null", kind, quote(arrays[i].name));
  }
  return {};
}

/// Pointers to whole elements, as every device needs them.
template <typename Pointer>
Status check_alignment(std::string_view kind, std::span<Pointer const> pointers,
                       const std::vector<ArrayInfo>& arrays) {
  for (size_t i = 0; i < pointers.size(); ++i) {
    const size_t element = size_of(arrays[i].dtype);
    if (reinterpret_cast<uintptr_t>(pointers[i]) % element != 0) {
      return fail("{} {} is not aligned to its {}-byte elements", kind, quote(arrays[i].name),
                  element);
    }
  }
  return {};
}

/// None at all, or one pointer per array; `kind` in the plural: "initial states".
Status check_count(std::string_view kind, size_t pointers, size_t arrays);
Status check_lengths(const int32_t* lengths);
/// Why an input cannot be this integer, or "".
std::string integer_problem(const ArrayInfo& input, double value);
/// Of inputs of integers in host memory, [T, B]: those of steps that a sequence has.
Status check_integers(std::span<const void* const> inputs, const std::vector<ArrayInfo>& arrays,
                      int64_t steps, int64_t batch, const int32_t* lengths);
Status check_workspace(const void* workspace, size_t bytes, size_t needed);

/// "", " with lengths", " with lengths and resets".
std::string_view to_text(SequenceFeatures features);

}  // namespace rnnc
