#include "ir/plan/recurrence_sides.h"

#include <algorithm>

namespace rnnc {

RecurrenceSide side_at(std::span<const size_t> sides, size_t side, size_t phases) {
  return {sides[side], side + 1 < sides.size() ? sides[side + 1] : phases};
}

size_t side_of(std::span<const size_t> sides, size_t phase) {
  return static_cast<size_t>(std::ranges::upper_bound(sides, phase) - sides.begin()) - 1;
}

int64_t all_blocks(const RecurrenceTile& tile) {
  return std::ssize(tile.sides) * tile.groups * tile.blocks;
}

}  // namespace rnnc
