/// Host arrays with a shape, as files hold them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ir/dtype.h"

namespace rnnc {

struct Array {
  DType dtype = DType::f32;
  std::vector<int64_t> shape;  // row-major, dense
  std::vector<std::byte> data;

  static Array zeros(DType dtype, std::vector<int64_t> shape);
  int64_t elements() const;
  /// A copy in another element type.
  Array as(DType target) const;
  /// All values as doubles.
  std::vector<double> to_doubles() const;
  static Array from_doubles(const std::vector<double>& values, std::vector<int64_t> shape,
                            DType dtype);
};

struct NamedArray {
  std::string name;
  Array array;
};

}  // namespace rnnc
