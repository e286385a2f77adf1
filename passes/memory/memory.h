/// Gives the buffers of a finished plan their offsets, so that those which are never in use at the
/// same time share memory.
///
///     b4 products of x: f32 workspace temporary, chunk x 2048, at 0, 4194304 bytes
///     b7 products of y: f32 workspace temporary, chunk x 2048, at 4194304, 4194304 bytes
///   →
///     b7 products of y: f32 workspace temporary, chunk x 2048, at 0, 4194304 bytes
///
/// A buffer lives from the first launch of a wave that writes it to the last that reads it; one
/// that a stage touches which runs step by step, as long as that stage runs; one with a history or
/// of a state, or read by a stage of another lag, through its whole sweep; what Once stages write
/// for others, always. Stages of different lags may run at the same time, and so may neighbouring
/// recurrences that are independent: their buffers share nothing. An elementwise launch without
/// reductions may write in place of what it reads last.
#pragma once

#include "ir/plan/plan.h"

namespace rnnc {

/// Fills `Buffer::offset` and the plan's sizes. Without `reuse` every buffer has memory of its own.
Status assign_memory(Plan& plan, bool reuse);

/// The most bytes that live buffers of the workspace that do not grow with T have together, at any
/// time: no workspace can be smaller. Each counts as rounded up to the alignment.
int64_t live_workspace_bytes(const Plan& plan);

}  // namespace rnnc
