/// Proves that the states of a step go on by affine maps, and finds these.
///
///     v0 = load          v4 = sub 1, v0        one round over (+, *):
///     h  = load     →    v5 = mul v0, v1         coefficient v4, offset v5
///     n  = add (mul (sub 1, v0), h), (mul v0, v1)
///
/// States that need each other make a round; one that only needs others comes in a later round than
/// these, whose values are then coefficients like any from outside. So a sum that is kept relative
/// to a running maximum is two rounds: one over (max, +), one over (+, *).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/base/status.h"
#include "ir/plan/plan.h"
#include "ir/plan/scan_round.h"

namespace rnnc {

/// Of a step's body: the loads of a state's last value, all of the same, and what is its next one.
struct CarriedState {
  std::vector<uint32_t> loads;
  uint32_t next = 0;
};

struct AffineForms {
  /// The body, and behind it what coefficients and offsets need besides: constants and scalar ops.
  std::vector<Instruction> instructions;
  std::vector<ScanRound> rounds;  // in an order in which none needs a later one
};

/// What is in the way of a proof.
struct NotAffine {
  uint32_t instruction = 0;  // of the body
  std::string why;           // for people: "tanh makes it nonlinear"
};

/// At most kMostProvedStates states, of which at most kMostRoundStates need each other: their forms
/// take the square of their number. The body has no reductions.
tl::expected<AffineForms, NotAffine> find_affine_forms(const std::vector<Instruction>& body,
                                                       const std::vector<CarriedState>& states);
inline constexpr size_t kMostProvedStates = 64;
inline constexpr size_t kMostRoundStates = 16;

}  // namespace rnnc
