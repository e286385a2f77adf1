/// Which optimising passes a plan is built with. Every subset gives the same results to rounding.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "ir/base/status.h"

namespace rnnc {

/// In the order in which they run. Lowerings, which every plan needs, are not among them.
enum class Pass : uint8_t {
  Simplify,   // structure.h: views, joins and moves that undo each other
  Fold,       // constant_folding.h
  Cse,        // common_subexpressions.h
  DeadCode,   // dead_code.h
  Hoist,      // what does not depend on a recurrence over all steps of a chunk; else step by step
  Merge,      // products that share an operand, and blocks, in one launch
  Sum,        // products that are added up, without a kernel that adds
  Fuse,       // elementwise work and reductions in few kernels; else one each
  Epilogue,   // elementwise work behind a product of a step in its launch
  Loop,       // a recurrence without products or reductions as one launch per chunk
  Resident,   // one with products too, its weights on the chip (GPUs only)
  Stack,      // layers of these that read each other in one launch, a step apart
  Split,      // f32 products there, and of whole chunks, in parts on tensor cores (split_gemms.h)
  Pad,        // rows of products' operands begin every multiple of 16 bytes (GPUs only)
  Wavefront,  // independent recurrences of a network side by side
  Reroll,     // what loops over arrays were unrolled to is loops again (reroll.h)
  Reuse,      // memory of values that are no longer needed
};
inline constexpr int kPassCount = 17;

struct PassInfo {
  Pass pass;
  std::string_view name;     // "simplify", as on the command line
  std::string_view summary;  // for people: one line
};
/// All of them, in order.
std::span<const PassInfo> all_passes();

class PassSet {
 public:
  /// What is on unless said otherwise.
  static constexpr PassSet all() { return PassSet((1U << kPassCount) - 1); }
  static constexpr PassSet none() { return PassSet(0); }
  /// "all", "none", or names with commas between: "hoist,merge" is just these, "-merge,-fuse" all
  /// but these. The error names the word that is no pass and lists those there are.
  static Result<PassSet> parse(std::string_view text);

  constexpr bool has(Pass pass) const { return (bits_ >> static_cast<unsigned>(pass) & 1U) != 0; }
  constexpr PassSet with(Pass pass) const { return PassSet(bits_ | bit(pass)); }
  constexpr PassSet without(Pass pass) const { return PassSet(bits_ & ~bit(pass)); }
  /// Names with commas between, "all" or "none"; `parse` takes it back.
  std::string to_string() const;
  friend constexpr auto operator<=>(const PassSet&, const PassSet&) = default;

 private:
  constexpr explicit PassSet(uint32_t bits) : bits_(bits) {}
  static constexpr uint32_t bit(Pass pass) { return 1U << static_cast<unsigned>(pass); }
  uint32_t bits_;
};

}  // namespace rnnc
