/// Lets the recurrences of a network run side by side, each a chunk behind the one it reads from.
///
///     step h0 (dense)                         step h0 (dense)
///     sequence: products of h0         →      sequence, lag 1: products of h0   (of chunk k - 1)
///     step h1 (dense)                         step h1 (dense), lag 1
///
/// A stage gets a lag that is no less than that of any stage it depends on, and one more than that
/// of a recurrence it depends on if it is, or leads to, another recurrence. Recurrences that do not
/// depend on each other have equal lags. Buffers read across lags get a history of a chunk per lag
/// between, and the reads a delay of as much.
#pragma once

#include "ir/plan/plan.h"
#include "passes/options/machine.h"

namespace rnnc {

/// `plan` has its chunk and no lags. True if it has some now. Recurrences that run step by step
/// count, and resident ones where the machine has room for all of a sweep at once; a loop is not
/// worth a lag.
bool run_wavefront(Plan& plan, const Machine& machine = {});

/// The chunk length for calls of up to `max_steps`: long enough that time-parallel launches run at
/// full rate, short enough that the ramp of the wavefront, if one follows, costs little. `plan` has
/// its launches and no lags; its own chunk does not matter. A plan that keeps no chunk of anything
/// in memory gets one chunk.
int64_t choose_chunk(const Plan& plan, int64_t max_steps, bool wavefront, const Machine& machine);

}  // namespace rnnc
