/// Whether a GPU's products are done by a library or by kernels of rnnc's own, which are launched
/// as one for many layers (runtime/cuda/rounds.h), and begin while what is before them ends.
#pragma once

#include "ir/plan/plan.h"

namespace rnnc {

/// Of the batch: above, a library's products are the faster ones.
inline constexpr int64_t kMostOwnProductRows = 32;

/// Sets GemmLaunch::own of a plan that has its launches: of products step by step of few rows, as
/// far as such a kernel can do them.
void choose_own_products(Plan& plan);

}  // namespace rnnc
