/// One weight for a product of several whose results are added up: side by side along k, once a call.
///
///     copy b41 = b12^T, 16 x 16        copy b53[0:256] = b12, 16 x 16; copy b53[256:512] = b11, …
///     copy b42 = b11^T, 16 x 16    →   copy b54 = b53^T, 32 x 16
#pragma once

#include <span>
#include <vector>

#include "ir/plan/plan.h"

namespace rnnc {

/// The weight of one of them: rows of k elements, of an Invariant buffer in the plan's type.
struct SummedWeight {
  Access weight;
  int64_t k = 0;
};

/// A new buffer, [rows, sum of k]. Adds to `once` what fills it, which is for append_once
/// (passes/lower/once_stages.h).
BufferId weights_along_k(Plan& plan, std::span<const SummedWeight> parts, int64_t rows,
                         std::vector<Launch>& once);

/// Copies of weights that no launch reads any more leave the plan.
void remove_unread_copies(Plan& plan);

}  // namespace rnnc
