/// A few threads that share out the units of a piece of work.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "runtime/cpu/openmp.h"

namespace rnnc::cpu {

/// Fewer operations than this (some microseconds) are not worth a hand-over.
inline constexpr double kWorthSharing = 65536;
/// Nanoseconds until all threads have their share, and then until its caller knows they are done.
inline constexpr double kHandOver = 2000;

/// Every thread starts with its own range of the units, the same one for the same number of units,
/// so that its cache keeps what it reads again and again; then it helps the others. The caller
/// waits for units that a worker has begun, never for a worker to show up: on a busy machine it
/// does all of them itself.
///
/// Workers spin for a short while after a piece of work, since the next one usually follows at
/// once, and then sleep. With OpenMP that runtime's threads do the work, all of which the caller has
/// to wait for, as long as they come in time and are not too few. One caller at a time.
class ThreadPool {
 public:
  /// Computes unit `unit` on thread `thread`. Units must not depend on one another.
  using Work = void (*)(const void* context, int64_t unit, int thread);

  /// The caller of `run` is thread 0 of `threads`; the others are started here. If the system
  /// gives fewer, the rest of their work falls to those there are.
  explicit ThreadPool(int threads, std::optional<OpenMp> openmp = {});
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return threads_; }
  /// Those that were really started, the caller among them: work whose units wait for one another
  /// must have no more units.
  int started() const { return static_cast<int>(workers_.size()) + 1; }

  /// Calls work(context, unit, thread) once for every unit below `units` (and 2^31). Returns when
  /// all are done and their writes are seen. Allocates nothing.
  void run(int64_t units, Work work, const void* context);
  /// The same for anything that can be called.
  template <typename Function>
  void run(int64_t units, const Function& function) {
    run(
        units,
        [](const void* context, int64_t unit, int thread) {
          (*static_cast<const Function*>(context))(unit, thread);
        },
        &function);
  }

 private:
  /// The next unit of a thread's range, under the number of the job that it belongs to.
  struct alignas(64) Cursor {
    std::atomic<uint64_t> job_and_unit = 0;
  };

  bool run_with_openmp(uint32_t job, int64_t units);
  void serve(int thread);
  uint32_t next_job(uint32_t last);
  int64_t take_units(uint32_t job, int thread);

  static constexpr int kFewJobs = 16;
  static constexpr int kManyJobs = 4096;

  const int threads_;
  const std::optional<OpenMp> openmp_;
  uint32_t last_job_ = 0;  // the caller's
  int jobs_alone_ = 0;     // that follow without OpenMP
  int next_jobs_alone_ = kFewJobs;
  std::vector<Cursor> cursors_;  // per thread
  std::atomic<Work> work_ = nullptr;
  std::atomic<const void*> context_ = nullptr;
  std::atomic<int64_t> units_ = 0;
  std::atomic<bool> stopping_ = false;
  alignas(64) std::atomic<uint32_t> job_ = 0;  // the last that the workers were told of
  alignas(64) std::atomic<int64_t> done_by_workers_ = 0;
  std::vector<std::thread> workers_;
};

/// Who does a piece of work: a pool's threads together, or one thread alone.
struct Crew {
  ThreadPool* pool = nullptr;  // null: `thread` alone
  int thread = 0;
  int threads() const { return pool == nullptr ? 1 : pool->threads(); }
};

/// Pools of the sizes that are in use.
class ThreadPools {
 public:
  explicit ThreadPools(int most_threads, std::optional<OpenMp> openmp = {})
      : most_threads_(most_threads), openmp_(openmp) {}
  int most_threads() const { return most_threads_; }
  ThreadPool& of(int threads) {
    auto& pool = pools_[threads];
    if (pool == nullptr) pool = std::make_unique<ThreadPool>(threads, openmp_);
    return *pool;
  }

 private:
  int most_threads_;
  std::optional<OpenMp> openmp_;
  std::map<int, std::unique_ptr<ThreadPool>> pools_;
};

}  // namespace rnnc::cpu
