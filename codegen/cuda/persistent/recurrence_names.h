/// The words of which a recurrence kernel's text names its values. Emitters write them with numbers
/// behind; this is where they are told apart, for readers of either.
#pragma once

#include <string_view>

namespace rnnc {

/// Stands before the first kernel of a unit.
inline constexpr std::string_view kRecurrenceNames =
    R"(// ---- Kernels of recurrences. ----
//
// Each goes through all steps of a chunk. A step is a few phases, and a phase is products, which
// need what all blocks have made before, and elementwise work on them.
//
// P is a phase, I one of its products, arguments or instructions:
//
//   group, block     the kernel's blocks are in groups that have rows of the batch to themselves
//                    (from first_row to row_end); this block's group, and its number in that
//   unitP, unit_endP the block's elements of a row; elementP: the thread's first, the block's
//                    number columnP; ownP: how many neighbours of it the thread has
//   sharingP, shared_columnP, blocksP, parity
//                    where blocks share k: the first element of these, the thread's number among
//                    theirs, what they hand to each other of a phase's sums, and which turn of
//                    its barriers it is
//   t, lap          the step; rows are taken as many at a time as a lap has
//   my_row, my_element, my_value
//                    the thread's rows of a lap, elements of a row, and both in one number
//   row              of the batch; inside: whether the thread has anything to do with it
//   weightsP_I       a product's weights, for the life of the block
//   leftP_I          what they are multiplied with: at memoryP_I before the first step, then at
//                    exchangedP_I, where blocks hand it to each other; wordsP_I: its first words,
//                    which are asked for early
//   sumI             a result of products; totalsI: of warps that keep their sums to themselves
//   valueI           what instruction I computes or takes; what that is of the cell stands before
//                    each kernel
//   lastI, beforeI   what was stored last of a state, and the time before that
//   fixedP_I         a value that is the same at every step
//   loadedP_I        on its way for the next lap or step; arrivedI: for this one
//   packedI          an input of the step, some elements at once; copiesP_I: the thread's share of
//                    copying inputs to shared memory, some steps ahead
//   gatheredI        elements of other blocks, where I reductions have been awaited
//   slice_atI, parts_at, gathered_atI
//                    where in a step's part of the exchange states, parts of reductions and what is
//                    gathered lie; first: the side's first array in the launch's list
//   later            where the part of the exchange begins of a step that comes some steps later
)";

}  // namespace rnnc
