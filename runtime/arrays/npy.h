/// NumPy's .npy format, versions 1.0 to 3.0
/// (https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html). Headers are never
/// trusted: sizes are checked against the file before anything is allocated.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "ir/base/status.h"
#include "runtime/arrays/array.h"

namespace rnnc {

/// Reads float64, float32 and float16, little or big endian, C or Fortran order (given as C).
Result<Array> read_npy(const std::filesystem::path& path);
/// The same from bytes; `name` is used in errors.
Result<Array> parse_npy(std::string_view bytes, std::string_view name);

/// Whole numbers, such as lengths.
struct IntegerArray {
  std::vector<int64_t> shape;  // row-major, dense
  std::vector<int64_t> values;
};
/// Reads integers of any size.
Result<IntegerArray> read_npy_integers(const std::filesystem::path& path);
Result<IntegerArray> parse_npy_integers(std::string_view bytes, std::string_view name);

/// Reads a mask: bool and integers as 0 and 1 in f32, and floats as they are; what is not 0 is
/// true.
Result<Array> read_npy_mask(const std::filesystem::path& path);
Result<Array> parse_npy_mask(std::string_view bytes, std::string_view name);

/// The bytes of a version 1.0 file of float64, float32 or float16; bf16, which NumPy has not, as
/// float32.
std::string format_npy(const Array& array);
/// Whole numbers, as int64.
std::string format_npy_integers(const IntegerArray& array);
/// Writes `format_npy` to a temporary file beside `path` and renames it: whole or not at all.
Status write_npy(const std::filesystem::path& path, const Array& array);

}  // namespace rnnc
