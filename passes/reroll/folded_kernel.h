/// A kernel with loops as one without: what all turns of a loop do is an instruction, over the
/// arrays that they go through, so that what is alike in several loops can be found as in kernels
/// without any.
///
///     loop 64:                               %0 = load a0        all 64 elements
///       %1 = carried %0, %4                  %1 = load a1
///       %2 = load a0                         %2 = mul %0, %1
///       %3 = load a1                 →       %3 = last %9, %2    chain 0, from %9 on
///       %4 = mul %2, %3
///       %5 = add %1, %4
///     end
///     %6 = last %1
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ir/plan/plan.h"

namespace rnnc {

/// The turns that an instruction does together.
struct Turns {
  bool descending = false;
  int64_t count = 0;
  friend auto operator<=>(const Turns&, const Turns&) = default;
};

/// What a loop makes of a value from turn to turn: of each step's operands one is the value.
struct LoopChain {
  struct Step {
    Op op = Op::Add;
    bool swapped = false;  // the value is the second operand
    friend bool operator==(const Step&, const Step&) = default;
  };
  Turns turns;
  bool vector = false;
  std::vector<Step> steps;
  friend bool operator==(const LoopChain&, const LoopChain&) = default;
};

struct FoldedKernel {
  Kernel kernel;                            // without loops; Last is a chain over its operands
  std::vector<std::optional<Turns>> turns;  // by instruction, of what is an array itself
  std::vector<LoopChain> chains;            // by `argument` of Last
};

/// `kernel` has no loops in loops.
FoldedKernel fold_loops(const Kernel& kernel);

/// Such a kernel with loops around some of its instructions, with those loops that were folded in
/// them. `origins`: by instruction, the one of `folded` that it is like. Nothing if a loop would
/// take what another one has made at turns that a kernel does not tell apart.
std::optional<Kernel> unfold_loops(const Kernel& kernel, const FoldedKernel& folded,
                                   const std::vector<std::optional<uint32_t>>& origins,
                                   const std::vector<LoopCarry>& carries);

}  // namespace rnnc
