/// What the elementwise launches of a kernel have in common.
#pragma once

#include <initializer_list>
#include <optional>
#include <vector>

#include "ir/plan/plan.h"

namespace rnnc {

struct KernelTraits {
  /// Elements, of 16 bytes at most: rows of all vector arguments begin at multiples of it.
  int packet = 1;
  /// Elements of a thread, neighbours that it loads at once, where the kernel has no reductions: 1
  /// or the packet, as far as it divides the length.
  int items = 1;
  /// Elements of a thread, a block's threads apart from one another, where `items` is 1. With one
  /// of each, threads of rows that have no packets wait for memory most of the time.
  int spread = 1;
  int of_thread() const { return items * spread; }
  /// By argument: may be aligned to its elements only, as the caller's arrays are.
  std::vector<bool> unaligned;
  /// By argument: lies where no launch of a Step stage writes. So a launch in a graph of Step
  /// stages may load it before the launches before it have ended.
  std::vector<bool> fixed;
};
inline constexpr int kMostPacket = 8;  // of 16-bit elements
/// Words that a thread may hold in registers while many others stand beside it.
inline constexpr int64_t kFewValues = 32;

/// How many bytes, up to 16, may be copied at once at multiples of all of these counts of elements.
int copy_bytes(const Buffer& buffer, std::initializer_list<int64_t> elements);

/// By buffer: whether a launch of a Step stage writes it, or memory that it shares with another.
std::vector<bool> written_by_steps(const Plan& plan);

/// By kernel; none where no launch runs it as it stands: the kernels of fused and loop launches are
/// parts of others.
std::vector<std::optional<KernelTraits>> kernel_traits(const Plan& plan);

}  // namespace rnnc
