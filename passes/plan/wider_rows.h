/// What passes that pad rows do to a plan: wider buffers, copies of sequences in wider rows, and
/// launches in front of others.
#pragma once

#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "ir/plan/buffer_uses.h"
#include "ir/plan/plan.h"
#include "passes/cost/cost.h"
#include "passes/options/machine.h"

namespace rnnc {

/// Rows on a GPU begin at multiples of so many bytes, or it loads them element by element.
inline constexpr int64_t kAlignedRowBytes = 16;

/// Accesses keep their strides, and stages their launches, until `finish`.
class WiderRows {
 public:
  WiderRows(Plan& plan, const Machine& machine, int64_t max_steps);

  /// Adds a pad up to the next multiple of so many elements.
  void widen(BufferId id, int64_t unit);
  bool is_wider(BufferId id) const { return wider_.contains(id); }

  /// Whether a copy of `length` elements of each row of a chunk costs less than a launch of a
  /// Sequence stage gains by aligned rows.
  bool pays_copy(const Stage& stage, const Launch& launch, int64_t length) const;
  /// Such a copy in rows of `width`, in front of the launch; one for all launches of a stage.
  /// `zeros`: behind each row, to be read.
  Access copy(LaunchPlace place, const Access& source, int64_t length, int64_t width, bool zeros);

  void insert_before(LaunchPlace place, Launch launch);
  /// All accesses get their buffer's stride, and stages the launches.
  void finish();

 private:
  Plan& plan_;
  const Machine& machine_;
  const Plan usual_;      // as it was, with a chunk of a usual length
  const CacheUse cache_;  // of that
  std::set<BufferId> wider_;
  std::map<std::tuple<size_t, BufferId, uint32_t, int64_t, int64_t>, Access> copies_;
  std::map<LaunchPlace, std::vector<Launch>> before_;
};

}  // namespace rnnc
