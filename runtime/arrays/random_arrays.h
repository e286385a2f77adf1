/// Arrays for runs that need some but not particular ones.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/arrays/array.h"
#include "runtime/arrays/signature.h"

namespace rnnc {

/// 1/sqrt(n) for a param whose last axis has n elements (n = 1 for scalars).
double weight_bound(const ArrayInfo& param);

/// Uniform in ±weight_bound. The same on every machine: a param's numbers depend on the seed, its
/// name and its shape alone. An error if they do not fit in memory.
Result<std::vector<NamedArray>> random_weights(const std::vector<ArrayInfo>& params, uint64_t seed);

/// Uniform in ±bound, likewise.
Array random_array(const ArrayInfo& info, double bound, uint64_t seed);

/// Lengths of `batch` sequences, from 1 to `steps`.
std::vector<int64_t> random_lengths(int64_t batch, int64_t steps, uint64_t seed);

/// A mask [T, B] of 1 and 0 that resets at one step of 16, or so.
Array random_resets(int64_t batch, int64_t steps, uint64_t seed);

}  // namespace rnnc
