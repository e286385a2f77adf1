/// Makes the work of a recurrence's step phases, which one launch over all steps can do: each group
/// is a kernel, with the products whose results it takes or stores.
///
///     product p = R h                                  kernel { m = mean(p); h = tanh(p - m) }
///     kernel { m = mean(p); h = tanh(p - m) }    →       of p = R h
///     product q = S h                                  kernel { } of q = S h, which it stores
///
/// In a launch of its own a kernel takes no products if it reduces (passes/schedule/epilogues.h):
/// there blocks do not wait for each other.
#pragma once

#include "passes/schedule/schedule.h"

namespace rnnc {

/// Of a Step stage, behind all other passes over it. Stages with moves stay as they are.
void form_phases(const Graph& graph, Schedule& schedule, uint32_t stage);

}  // namespace rnnc
