/// What a core of this machine does in a nanosecond, roughly: for choices that change no bits.
#pragma once

namespace rnnc::cpu {

struct CoreRates {
  double operations;  // of a vector's lane: multiply-adds, or instructions of elementwise work
  /// Bytes of weights that products read over and over, if they have so many of them.
  struct Weights {
    double at_most;  // bytes
    double speed;
  };
  Weights near;   // stay in the second level cache
  Weights far;    // stay in the core's part of the last one
  double beyond;  // speed of all others
  /// Bytes that another core has written; 0: as fast as its own.
  double others;

  double of_weights(double bytes) const {
    if (bytes <= near.at_most) return near.speed;
    return bytes <= far.at_most ? far.speed : beyond;
  }
};

/// Found once. Thread-safe.
const CoreRates& core_rates();

}  // namespace rnnc::cpu
