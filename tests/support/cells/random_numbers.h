/// The numbers that random graphs and their arguments are made of.
#pragma once

#include <cstdint>
#include <random>

namespace rnnc {

/// Greatest magnitude of the elements of random matrices.
inline constexpr double kMatrixLimit = 0.125;

/// Numbers that depend on the seed alone: the standard's distributions differ between libraries.
class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  /// 0 <= result < count
  size_t below(size_t count) { return static_cast<size_t>(engine_() % count); }
  int64_t between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(below(static_cast<size_t>(high - low + 1)));
  }
  bool chance(size_t percent) { return below(100) < percent; }
  /// A multiple of 1/64 with magnitude at most `limit`.
  double value(double limit) {
    const auto most = static_cast<int64_t>(limit * 64);
    return static_cast<double>(between(-most, most)) / 64;
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace rnnc
