// A worker may lag behind: it may have read the number of a job that is long done. So a unit is
// claimed by exchanging a cursor that holds the job's number too, and the caller first closes all
// cursors of the old job, then writes what the new one is, then opens the cursors, then announces
// its number. A worker reads in the opposite order: if what it read belongs to a newer job than the
// number it knows, its exchange fails.
#include "runtime/cpu/thread_pool.h"

#include <algorithm>
#include <system_error>

#include "runtime/base/held_signals.h"
#include "runtime/cpu/flushed_subnormals.h"
#include "runtime/cpu/spin_barrier.h"

namespace rnnc::cpu {
namespace {

/// Some tens of microseconds: longer than the caller's work between two jobs of a step.
constexpr int kSpins = 2000;
constexpr uint64_t kClosed = UINT32_MAX;  // a unit beyond every range

uint64_t cursor_value(uint32_t job, uint64_t unit) {
  return uint64_t{job} << 32 | unit;
}

/// Where a thread's range begins: a thread has a unit of its own as long as there are any.
uint64_t range_begin(int64_t units, int threads, int thread) {
  return static_cast<uint64_t>(units < threads ? std::min<int64_t>(thread, units)
                                               : units * thread / threads);
}

}  // namespace

ThreadPool::ThreadPool(int threads, std::optional<OpenMp> openmp)
    : threads_(threads), openmp_(openmp), cursors_(threads) {
  workers_.reserve(threads - 1);
  const HeldSignals held;  // they are for the program's own threads
  for (int thread = 1; thread < threads; ++thread) {
    try {
      workers_.emplace_back([this, thread] { serve(thread); });
    } catch (const std::system_error&) {
      break;  // the system has no more threads for us
    }
  }
}

ThreadPool::~ThreadPool() {
  stopping_.store(true, std::memory_order_relaxed);
  job_.fetch_add(1, std::memory_order_release);
  job_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::run(int64_t units, Work work, const void* context) {
  const uint32_t job = ++last_job_;
  for (Cursor& cursor : cursors_) {
    cursor.job_and_unit.store(cursor_value(job, kClosed), std::memory_order_relaxed);
  }
  work_.store(work, std::memory_order_release);
  context_.store(context, std::memory_order_release);
  units_.store(units, std::memory_order_release);
  done_by_workers_.store(0, std::memory_order_relaxed);
  for (int thread = 0; thread < threads_; ++thread) {
    const auto begin = range_begin(units, threads_, thread);
    cursors_[thread].job_and_unit.store(cursor_value(job, begin), std::memory_order_release);
  }
  if (openmp_ && run_with_openmp(job, units)) return;
  job_.store(job, std::memory_order_release);
  job_.notify_all();

  const int64_t others = units - take_units(job, 0);
  for (int spins = 0; done_by_workers_.load(std::memory_order_acquire) != others; ++spins) {
    if (spins < kSpins) {
      relax();
    } else {
      std::this_thread::yield();  // the worker we wait for may need this processor
    }
  }
}

/// False: nothing of it is done. A thread that finds nothing of its own left is asleep, or shares
/// its processor with others: where those are many, jobs follow without, the more the more often
/// that was so.
bool ThreadPool::run_with_openmp(uint32_t job, int64_t units) {
  if (jobs_alone_ > 0) {
    --jobs_alone_;
    return false;
  }
  struct Share {
    ThreadPool& pool;
    uint32_t job;
    std::atomic<int> workers = 0;
  } share = {*this, job};
  const auto work = [](void* context, int thread) {
    const FlushedSubnormals flushed;
    auto& own = *static_cast<Share*>(context);
    if (own.pool.take_units(own.job, thread) > 0) own.workers.fetch_add(1);
  };
  const bool is_done = openmp_->run(threads_, work, &share);
  const int64_t wanted = std::min<int64_t>(units, threads_);
  if (is_done && 4 * share.workers.load() >= 3 * wanted) {
    next_jobs_alone_ = kFewJobs;
  } else {
    jobs_alone_ = next_jobs_alone_;
    next_jobs_alone_ = std::min(2 * next_jobs_alone_, kManyJobs);
  }
  return is_done;
}

int64_t ThreadPool::take_units(uint32_t job, int thread) {
  const Work work = work_.load(std::memory_order_acquire);
  const void* context = context_.load(std::memory_order_acquire);
  const int64_t units = units_.load(std::memory_order_acquire);
  int64_t taken = 0;
  for (int i = 0; i < threads_; ++i) {
    const int owner = (thread + i) % threads_;
    std::atomic<uint64_t>& cursor = cursors_[owner].job_and_unit;
    const auto end = range_begin(units, threads_, owner + 1);
    uint64_t next = cursor.load(std::memory_order_acquire);
    while (next >> 32 == job && (next & UINT32_MAX) < end) {
      if (!cursor.compare_exchange_weak(next, next + 1, std::memory_order_acq_rel)) continue;
      work(context, static_cast<int64_t>(next & UINT32_MAX), thread);
      ++taken;
      next = cursor.load(std::memory_order_acquire);
    }
  }
  return taken;
}

uint32_t ThreadPool::next_job(uint32_t last) {
  for (int spins = 0; spins < kSpins; ++spins) {
    const uint32_t job = job_.load(std::memory_order_acquire);
    if (job != last) return job;
    relax();
  }
  job_.wait(last, std::memory_order_acquire);
  return job_.load(std::memory_order_acquire);
}

void ThreadPool::serve(int thread) {
  const FlushedSubnormals flushed;
  for (uint32_t job = 0;;) {
    job = next_job(job);
    if (stopping_.load(std::memory_order_relaxed)) return;
    const int64_t taken = take_units(job, thread);
    if (taken > 0) done_by_workers_.fetch_add(taken, std::memory_order_release);
  }
}

}  // namespace rnnc::cpu
