/// Products with launches of their own as products of the phases whose kernels load their results.
///
///     gemm b8 = b0 @ b4^T, n 32, k 8                 (gone)
///     fused k0(product, b8, b3)                 →    fused k1(product, b3)
///       a0 += b7[t-1] @ b5^T, k 8                      a0 += b0 @ b4^T, k 8
///                                                      a0 += b7[t-1] @ b5^T, k 8
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "ir/plan/plan.h"

namespace rnnc {

/// Whether the stage's products may become a phase's.
bool is_time_parallel(const Stage& stage);

class PhaseProducts {
 public:
  /// False if it cannot be one: its weight has a stride, or it adds to the results of another.
  bool add(const GemmLaunch& gemm);

  bool empty() const { return products_.empty(); }

  /// Whether the buffer has their results.
  bool make(BufferId buffer) const;

  /// A phase's products have weights by rows of k: gives these such, in buffers of their own, and
  /// what fills them once (passes/lower/once_stages.h).
  std::vector<Launch> turn_weights(Plan& plan);

  /// The phases with these among their products. None if one loads of the results what cannot be a
  /// result of its own.
  std::optional<std::vector<FusedLaunch>> as_products_of(Plan& plan,
                                                         std::span<const FusedLaunch> phases) const;

 private:
  std::vector<std::vector<GemmLaunch>> products_;  // those that are added up together
};

}  // namespace rnnc
