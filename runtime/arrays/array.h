/// Host arrays with a shape, as files hold them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ir/base/dtype.h"
#include "ir/base/status.h"

namespace rnnc {

struct Array {
  DType dtype = DType::f32;
  std::vector<int64_t> shape;  // row-major, dense
  std::vector<std::byte> data;

  /// Without data, which `check` finds, if memory cannot hold them or no array has the shape.
  static Array zeros(DType dtype, std::vector<int64_t> shape);
  /// By the shape; 0 if it is none of an array.
  int64_t elements() const;
  /// Whether `data` has as many bytes as elements of the shape take. All that takes arrays checks
  /// that. An error goes on from the array's name: "has 4 bytes, but [3] in f32 takes 12".
  Status check() const;
  /// A copy in another element type, of as many elements as `data` has.
  Array as(DType target) const;
  /// All values that `data` has, as doubles.
  std::vector<double> to_doubles() const;
  /// Not whole (`check`) if there are not as many values as the shape has elements.
  static Array from_doubles(const std::vector<double>& values, std::vector<int64_t> shape,
                            DType dtype);
};

struct NamedArray {
  std::string name;
  Array array;
};

}  // namespace rnnc
