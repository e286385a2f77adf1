/// What is proved of carried states that go through time by affine maps: how a scan composes them.
#pragma once

#include <cstdint>
#include <vector>

namespace rnnc {

/// What stands for sum and product in `a * h[t-1] + b`.
enum class Semiring : uint8_t {
  SumProduct,  // a * h + b
  MaxPlus,     // max(a + h, b)
  MinPlus,     // min(a + h, b)
};

/// States that depend on each other from step to step, whose next values are
///
///     next[i] = sum over j of coefficient[i, j] * state[j] + offset[i]
///
/// in a semiring. Coefficients and offsets depend on none of them, but may on all states of earlier
/// rounds, before and after the step.
struct ScanRound {
  Semiring semiring = Semiring::SumProduct;
  std::vector<uint32_t> states;        // m of them, ascending
  std::vector<uint32_t> coefficients;  // instructions, [m, m] row by row
  std::vector<uint32_t> offsets;       // instructions, [m]
  /// SumProduct: of no row the coefficients' sizes add up to more than 1, whatever the inputs, so
  /// that products of them stay finite.
  bool bounded = false;
  friend bool operator==(const ScanRound&, const ScanRound&) = default;
};

/// Of a round. A step from composed maps costs m^3, so that more are better off in a loop.
inline constexpr size_t kMostScanStates = 4;

}  // namespace rnnc
