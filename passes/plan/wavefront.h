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

#include <functional>

#include "ir/plan/plan.h"
#include "passes/options/machine.h"

namespace rnnc {

/// `plan` has its chunk and no lags. True if it has some now. Recurrences that run step by step
/// count, and resident ones where the machine has room for all of a sweep at once; a loop is not
/// worth a lag.
bool run_wavefront(Plan& plan, const Machine& machine = {});

/// The same for any chunk: the plan that a chunk of so many steps makes of it. None where there is
/// no wavefront.
using WavefrontOfChunk = std::function<Plan(int64_t chunk)>;
WavefrontOfChunk find_wavefront(const Plan& plan, const Machine& machine);

}  // namespace rnnc
