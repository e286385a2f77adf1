#include "ir/base/dtype.h"

#include <array>
#include <bit>
#include <cstring>

namespace rnnc {
namespace {

struct DTypeInfo {
  std::string_view name;
  size_t size;
};

constexpr std::array<DTypeInfo, 5> kDTypes = {
    {{"f64", 8}, {"f32", 4}, {"bf16", 2}, {"f16", 2}, {"i32", 4}}};

// One struct per dtype: how an element is stored, and its conversion from and to `Value`, the type
// that holds every element of it exactly.
struct F64 {
  using Stored = double;
  using Value = double;
  static Value load(Stored stored) { return stored; }
  static Stored store(double value) { return value; }
};

struct F32 {
  using Stored = float;
  using Value = float;
  static Value load(Stored stored) { return stored; }
  static Stored store(double value) { return static_cast<float>(value); }
};

struct BF16 {
  using Stored = uint16_t;
  using Value = float;
  static Value load(Stored stored) { return float_from_bf16(stored); }
  static Stored store(double value) { return bf16_from_float(static_cast<float>(value)); }
};

struct F16 {
  using Stored = uint16_t;
  using Value = float;
  static Value load(Stored stored) { return float_from_f16(stored); }
  static Stored store(double value) { return f16_from_float(static_cast<float>(value)); }
};

struct I32 {
  using Stored = int32_t;
  using Value = double;
  static Value load(Stored stored) { return stored; }
  static Stored store(double value) { return static_cast<int32_t>(value); }
};

// memcpy for each element: arrays inside files need not be aligned.
template <typename Source, typename Target>
void convert_elements(const std::byte* source, std::byte* target, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    typename Source::Stored in;
    std::memcpy(&in, source + i * sizeof in, sizeof in);
    const typename Target::Stored out = Target::store(Source::load(in));
    std::memcpy(target + i * sizeof out, &out, sizeof out);
  }
}

template <typename Source>
void convert_from(const std::byte* source, std::byte* target, DType target_type, size_t count) {
  switch (target_type) {
    case DType::f64:
      return convert_elements<Source, F64>(source, target, count);
    case DType::f32:
      return convert_elements<Source, F32>(source, target, count);
    case DType::bf16:
      return convert_elements<Source, BF16>(source, target, count);
    case DType::f16:
      return convert_elements<Source, F16>(source, target, count);
    case DType::i32:
      return convert_elements<Source, I32>(source, target, count);
  }
}

}  // namespace

std::string_view to_string(DType dtype) {
  return kDTypes[static_cast<size_t>(dtype)].name;
}

std::optional<DType> parse_dtype(std::string_view text) {
  for (size_t i = 0; i < kDTypes.size(); ++i) {
    const auto dtype = static_cast<DType>(i);
    if (kDTypes[i].name == text && dtype != DType::i32) return dtype;
  }
  return std::nullopt;
}

size_t size_of(DType dtype) {
  return kDTypes[static_cast<size_t>(dtype)].size;
}

uint16_t bf16_from_float(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) {
    // A NaN whose payload lies in the low half would round to infinity: set the quiet bit.
    return static_cast<uint16_t>((bits >> 16) | 0x0040U);
  }
  const uint32_t odd = (bits >> 16) & 1U;
  return static_cast<uint16_t>((bits + 0x7fffU + odd) >> 16);
}

float float_from_bf16(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

uint16_t f16_from_float(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000U;
  const uint32_t magnitude = bits & 0x7fffffffU;
  if (magnitude > 0x7f800000U) {
    return static_cast<uint16_t>(sign | 0x7e00U | ((magnitude >> 13) & 0x03ffU));
  }
  // 65520 and above: halfway from the greatest number, 65504, to the next power of two.
  if (magnitude >= 0x477ff000U) return static_cast<uint16_t>(sign | 0x7c00U);
  if (magnitude < 0x38800000U) {
    // Below 2^-14 the result is a multiple of 2^-24, which is the spacing of floats from 0.5 on:
    // adding 0.5 rounds to it.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000U));
  }
  const uint32_t rebiased = magnitude - (112U << 23);
  const uint32_t odd = (rebiased >> 13) & 1U;
  return static_cast<uint16_t>(sign | ((rebiased + 0x0fffU + odd) >> 13));
}

float float_from_f16(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000U) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1fU;
  const uint32_t mantissa = bits & 0x03ffU;
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24F;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
  }
  const uint32_t float_exponent = exponent == 0x1fU ? 0xffU : exponent + 112U;
  return std::bit_cast<float>(sign | (float_exponent << 23) | (mantissa << 13));
}

void convert(const void* source, DType source_type, void* target, DType target_type, size_t count) {
  if (count == 0) return;
  if (source_type == target_type) {
    std::memcpy(target, source, count * size_of(source_type));
    return;
  }
  const auto* in = static_cast<const std::byte*>(source);
  auto* out = static_cast<std::byte*>(target);
  switch (source_type) {
    case DType::f64:
      return convert_from<F64>(in, out, target_type, count);
    case DType::f32:
      return convert_from<F32>(in, out, target_type, count);
    case DType::bf16:
      return convert_from<BF16>(in, out, target_type, count);
    case DType::f16:
      return convert_from<F16>(in, out, target_type, count);
    case DType::i32:
      return convert_from<I32>(in, out, target_type, count);
  }
}

}  // namespace rnnc
