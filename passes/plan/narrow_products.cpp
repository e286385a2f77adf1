// 1. Find kernels that only store what they load.
// 2. What one of them loads of a buffer that a single product writes, all of it, and that nothing
//    else touches, the product writes itself; the load and the store go. The product comes where
//    the kernel was: who else reads what that stores comes after it.
// 3. A kernel without a load goes.
#include "passes/plan/narrow_products.h"

#include <algorithm>
#include <optional>

#include "ir/plan/buffer_uses.h"
#include "ir/plan/plan_touches.h"
#include "passes/lower/unused_buffers.h"

namespace rnnc {
namespace {

using Kind = Instruction::Kind;

class NarrowProducts {
 public:
  explicit NarrowProducts(Plan& plan) : plan_(plan), uses_(plan) {}

  bool run() {
    bool changed = false;
    for (size_t s = 0; s < plan_.stages.size(); ++s) {
      Stage& stage = plan_.stages[s];
      if (!is_of_sweeps(stage.domain)) continue;
      for (size_t i = 0; i < stage.launches.size(); ++i) {
        const std::optional<size_t> product = product_of(s, i);
        if (!product) continue;
        const Access out = std::get<ElementwiseLaunch>(stage.launches[i]).accesses[1];
        GemmLaunch gemm = std::get<GemmLaunch>(stage.launches[*product]);
        gemm.out = out;
        stage.launches[i] = gemm;
        stage.launches.erase(stage.launches.begin() + static_cast<std::ptrdiff_t>(*product));
        --i;
        uses_ = BufferUses(plan_);
        changed = true;
      }
    }
    if (changed) remove_unused_temporaries(plan_);
    return changed;
  }

 private:
  /// Whether the kernel stores its first argument as its second, and does nothing else.
  static bool is_copy(const Kernel& kernel) {
    const std::vector<Instruction>& body = kernel.body;
    return kernel.arguments.size() == 2 && body.size() == 2 && body[0].kind == Kind::Load &&
           body[0].argument == 0 && body[1].kind == Kind::Store && body[1].argument == 1 &&
           kernel.arguments[0].vector && kernel.arguments[1].vector;
  }

  /// The product of the stage that can write what its launch `i` stores.
  std::optional<size_t> product_of(size_t stage_index, size_t i) const {
    const Stage& stage = plan_.stages[stage_index];
    const auto* copy = std::get_if<ElementwiseLaunch>(&stage.launches[i]);
    if (copy == nullptr || !is_copy(plan_.kernels[copy->kernel])) return {};
    const int64_t length = plan_.kernels[copy->kernel].length;
    const Access& from = copy->accesses[0];
    const Access& to = copy->accesses[1];
    const DType wide = compute_type(plan_.dtype);
    const DType stored = plan_.buffers[to.buffer].dtype;
    const bool can_write =
        plan_.buffers[from.buffer].dtype == wide && (stored == plan_.dtype || stored == wide);
    if (!can_write) return {};
    for (size_t j = 0; j < i; ++j) {
      const auto* gemm = std::get_if<GemmLaunch>(&stage.launches[j]);
      const bool writes_it = gemm != nullptr && gemm->out == from && !gemm->accumulate &&
                             gemm->n * gemm->blocks * gemm->repeats == length;
      const LaunchPlace both[] = {{stage_index, j}, {stage_index, i}};
      if (writes_it && uses_.are_of(from.buffer, both) && can_wait(stage, j, i)) return j;
    }
    return {};
  }

  /// Whether what the product reads is still there when its result is stored.
  bool can_wait(const Stage& stage, size_t product, size_t until) const {
    const auto& gemm = std::get<GemmLaunch>(stage.launches[product]);
    for (size_t i = product + 1; i < until; ++i) {
      const bool overwrites =
          std::ranges::any_of(touches(plan_, stage.launches[i]), [&](const Touch& touch) {
            return touch.write && (touch.access.buffer == gemm.left.buffer ||
                                   touch.access.buffer == gemm.weight.buffer);
          });
      if (overwrites) return false;
    }
    return true;
  }

  Plan& plan_;
  BufferUses uses_;
};

}  // namespace

bool run_narrow_products(Plan& plan) {
  return NarrowProducts(plan).run();
}

}  // namespace rnnc
