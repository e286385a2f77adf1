// 1. Find the copies of earlier steps all of whose readers are totals that may read the caller's
//    array in their stead: as rows, and of no pad.
// 2. These do so, and the copies go.
#include "passes/plan/earlier_totals.h"

#include <algorithm>
#include <vector>

#include "ir/plan/buffer_uses.h"
#include "passes/lower/unused_buffers.h"
#include "passes/plan/wider_rows.h"

namespace rnnc {
namespace {

class EarlierTotals {
 public:
  explicit EarlierTotals(Plan& plan) : plan_(plan), uses_(plan) {}

  bool run() {
    bool changed = false;
    for (const Stage& stage : plan_.stages) {
      for (const Launch& launch : stage.launches) {
        const auto* copy = std::get_if<EarlierLaunch>(&launch);
        if (copy != nullptr && read_in_place(*copy)) changed = true;
      }
    }
    if (changed) remove_unread_earlier_steps(plan_);
    return changed;
  }

 private:
  bool read_in_place(const EarlierLaunch& copy) {
    if (!uses_.only_writer(copy.target.buffer) || !is_as_aligned(copy)) return false;
    std::vector<TotalLaunch*> totals;
    for (const BufferUse& use : uses_.of(copy.target.buffer)) {
      if (use.write) continue;
      TotalLaunch* const total = use.place ? total_at(*use.place) : nullptr;
      if (total == nullptr || !can_read(*total, copy)) return false;
      totals.push_back(total);
    }
    for (TotalLaunch* const total : totals) {
      const int64_t column = total->right.column - copy.target.column;
      total->right = copy.source;
      total->right.column += column;
      total->earlier = true;
    }
    return !totals.empty();
  }

  TotalLaunch* total_at(LaunchPlace place) {
    return std::get_if<TotalLaunch>(&plan_.stages[place.stage].launches[place.launch]);
  }

  static bool can_read(const TotalLaunch& total, const EarlierLaunch& copy) {
    const Access& right = total.right;
    const int64_t begin = right.column - copy.target.column;
    return right.buffer == copy.target.buffer && total.left.buffer != right.buffer &&
           right.delay == 0 && !total.turned && !total.in_parts && begin >= 0 &&
           begin + total.blocks * total.n <= copy.width;
  }

  /// Whether rows of the source are aligned, or those of the copy are not either.
  bool is_as_aligned(const EarlierLaunch& copy) const {
    const auto element = static_cast<int64_t>(size_of(plan_.buffers[copy.source.buffer].dtype));
    const auto is_aligned = [&](const Access& access) {
      return access.stride * element % kAlignedRowBytes == 0 &&
             access.column * element % kAlignedRowBytes == 0;
    };
    return copy.source.delay == 0 && copy.target.delay == 0 &&
           (is_aligned(copy.source) || !is_aligned(copy.target));
  }

  Plan& plan_;
  const BufferUses uses_;  // as they were
};

}  // namespace

bool run_earlier_totals(Plan& plan, const Machine& machine) {
  if (machine.kind != Machine::Kind::Cuda) return false;
  return EarlierTotals(plan).run();
}

}  // namespace rnnc
