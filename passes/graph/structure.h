/// Simplifies how values are cut up, put together, turned and spread, so that what is left of it
/// reads from and writes to memory and no copy stands between two computations.
///
///     %2 = matmul %0, %1 : [8]                  %2 = matmul %0, %1 : [8]
///     %3 = sigmoid %2 : [8]              →      %3 = slice %2 from 0 to 4 : [4]
///     %4 = slice %3 from 0 to 4 : [4]           %4 = sigmoid %3 : [4]
///     %5 = slice %3 from 4 to 8 : [4]           %5 = slice %2 from 4 to 8 : [4]
///                                               %6 = sigmoid %5 : [4]
///
/// - Slices and indices go through elementwise values that are read only in disjoint pieces, and
///   come to rest on inputs, params, states, products and reductions.
/// - What takes one piece of a `concat` or `stack` takes it from where it came from; a product with
///   a matrix, or with some joined by `concat`, that is read piece by piece is a product for each.
/// - A `reverse` of values that were reversed already goes through elementwise values and joins to
///   where both end: each one less may save a sweep over the sequence.
/// - Elementwise ops take the scalar itself for a `broadcast` of it.
/// - Of what undoes itself or does nothing only the operand stays: whole slices, joins of one or of
///   neighbouring slices, `transpose` twice or beside a vector, `reverse` twice or of an invariant.
#pragma once

#include "ir/graph/graph.h"

namespace rnnc {

/// Needs a verified Graph without symbolic dims. True if something was simplified.
bool run_structure(Graph& graph);

}  // namespace rnnc
