/// Parts histories to which a step adds in several places, as adjoints of such do that are read in
/// several (passes/graph/histories.h): what is in front of each of these goes on as a state of its
/// own, whose last element falls to the next one. Each part has one new element, and so may lie
/// still.
///
///     state h@adjoint: [90, H]              state h@adjoint: [40, H]
///     %0 = state h@adjoint @ 1 : [90, H]    state h@adjoint.40: [50, H]
///     %1 = slice %0 from 0 to 89 : …        %0 = state h@adjoint @ 1 : [40, H]
///     %2 = stack %a : [1, H]                %1 = state h@adjoint.40 @ 1 : [50, H]
///     %3 = concat %2, %1 : [90, H]     →    %2 = index %0 at 39 : [H]
///     %4 = stack %b : [1, H]                %3 = add %2, %b : [H]
///     %5 = concat %z, %4, %y : [90, H]      next h@adjoint = (%a before its own first 39)
///     %6 = add %3, %5 : [90, H]             next h@adjoint.40 = (%3 before its own first 49)
///     next h@adjoint = %6
///
/// %z and %y are zeros. Masks of lengths and resets go with what they mask. A state stays whole
/// where it does anything else with its elements, does not start as zero, or would have parts of
/// less than two elements on average: all of them are moved then, or nearly so, whatever has them.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/graph/graph.h"

namespace rnnc {

/// What a state has of the caller's array: of its own, or of that of the state `of`.
struct StatePart {
  uint32_t of = 0;
  int64_t before = 0;       // elements in the array before its own
  int64_t after = 0;        // and behind them
  NodeId newest = kNoNode;  // of a part: what is new in it
  int64_t count = 1;        // and how many steps it has
  bool is_hidden = false;   // and whether resets hide what it has

  bool is_part() const { return newest != kNoNode; }
};

/// Of each state; those that parts begin are behind all that there were. What reads a state's last
/// value (`Op::Final`) reads all of its parts. Needs a bound Graph after the pipeline.
std::vector<StatePart> part_histories(Graph& graph);

}  // namespace rnnc
