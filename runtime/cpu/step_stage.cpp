#include "runtime/cpu/step_stage.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>

namespace rnnc::cpu {
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

class Stopwatch {
 public:
  double nanoseconds() const {
    return std::chrono::duration<double, std::nano>(Clock::now() - start_).count();
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
};

}  // namespace

void Sharing::shared(int64_t steps, int64_t late, double nanoseconds) {
  if (late <= steps / kFewSteps) {
    next_alone_ = kFewTimes;
    shared_nanoseconds_ = nanoseconds;
    return;
  }
  const double before = shared_nanoseconds_ > 0 ? shared_nanoseconds_ : nanoseconds;
  shared_nanoseconds_ = std::sqrt(before * nanoseconds);
  if (shared_nanoseconds_ <= alone_nanoseconds_) return;
  alone_ = next_alone_;
  next_alone_ = std::min(2 * next_alone_, kManyTimes);
}

void Sharing::alone(double nanoseconds) {
  alone_nanoseconds_ = nanoseconds;
  alone_ = nanoseconds < shared_nanoseconds_ ? alone_ - 1 : 0;
}

StepStage::StepStage(const Plan& plan, const Stage& stage,
                     const std::vector<std::unique_ptr<PreparedLaunch>>& launches, int64_t lanes,
                     int threads)
    : launches_(launches),
      slices_(slices_of(plan, stage, launches, lanes, threads)),
      whole_(make_slices(plan, stage, launches, false, 1)) {
  step_alone_ = estimate(whole_, launches, lanes);
  step_shared_ = estimate(slices_, launches, lanes);
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

void StepStage::run(const Crew& crew, const Addresses& addresses, const ThreadScratch& scratch,
                    Position start, int64_t steps) {
  const bool is_one = launches_.size() == 1;
  const LaunchTimer timer(
      is_one ? times_ : nullptr,
      {.stage = stage_, .first_step = start.order(), .steps = steps, .thread = crew.thread});
  Run run = {addresses, scratch, start, steps};
  const auto count = static_cast<int64_t>(slices_.parts.size());
  if (crew.pool == nullptr || count == 1 || (barrier_ && crew.pool->started() < count)) {
    run_slice(whole_, run, 0, crew.thread);
    return;
  }
  if (!barrier_) {
    crew.pool->run(count,
                   [&](int64_t slice, int thread) { run_slice(slices_, run, slice, thread); });
    return;
  }
  if (sharing_.is_off()) {
    Run part = run;
    part.steps = std::min(steps, Sharing::kTrialSteps);
    const Stopwatch stopwatch;
    run_slice(whole_, part, 0, crew.thread);
    sharing_.alone(stopwatch.nanoseconds() / static_cast<double>(part.steps));
    run.start.step += part.steps;
    run.steps -= part.steps;
    if (run.steps == 0) return;
    if (sharing_.is_off()) {
      run_slice(whole_, run, 0, crew.thread);
      return;
    }
  }
  std::atomic<int64_t> late = -count;  // a thread that wakes up is late once
  const Stopwatch stopwatch;
  crew.pool->run(count, [&](int64_t slice, int thread) {
    late.fetch_add(run_slice(slices_, run, slice, thread));
  });
  sharing_.shared(run.steps, late / count,
                  stopwatch.nanoseconds() / static_cast<double>(run.steps));
}

int64_t StepStage::run_slice(const Slices& slices, const Run& run, int64_t slice, int thread) {
  void** const pointers = pointers_[thread].data();
  for (size_t i = 0; i < accesses_.size(); ++i) {
    pointers[i] = run.addresses.locate(accesses_[i], run.start);
  }
  std::byte* const scratch = run.scratch.of(thread);
  LaunchTimes* const times = launches_.size() > 1 ? times_ : nullptr;
  int64_t late = 0;
  for (int64_t step = 0; step < run.steps; ++step) {
    bool in_time = true;
    for (size_t j = 0; j < launches_.size(); ++j) {
      if (slices.barriers[j] && (step > 0 || j > 0)) {
        in_time = barrier_->wait(static_cast<int>(slice)) && in_time;
      }
      Part part = slices.parts[slice][j];
      if (part.row_begin == part.row_end || part.tile_begin == part.tile_end) continue;
      const LaunchTimer timer(times, {.stage = stage_,
                                      .launch = j,
                                      .first_step = run.start.order() + step,
                                      .steps = 1,
                                      .thread = thread});
      part.backwards = step % 2 != 0;  // there and back, since weights may not all fit the cache
      launches_[j]->run(pointers + first_access_[j], part, scratch);
    }
    late += in_time ? 0 : 1;
    for (size_t i = 0; i < accesses_.size(); ++i) {
      pointers[i] = static_cast<std::byte*>(pointers[i]) + bytes_per_step_[i];
    }
  }
  return late;
}

}  // namespace rnnc::cpu
