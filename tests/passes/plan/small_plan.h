/// Plans put together by hand, for tests of passes over plans.
#pragma once

#include <string>
#include <vector>

#include "ir/plan/plan.h"

namespace rnnc::test {

/// Batch 2, chunk 4, f32. What it makes need not pass `verify`.
struct SmallPlan {
  SmallPlan() {
    plan.batch = 2;
    plan.chunk = 4;
  }

  /// Of the workspace, of f32.
  BufferId buffer(const std::string& name, Extent extent, int64_t width, uint32_t history = 0);
  BufferId program_buffer(const std::string& name, Extent extent, int64_t width,
                          uint32_t history = 0);
  BufferId caller(const std::string& name, Role role, Extent extent, int64_t width);

  /// The rows of a buffer `delay` steps ago.
  Access row(BufferId id, uint32_t delay = 0) const;
  /// Adds up what it reads, rows of one length, and writes the tanh of it to each place.
  ElementwiseLaunch tanh(const std::vector<Access>& reads, const std::vector<Access>& writes);
  /// The same after a reduction of the sum.
  ElementwiseLaunch mean(const std::vector<Access>& reads, const std::vector<Access>& writes);
  GemmLaunch gemm(BufferId out, const Access& left, BufferId weight) const;

  Stage& stage(Domain domain, std::vector<Launch> launches, uint32_t sweep = 0);
  /// A step stage that is a recurrence.
  Stage& recurrence(std::vector<Launch> launches, uint32_t sweep = 0);
  /// A state whose history is `id`: starts as zero, its final value is not taken.
  void state(BufferId id, uint32_t sweep = 0);

  int64_t offset(BufferId id) const { return plan.buffers[id].offset; }

  Plan plan;

 private:
  ElementwiseLaunch elementwise(bool reduces, const std::vector<Access>& reads,
                                const std::vector<Access>& writes);
};

}  // namespace rnnc::test
