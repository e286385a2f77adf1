/// A Plan from its text form: `parse_plan(to_string(plan))` is the plan again, each field of it.
///
///     plan Elman: f32, batch 2, chunk 4
///     memory: workspace 1024 bytes, program 0 bytes
///     buffers:
///       b0 x: f32 caller input, steps x 3, slot 0
///       b1 W: f32 caller param, invariant x 12, slot 0
///       b2 h: f32 workspace temporary, chunk x 4, history 1, at 0, 160 bytes
///     kernels:
///       k0 elementwise_0: rows of 4
///         a0: in f32 vector
///         a1: out f32 vector
///         %0 = load a0 : vector
///         %1 = tanh %0 : vector
///         store a1, %1
///     stages:
///       step h (dense), sweep 1, lag 2:
///         because "h is mixed by `matmul`", 1 phase
///         k0(b2[t-1], b2)
///     states:
///       h:
///         given: …
///
/// What launches look like: ir/plan/launches/define_launch_kind.h. Of a row `b2[t-1, 64:128, stride 8]`, what
/// is left out is as usual: this step, the whole row without its pad, and rows as far apart as the
/// buffer's are (in Invariant buffers: none but one). Where names could be misunderstood they stand
/// in quotes. Left out may also be `memory`, each section without entries, and where buffers lie
/// (`at 0, 160 bytes`, which is checked where it is given). `#` starts a comment.
#pragma once

#include <string_view>

#include "ir/plan/plan.h"

namespace rnnc {

/// Reads any bytes without crashing; errors are "line 3, column 7: expected …". What comes back is
/// well-formed text, ids in range, not yet a verified Plan.
Result<Plan> parse_plan(std::string_view text);

}  // namespace rnnc
