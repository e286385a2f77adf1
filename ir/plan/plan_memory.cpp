#include "ir/plan/plan_memory.h"

#include <algorithm>
#include <iterator>

namespace rnnc {
namespace {

int64_t end_of(const Plan& plan, const Buffer& buffer) {
  return buffer.offset + byte_size(plan, buffer);
}

}  // namespace

MemoryPiece memory_piece(const Buffer& buffer) {
  switch (buffer.placement) {
    case Placement::Workspace:
      return buffer.extent == Extent::Steps ? MemoryPiece::PerStep : MemoryPiece::Workspace;
    case Placement::Program:
      return MemoryPiece::Program;
    case Placement::Caller:
      break;
  }
  return MemoryPiece::None;
}

void for_each_overlap(const Plan& plan, const std::function<void(BufferId, BufferId)>& visit) {
  struct Range {
    MemoryPiece piece = MemoryPiece::None;
    int64_t begin = 0;
    int64_t end = 0;
    BufferId id = kNoBuffer;
    auto operator<=>(const Range&) const = default;
  };
  std::vector<Range> ranges;
  for (BufferId id = 0; id < plan.buffers.size(); ++id) {
    const Buffer& buffer = plan.buffers[id];
    const MemoryPiece piece = memory_piece(buffer);
    if (piece != MemoryPiece::None) {
      ranges.push_back({piece, buffer.offset, end_of(plan, buffer), id});
    }
  }
  std::ranges::sort(ranges);
  for (auto first = ranges.begin(); first != ranges.end(); ++first) {
    for (auto second = std::next(first); second != ranges.end(); ++second) {
      if (second->piece != first->piece || second->begin >= first->end) break;
      visit(std::min(first->id, second->id), std::max(first->id, second->id));
    }
  }
}

std::vector<BufferId> MemoryOwners::take(BufferId id) {
  const Buffer& buffer = plan_.buffers[id];
  const MemoryPiece of = memory_piece(buffer);
  if (of == MemoryPiece::None) return {};
  Piece& piece = pieces_[static_cast<size_t>(of)];
  const int64_t begin = buffer.offset;
  const int64_t end = end_of(plan_, buffer);
  std::vector<BufferId> lost;
  auto next = piece.upper_bound(begin);
  if (next != piece.begin() && std::prev(next)->second.end > begin) --next;
  while (next != piece.end() && next->first < end) {
    const auto [first, owned] = *next;
    if (owned.owner != id) lost.push_back(owned.owner);
    piece.erase(next);
    if (first < begin) piece[first] = {begin, owned.owner};
    if (owned.end > end) piece[end] = owned;
    next = piece.lower_bound(begin);
  }
  piece[begin] = {end, id};
  return lost;
}

}  // namespace rnnc
