/// Numbers that decide what a GPU leaves open: cheap, as one is asked for at every turn.
#pragma once

#include <cstdint>

namespace rnnc::emulator {

/// SplitMix64.
class Random {
 public:
  using result_type = uint64_t;
  explicit Random(uint64_t seed) : state_(seed) {}
  static constexpr uint64_t min() { return 0; }
  static constexpr uint64_t max() { return UINT64_MAX; }
  uint64_t operator()() {
    uint64_t bits = state_ += 0x9e3779b97f4a7c15;
    bits = (bits ^ bits >> 30) * 0xbf58476d1ce4e5b9;
    bits = (bits ^ bits >> 27) * 0x94d049bb133111eb;
    return bits ^ bits >> 31;
  }
  /// In [0, end).
  uint64_t below(uint64_t end) { return ((*this)() >> 32) * end >> 32; }
  bool toss() { return below(2) != 0; }

 private:
  uint64_t state_;
};

}  // namespace rnnc::emulator
