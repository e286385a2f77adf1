/// Finds which recurrences may make products over all steps their own: those whose results nothing
/// but kernels of recurrences reads.
///
///     sequence: product p = W x                     p: read by h
///               product q = V x
///               kernel y = relu(q)          →
///     step h: kernel h = tanh(p + q + R h[t-1])
#pragma once

#include "passes/schedule/schedule.h"

namespace rnnc {

/// Sets `product_readers` of a schedule that is complete but for that.
void find_product_readers(const Graph& graph, Schedule& schedule);

}  // namespace rnnc
