/// Instructions of which each takes the one before it, and what else they take.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "passes/reroll/kernel_families.h"

namespace rnnc {

/// The number that an op leaves any other as it is with, if it may be turned round.
std::optional<double> neutral_of(Op op);

struct ChainLink {
  uint32_t member = 0;
  uint32_t operand = 0;  // what is not the one before
  bool swapped = false;
};

/// So many links after the other, again and again, their operands one position on each time.
struct ChainPattern {
  size_t steps = 1;
  int64_t positions = 0;
  int64_t direction = 1;
};

/// Of instructions in their places.
class ChainLinks {
 public:
  ChainLinks(const std::vector<Instruction>& body, const std::vector<KernelPlace>& places)
      : body_(body), places_(places) {}

  ChainLink link(uint32_t member, uint32_t before) const;
  /// Of the first member, of which either operand may be the initial value.
  ChainLink first(uint32_t member, const std::vector<ChainLink>& links) const;
  /// The one with the fewest steps of at least `least` positions from `begin` on, or none.
  ChainPattern pattern(const std::vector<ChainLink>& links, size_t begin, int64_t least) const;

 private:
  std::optional<int64_t> direction(const ChainLink& a, const ChainLink& b) const;

  const std::vector<Instruction>& body_;
  const std::vector<KernelPlace>& places_;
};

}  // namespace rnnc
