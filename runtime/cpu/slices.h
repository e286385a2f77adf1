/// How the launches of a step are divided among threads that go through the steps side by side.
#pragma once

#include <memory>
#include <vector>

#include "ir/plan/plan.h"
#include "runtime/cpu/prepared_launch.h"

namespace rnnc::cpu {

/// Slice s computes `parts[s][j]` of launch j, all steps of a chunk in a row. Before launches with
/// a barrier all slices wait for one another; where there is none at all they run independently,
/// in any order and on any number of threads.
struct Slices {
  std::vector<std::vector<Part>> parts;
  std::vector<bool> barriers;  // per launch
  bool any_barrier() const;
};

/// Nanoseconds of a thread, roughly, for so many operations on data in its cache.
double nanoseconds(double operations, int64_t lanes);

/// Nanoseconds of a step, roughly: of the slice that takes longest, with its barriers.
double estimate(const Slices& slices, const std::vector<std::unique_ptr<PreparedLaunch>>& launches,
                int64_t lanes);

/// The division for at most `threads` threads that a rough estimate of arithmetic, weights' way
/// through the caches and barriers finds fastest. Rows are independent, so slices of them mostly
/// need no barrier, but every slice reads all weights; slices of columns read their own.
Slices choose_slices(const Plan& plan, const Stage& stage,
                     const std::vector<std::unique_ptr<PreparedLaunch>>& launches, int64_t lanes,
                     int threads);

/// By rows, or by columns where a launch can be (else by rows), in `count` slices.
Slices make_slices(const Plan& plan, const Stage& stage,
                   const std::vector<std::unique_ptr<PreparedLaunch>>& launches, bool by_columns,
                   int64_t count);

}  // namespace rnnc::cpu
