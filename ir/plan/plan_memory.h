/// Which buffers of a plan lie in the same memory.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "ir/plan/plan.h"

namespace rnnc {

/// The pieces of memory that offsets are relative to. None: the caller's.
enum class MemoryPiece : uint8_t { None, Workspace, PerStep, Program };
MemoryPiece memory_piece(const Buffer& buffer);

/// Calls `visit` with each two buffers whose memory overlaps, the lower number first.
void for_each_overlap(const Plan& plan, const std::function<void(BufferId, BufferId)>& visit);

/// Whose values memory holds, while buffers are written one after the other.
class MemoryOwners {
 public:
  /// `plan` outlives this.
  explicit MemoryOwners(const Plan& plan) : plan_(plan) {}

  /// `id` is written: gives those whose values, or some of them, were where it lies.
  std::vector<BufferId> take(BufferId id);

 private:
  struct Owned {
    int64_t end = 0;
    BufferId owner = kNoBuffer;
  };
  using Piece = std::map<int64_t, Owned>;  // by the first byte; disjoint

  const Plan& plan_;
  std::array<Piece, 4> pieces_;  // by MemoryPiece
};

}  // namespace rnnc
