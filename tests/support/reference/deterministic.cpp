#include "tests/support/reference/deterministic.h"

namespace rnnc::test {
namespace {

uint64_t fnv1a64(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (unsigned char byte : text) hash = (hash ^ byte) * 0x100000001b3;
  return hash;
}

double round_to(double value, DType dtype) {
  if (dtype == DType::f64) return value;
  uint64_t bits = 0;
  convert(&value, DType::f64, &bits, dtype, 1);
  convert(&bits, dtype, &value, DType::f64, 1);
  return value;
}

/// Of a name's hash.
uint64_t bits_at(uint64_t hash, uint64_t index) {
  uint64_t bits = hash + (index + 1) * 0x9e3779b97f4a7c15;
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111eb;
  return bits ^ (bits >> 31);
}

}  // namespace

uint64_t deterministic_bits(std::string_view name, uint64_t index) {
  return bits_at(fnv1a64(name), index);
}

std::vector<double> deterministic_values(std::string_view name, int64_t count, double scale,
                                         DType rounding, double around) {
  const uint64_t hash = fnv1a64(name);
  std::vector<double> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) {
    const double unit = static_cast<double>(bits_at(hash, i) >> 11) * 0x1p-53;
    values[i] = round_to(around + (2 * unit - 1) * scale, rounding);
  }
  return values;
}

}  // namespace rnnc::test
