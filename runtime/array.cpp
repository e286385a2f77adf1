#include "runtime/array.h"

#include "ir/status.h"
#include "runtime/describe.h"

namespace rnnc {

Array Array::zeros(DType dtype, std::vector<int64_t> shape) {
  Array array{.dtype = dtype, .shape = std::move(shape), .data = {}};
  array.data.resize(static_cast<size_t>(array.elements()) * size_of(dtype));
  return array;
}

int64_t Array::elements() const {
  const std::optional<int64_t> count = count_elements(shape);
  RNNC_CHECK(count, "shape {}", shape_text(shape));
  return *count;
}

Array Array::as(DType target) const {
  if (target == dtype) return *this;
  Array result = zeros(target, shape);
  convert(data.data(), dtype, result.data.data(), target, static_cast<size_t>(elements()));
  return result;
}

std::vector<double> Array::to_doubles() const {
  std::vector<double> values(static_cast<size_t>(elements()));
  convert(data.data(), dtype, values.data(), DType::f64, values.size());
  return values;
}

Array Array::from_doubles(const std::vector<double>& values, std::vector<int64_t> shape,
                          DType dtype) {
  Array array = zeros(dtype, std::move(shape));
  RNNC_CHECK(values.size() == static_cast<size_t>(array.elements()), "{} values for shape {}",
             values.size(), shape_text(array.shape));
  convert(values.data(), DType::f64, array.data.data(), dtype, values.size());
  return array;
}

}  // namespace rnnc
