/// Moves values to the kernels that use them, so that fewer are stored and loaded.
///
///     kernel { z = sigmoid(a); s = r * h }         kernel { s = r * h }
///     product p = R s                        →     product p = R s
///     kernel { h' = z * h + (1 - z) * p }          kernel { z = sigmoid(a); h' = … }
#pragma once

#include "passes/schedule/schedule.h"

namespace rnnc {

void sink_values(const Graph& graph, const Values& values, ScheduledStage& stage);

}  // namespace rnnc
