// 1. Find kernels that only store what they load.
// 2. What one of them loads of a buffer that a single product or launch of rows writes, all of it,
//    and that nothing else touches, that launch writes itself; the load and the store go. It comes
//    where the kernel was: who else reads what that stores comes after it.
// 3. A kernel without a load goes.
#include "passes/plan/direct_stores.h"

#include <algorithm>
#include <optional>

#include "ir/plan/buffer_uses.h"
#include "passes/lower/unused_buffers.h"

namespace rnnc {
namespace {

using Kind = Instruction::Kind;

class DirectStores {
 public:
  DirectStores(Plan& plan, bool products) : plan_(plan), products_(products), uses_(plan) {}

  bool run() {
    bool changed = false;
    for (size_t s = 0; s < plan_.stages.size(); ++s) {
      Stage& stage = plan_.stages[s];
      if (!is_of_sweeps(stage.domain)) continue;
      for (size_t i = 0; i < stage.launches.size(); ++i) {
        const std::optional<size_t> writer = writer_for(s, i);
        if (!writer) continue;
        const Access out = std::get<ElementwiseLaunch>(stage.launches[i]).accesses[1];
        Launch launch = stage.launches[*writer];
        if (auto* gemm = std::get_if<GemmLaunch>(&launch)) gemm->out = out;
        if (auto* rows = std::get_if<RowsLaunch>(&launch)) rows->target = out;
        stage.launches[i] = std::move(launch);
        stage.launches.erase(stage.launches.begin() + static_cast<std::ptrdiff_t>(*writer));
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

  /// The launch of the stage that can write what its launch `i` stores.
  std::optional<size_t> writer_for(size_t stage_index, size_t i) const {
    const Stage& stage = plan_.stages[stage_index];
    const auto* copy = std::get_if<ElementwiseLaunch>(&stage.launches[i]);
    if (copy == nullptr || !is_copy(plan_.kernels[copy->kernel])) return {};
    for (size_t j = 0; j < i; ++j) {
      const LaunchPlace both[] = {{stage_index, j}, {stage_index, i}};
      if (can_write(stage.launches[j], *copy) && uses_.are_of(copy->accesses[0].buffer, both) &&
          can_wait(stage, j, i)) {
        return j;
      }
    }
    return {};
  }

  /// Whether the launch writes all that is copied, and only that.
  bool can_write(const Launch& launch, const ElementwiseLaunch& copy) const {
    const Access& from = copy.accesses[0];
    const int64_t length = plan_.kernels[copy.kernel].length;
    const DType made = plan_.buffers[from.buffer].dtype;
    const DType stored = plan_.buffers[copy.accesses[1].buffer].dtype;
    if (const auto* rows = std::get_if<RowsLaunch>(&launch)) {
      return rows->target == from && rows->width == length && stored == made;
    }
    const auto* gemm = std::get_if<GemmLaunch>(&launch);
    const DType wide = compute_type(plan_.dtype);
    return gemm != nullptr && products_ && gemm->out == from && !gemm->accumulate &&
           gemm->n * gemm->blocks * gemm->repeats == length && made == wide &&
           (stored == plan_.dtype || stored == wide);
  }

  /// Whether what launch `writer` reads is still there when its result is stored.
  bool can_wait(const Stage& stage, size_t writer, size_t until) const {
    TouchedBuffers early;
    early.add(plan_, stage.launches[writer]);
    for (size_t i = writer + 1; i < until; ++i) {
      TouchedBuffers between;
      between.add(plan_, stage.launches[i]);
      const auto overwrites = [&](BufferId buffer) { return between.written.contains(buffer); };
      if (std::ranges::any_of(early.read, overwrites)) return false;
    }
    return true;
  }

  Plan& plan_;
  const bool products_;
  BufferUses uses_;
};

}  // namespace

bool run_direct_stores(Plan& plan, bool products) {
  return DirectStores(plan, products).run();
}

}  // namespace rnnc
