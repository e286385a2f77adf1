/// What soak tests draw. RNNC_SOAK_DRAWS says how many draws, RNNC_SOAK_FIRST with which seed they
/// begin.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "ir/graph/graph.h"

namespace rnnc::test {

/// The same numbers for a seed on every machine.
class Dice {
 public:
  explicit Dice(uint64_t seed) : bits_(seed * 0x9e3779b97f4a7c15 + 0x632be59bd9b4e019) {}

  template <typename T>
  T one_of(std::initializer_list<T> values) {
    return values.begin()[next() % values.size()];
  }
  int64_t up_to(int64_t most) { return 1 + static_cast<int64_t>(next() % uint64_t(most)); }
  bool one_in(uint64_t count) { return next() % count == 0; }

 private:
  uint64_t next() {
    bits_ = bits_ * 6364136223846793005 + 1442695040888963407;
    return bits_ >> 33;
  }

  uint64_t bits_;
};

struct SoakSeeds {
  uint64_t first = 1;
  uint64_t count = 10;
};
/// Of the environment.
SoakSeeds soak_seeds();

/// A shipped cell. Where its own dims allow it, the hidden state is of another size than any
/// golden's.
Graph shipped_cell(Dice& dice);
Graph random_cell(uint64_t seed, Dice& dice);

}  // namespace rnnc::test
