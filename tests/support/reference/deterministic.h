/// Test data that Python and C++ make alike, so that goldens need not store inputs and weights.
///
/// The n-th value of a stream is a uniform number of [-1, 1): the upper 53 bits of output n of
/// splitmix64 (Steele, Lea & Flood 2014) seeded with the FNV-1a hash of the stream's name.
/// tests/goldens/deterministic.py is its twin; a test compares the two bit by bit.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "ir/base/dtype.h"

namespace rnnc::test {

/// Output `index` of the generator named `name`, over all 64-bit numbers.
uint64_t deterministic_bits(std::string_view name, uint64_t index);

/// The first `count` values of a stream, times `scale`, plus `around`, rounded to `rounding`.
std::vector<double> deterministic_values(std::string_view name, int64_t count, double scale,
                                         DType rounding, double around = 0);

}  // namespace rnnc::test
