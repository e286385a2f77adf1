/// Does products of a step and the elementwise work on their results in one launch, so that the
/// results never lie in memory.
///
///     product p|q = (R|S) h
///     kernel { r = sigmoid(a + p); s = r * h }        kernel { r = …; s = … } of p = R h
///     product u = T s                            →    kernel { z = …; h' = … } of u = T s, q = S h
///     kernel { z = sigmoid(b + q); h' = z + u }
///
/// A merged product whose results go to different kernels comes apart, and one of which a kernel
/// has no room for all.
#pragma once

#include "passes/schedule/schedule.h"

namespace rnnc {

/// With more rows than this a library's product is faster on a CPU: it cuts the result into tiles
/// of rows and columns, a product with its epilogue goes through all rows beside each tile of
/// weights.
inline constexpr int64_t kMostEpilogueRows = 256;

void fuse_epilogues(const Graph& graph, const Values& values, ScheduledStage& stage);

}  // namespace rnnc
