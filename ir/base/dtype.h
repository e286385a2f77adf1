/// Element types of arrays, and conversion between them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace rnnc {

/// The type of integer inputs is i32; all other values are of real numbers.
enum class DType : uint8_t { f64, f32, bf16, f16, i32 };

/// "f64", "f32", "bf16", "f16", "i32".
std::string_view to_string(DType dtype);
/// Of those of real numbers.
std::optional<DType> parse_dtype(std::string_view text);
size_t size_of(DType dtype);

/// The type in which arithmetic on `storage` happens: f64 for f64, else f32.
/// States are kept in this type too, so that 16-bit runs do not lose state bits at every step.
inline DType compute_type(DType storage) {
  return storage == DType::f64 ? DType::f64 : DType::f32;
}

/// Scalar conversions, round to nearest even; NaN stays NaN, overflow becomes infinity.
uint16_t bf16_from_float(float value);
float float_from_bf16(uint16_t bits);
uint16_t f16_from_float(float value);
float float_from_f16(uint16_t bits);

/// Converts `count` elements; `source` and `target` do not overlap. f64 to a 16-bit type rounds
/// through f32, as PyTorch does. To i32 only what it holds is converted (a caller's check).
void convert(const void* source, DType source_type, void* target, DType target_type, size_t count);

}  // namespace rnnc
