#include "runtime/cpu/step_stage.h"

#include <algorithm>

namespace rnnc {
namespace {

Slices slices_of(const Plan& plan, const Stage& stage,
                 const std::vector<std::unique_ptr<PreparedLaunch>>& launches, int64_t lanes,
                 int threads) {
  if (stage.domain == Domain::Step) return choose_slices(plan, stage, launches, lanes, threads);
  // A loop: a row at a time, whose carried values stay in the first level cache.
  const double operations =
      launches[0]->operations_per_row * static_cast<double>(plan.batch * plan.chunk);
  if (operations < kWorthSharing) return make_slices(plan, stage, launches, false, 1);
  const bool by_columns = plan.batch < threads;
  const int64_t count = by_columns ? threads : plan.batch;
  Slices slices = make_slices(plan, stage, launches, by_columns, count);
  return slices.any_barrier() ? make_slices(plan, stage, launches, false, 1) : slices;
}

}  // namespace

StepStage::StepStage(const Plan& plan, const Stage& stage,
                     const std::vector<std::unique_ptr<PreparedLaunch>>& launches, int64_t lanes,
                     int threads)
    : launches_(launches), slices_(slices_of(plan, stage, launches, lanes, threads)) {
  if (slices_.any_barrier()) barrier_.emplace(static_cast<int>(slices_.parts.size()));
  for (const auto& launch : launches) {
    first_access_.push_back(accesses_.size());
    accesses_.insert(accesses_.end(), launch->accesses.begin(), launch->accesses.end());
  }
  pointers_.assign(threads, std::vector<void*>(accesses_.size()));
  bytes_per_step_.resize(accesses_.size());
  const Addresses addresses(plan);
  for (size_t i = 0; i < accesses_.size(); ++i) {
    bytes_per_step_[i] = addresses.bytes_per_step(accesses_[i]);
  }
}

int StepStage::threads() const {
  return static_cast<int>(std::min(slices_.parts.size(), pointers_.size()));
}

void StepStage::run(ThreadPool* pool, const Addresses& addresses, const ThreadScratch& scratch,
                    int64_t t0, int64_t steps) {
  struct Work {
    StepStage& stage;
    Call call;
  };
  const Work work = {*this, {addresses, scratch, t0, steps}};
  const auto slices = static_cast<int64_t>(slices_.parts.size());
  if (pool == nullptr || slices == 1 || (barrier_ && pool->started() < slices)) {
    run_slices(work.call, 0, slices, 0);
    return;
  }
  pool->run(
      slices,
      [](const void* context, int64_t slice, int thread) {
        const Work& shared = *static_cast<const Work*>(context);
        shared.stage.run_slices(shared.call, slice, slice + 1, thread);
      },
      &work);
}

/// Slices [begin, end): one, with the others on other threads, or all.
void StepStage::run_slices(const Call& call, int64_t begin, int64_t end, int thread) {
  void** const pointers = pointers_[thread].data();
  for (size_t i = 0; i < accesses_.size(); ++i) {
    pointers[i] = call.addresses.locate(accesses_[i], {call.t0, call.t0});
  }
  std::byte* const scratch = call.scratch.of(thread);
  const bool alone = end - begin == static_cast<int64_t>(slices_.parts.size());
  for (int64_t step = 0; step < call.steps; ++step) {
    for (size_t j = 0; j < launches_.size(); ++j) {
      const bool wait = slices_.barriers[j] && !alone && (step > 0 || j > 0);
      if (wait) barrier_->wait(static_cast<int>(begin));
      for (int64_t slice = begin; slice < end; ++slice) {
        const Part& part = slices_.parts[slice][j];
        if (part.row_begin == part.row_end || part.tile_begin == part.tile_end) continue;
        launches_[j]->run(pointers + first_access_[j], part, scratch);
      }
    }
    for (size_t i = 0; i < accesses_.size(); ++i) {
      pointers[i] = static_cast<std::byte*>(pointers[i]) + bytes_per_step_[i];
    }
  }
}

}  // namespace rnnc
