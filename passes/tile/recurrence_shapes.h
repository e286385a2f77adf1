/// What the phases of a RecurrenceLaunch are as far as tiles depend on it (recurrence_tiles.h).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ir/plan/plan.h"

namespace rnnc {

struct ProductShape {
  int64_t members = 1;
  int64_t k_bytes = 0;
  int64_t blocks = 1;
  bool exchanged = false;  // `left` is what the recurrence writes
  bool early = false;      // that is, another side of it, which is ahead
  bool stays = false;      // that is, in a block that has whole segments
  bool first = false;      // of those with this `left`
  bool added = false;      // to the sums of another, in registers of tensor cores
  friend bool operator==(const ProductShape&, const ProductShape&) = default;
};

struct PhaseShape {
  int64_t length = 0;
  int64_t segments = 1;  // parts of the length of which no block has elements of two
  int64_t fixed = 0;     // values of an element that are the same at every step
  int64_t kept = 0;      // values of an element from step to step
  int64_t loaded = 0;    // a pass before they are needed
  int64_t gathered = 0;  // of what others store
  int64_t reductions = 0;
  int64_t levels = 0;    // of them: exchanges
  int64_t specials = 0;  // of an element: exponentials, quotients and the like
  std::vector<ProductShape> products;
  friend bool operator==(const PhaseShape&, const PhaseShape&) = default;
};

/// `sides`: as in RecurrenceTile.
std::vector<PhaseShape> shapes_of(const Plan& plan, std::span<const FusedLaunch> phases,
                                  std::span<const size_t> sides);

/// By phase: whether its side is unlike those before it. What holds for one holds for those like
/// it.
std::vector<bool> unlike_sides(std::span<const PhaseShape> phases, std::span<const size_t> sides);

}  // namespace rnnc
