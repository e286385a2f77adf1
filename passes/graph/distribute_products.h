/// Distributes products of a recurrence over the parts of their vector of which only some are its own,
/// so that the others need not wait for it.
///
///     %3 = concat %x, %h : [I + H]                %3 = transpose %W : [I + H, N]
///     %4 = matmul %W, %3 : [N]             →      %4 = slice %3 from 0 to I : [I, N]
///                                                 %5 = matmul %x, %4 : [N]
///                                                 %6 = slice %3 from I to I + H : [H, N]
///                                                 %7 = matmul %h, %6 : [N]
///                                                 %8 = add %5, %7 : [N]
///
/// The weights are turned once per call; those of `matmul %3, %W` are cut as they are. And where a
/// sequence begins anew, the choice is between products:
///
///     %3 = where %r, %init, %h : [H]              %3 = matmul %W, %init : [N]
///     %4 = matmul %W, %3 : [N]             →      %4 = matmul %W, %h : [N]
///                                                 %5 = where %r, %3, %4 : [N]
#pragma once

#include "ir/graph/graph.h"

namespace rnnc {

/// Needs a verified Graph without symbolic dims and delays. Leaves unused nodes to `dead_code`.
/// True if a product was taken apart.
bool run_distribute_products(Graph& graph);

}  // namespace rnnc
