/// Writes the product of two vectors as a sum, so that it fuses with the elementwise work around
/// it.
///
///     %2 = matmul %0, %1 : []    →      %2 = mul %0, %1 : [H]
///                                       %3 = sum %2 : []
///
/// Needs a verified Graph; leaves products with a matrix alone.
#pragma once

#include "ir/graph/graph.h"

namespace rnnc {

/// True if there was one.
bool run_dot_products(Graph& graph);

}  // namespace rnnc
