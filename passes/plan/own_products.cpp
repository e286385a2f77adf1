#include "passes/plan/own_products.h"

#include "ir/base/launch_limits.h"

namespace rnnc {

void choose_own_products(Plan& plan) {
  for (Stage& stage : plan.stages) {
    for (Launch& launch : stage.launches) {
      auto* gemm = std::get_if<GemmLaunch>(&launch);
      if (gemm == nullptr) continue;
      gemm->own = stage.domain == Domain::Step && !gemm->transposed && !gemm->tf32 &&
                  gemm->weight.stride == 0 && plan.batch <= kMostOwnProductRows &&
                  gemm->repeats <= kMostResults;
    }
  }
}

}  // namespace rnnc
