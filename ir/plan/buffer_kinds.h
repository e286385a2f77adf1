/// Whose a plan's buffer is, and what its rows are (ir/plan/plan.h).
#pragma once

#include <cstddef>
#include <cstdint>

namespace rnnc {

/// Who owns a buffer's memory.
enum class Placement : uint8_t {
  Caller,     // a pointer of the call: input, param, output, initial or final state
  Workspace,  // in the caller's workspace, at `offset`; holds nothing between calls
  Program,  // in memory of the program's own, at `offset`; its address never changes. Of these only
            // what Once stages write is kept between calls, and pads
};

/// Of the caller's arrays, and what the caller has none of.
/// A Result is what is left after all steps.
enum class Role : uint8_t { Input, Param, Output, InitialState, FinalState, Result, Temporary };
inline constexpr size_t kCallerRoles = static_cast<size_t>(Role::Temporary);

/// How many rows of `width` elements a buffer has, and which row belongs to (t, b).
enum class Extent : uint8_t {
  Invariant,  // 1 row, the same for every t and b
  Batch,      // B rows: row b. Used by Step launches, carries of loops, recurrences, state
              // launches and Last launches only
  Steps,      // T * B rows: row t * B + b. The caller's sequences, and values across sweeps
  Chunk,      // (history + C) * B rows: row (t - t0 + history) * B + b
};

}  // namespace rnnc
