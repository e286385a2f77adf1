/// Adds products up as they are computed, where nothing else reads them.
///
///     product p|q = (R|S) h                      product p|q = (R|S) h
///     product u|v = (T|U) c               →      product p|q += (T|U) c
///     kernel { a = p + u; b = q + v; … }         kernel { … of p, q }
///
/// Products in a kernel's own launch (passes/schedule/epilogues.h) add up in its registers. Merged
/// products do only if they line up, member by member.
#pragma once

#include "passes/schedule/schedule.h"

namespace rnnc {

void sum_products(const Graph& graph, const Values& values, ScheduledStage& stage);

}  // namespace rnnc
