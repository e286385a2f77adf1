/// How few numbers a round's coefficients are at any step, so that composing them costs less.
///
///     full      m * m of them
///     scaled    one in the diagonal, else zeros; any single state
///     rotation  [a, -b; b, a], as of a complex number
#pragma once

#include <cstdint>
#include <vector>

#include "ir/plan/plan.h"

namespace rnnc {

enum class ScanStructure : uint8_t { Full, Scaled, Rotation };

ScanStructure structure_of(const Kernel& kernel, const ScanRound& round);

/// The instructions of those numbers, in the order in which tiles exchange them: all, row by row;
/// the diagonal's; a and b.
std::vector<uint32_t> own_coefficients(const Kernel& kernel, const ScanRound& round);

/// The semiring's zero.
double zero_of(Semiring semiring);

}  // namespace rnnc
