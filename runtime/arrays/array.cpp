#include "runtime/arrays/array.h"

#include <new>

#include "ir/base/status.h"
#include "runtime/base/describe.h"
#include "runtime/base/host_memory.h"

namespace rnnc {

Array Array::zeros(DType dtype, std::vector<int64_t> shape) {
  Array array{.dtype = dtype, .shape = std::move(shape), .data = {}};
  const std::optional<int64_t> count = count_elements(array.shape);
  const auto size = static_cast<int64_t>(size_of(dtype));
  constexpr int64_t kSmall = int64_t{1} << 30;  // bytes that need no look at the machine
  if (!count || (*count > kSmall / size && *count > host_memory() / size)) return array;
  try {
    array.data.resize(static_cast<size_t>(*count * size));
  } catch (const std::bad_alloc&) {
    array.data = {};
  }
  return array;
}

int64_t Array::elements() const {
  return count_elements(shape).value_or(0);
}

Status Array::check() const {
  const std::optional<int64_t> count = count_elements(shape);
  const size_t element = size_of(dtype);
  if (!count || static_cast<size_t>(*count) > SIZE_MAX / element) {
    return fail("has the shape {}, which no array has", shape_text(shape));
  }
  const size_t bytes = static_cast<size_t>(*count) * element;
  if (data.size() == bytes) return {};
  return fail("has {} bytes, but {} in {} takes {}", data.size(), shape_text(shape),
              to_string(dtype), bytes);
}

Array Array::as(DType target) const {
  if (target == dtype) return *this;
  const size_t count = data.size() / size_of(dtype);
  Array result{.dtype = target, .shape = shape, .data = {}};
  result.data.resize(count * size_of(target));
  convert(data.data(), dtype, result.data.data(), target, count);
  return result;
}

std::vector<double> Array::to_doubles() const {
  std::vector<double> values(data.size() / size_of(dtype));
  convert(data.data(), dtype, values.data(), DType::f64, values.size());
  return values;
}

Array Array::from_doubles(const std::vector<double>& values, std::vector<int64_t> shape,
                          DType dtype) {
  Array array{.dtype = dtype, .shape = std::move(shape), .data = {}};
  array.data.resize(values.size() * size_of(dtype));
  convert(values.data(), DType::f64, array.data.data(), dtype, values.size());
  return array;
}

}  // namespace rnnc
