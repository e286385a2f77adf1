/// Instructions of a kernel that do the same to neighbouring elements of arrays: what the
/// iterations of a loop have left of it once it is unrolled.
///
///     %0 = load b3[0:64]       %1 = load b3[64:128]        %2 = load b3[128:192]
///     %3 = load b5[0:1]        %4 = load b5[1:2]           %5 = load b5[2:3]
///     %6 = mul %0, %3          %7 = mul %1, %4             %8 = mul %2, %5        a family
///     %9 = add %20, %6         %10 = add %9, %7            %11 = add %10, %8      one that is a
///     sum
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ir/plan/plan.h"

namespace rnnc {

/// Where an instruction stands among those like it: loads and stores of a buffer by where they
/// touch it, others by what they take.
struct KernelPlace {
  int64_t kind = -1;  // of instruction; -1: it is like no other
  int64_t position = 0;
};

/// Instructions of one kind at `begin`, `begin` + 1, …: scalar ops, or stores.
///
/// Or a chain, in which each takes what is before it: for each position, from the first to the last
/// or the other way, `steps` instructions
///
///     value = its op(value, operand at the position + its offset)
struct KernelFamily {
  struct Step {
    int64_t kind = 0;  // of the operand
    int64_t offset = 0;
    bool swapped = false;  // the operand comes first
  };
  int64_t kind = 0;
  int64_t begin = 0;
  std::vector<uint32_t> members;  // by position; of a chain all, in their order
  // Of a chain:
  std::vector<Step> steps;
  bool descending = false;
  uint32_t initial = 0;                // the instruction before the first…
  std::optional<double> neutral = {};  // …or this number; there is one member less then

  bool is_chain() const { return !steps.empty(); }
  int64_t count() const {
    const int64_t all = std::ssize(members) + (neutral ? 1 : 0);
    return is_chain() ? all / std::ssize(steps) : all;
  }
};

/// Families do not overlap. What they take of each other they take whole: where one takes another
/// at some offset, their positions are the same but for that. Of chains all others take the last
/// value. Whatever is in no family, and the initial values of chains, take loads only that are of
/// no carry, and what is in no family.
struct KernelFamilies {
  std::vector<KernelFamily> families;     // in an order in which they can be computed
  std::vector<KernelPlace> places;        // by instruction
  std::vector<std::optional<size_t>> of;  // by instruction: its family
  /// Whether the instruction is taken at its place, as one of many; else by itself.
  bool is_place(uint32_t id) const {
    if (places[id].kind < 0) return false;
    return !of[id] || !families[*of[id]].is_chain();
  }
};

/// Of a loop around loops.
inline constexpr int64_t kLeastOuterTurns = 4;

struct FamilyOptions {
  int64_t least = 8;  // positions
  /// By argument that is stored, not below 0 if it may lie anywhere, behind others of its form.
  const std::vector<int64_t>* forms = nullptr;
  /// Where each element of one array meets each of another, families are of one of them only, so
  /// that what is alike in them is what the turns of a loop around have left (loop_nests.h).
  bool nests = false;
};

/// Those of a kernel without loops. Carries are those of a LoopLaunch: what is loaded of them in
/// families, families store, and the other way. Of arguments that are arrays a position is a whole
/// array; a Last stands for a chain over its operands, the initial value first, whose steps its
/// `argument` numbers.
KernelFamilies find_families(const Kernel& kernel, const std::vector<Access>& accesses,
                             const std::vector<LoopCarry>& carries, const FamilyOptions& options);

}  // namespace rnnc
