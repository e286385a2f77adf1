/// When the launches of a call ran, for those who profile it.
#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <vector>

namespace rnnc {

/// Of a span: all launches of a stage, which were given to the device as one piece of work.
inline constexpr size_t kWholeStage = std::numeric_limits<size_t>::max();

/// From when to when a launch ran, at some steps or, in Once and Last stages, at none.
struct LaunchSpan {
  size_t stage = 0;        // of Plan::stages
  size_t launch = 0;       // of Stage::launches, or kWholeStage
  int64_t first_step = 0;  // in the order in which steps run
  int64_t steps = 0;
  int thread = 0;    // of the CPU: that ran it, or shared it out among all; 0 on a GPU
  double begin = 0;  // seconds after the call began
  double end = 0;
};

/// Of one call, on a steady clock or a GPU's events. Launches run at several steps, in several
/// chunks, on several threads: there are many spans of each. Once stages are not timed.
class LaunchTimes {
 public:
  using Clock = std::chrono::steady_clock;

  /// What was there is forgotten.
  void begin_call(int threads) {
    spans_.assign(threads, {});
    begin_ = Clock::now();
  }
  void end_call() { seconds_ = now(); }
  /// Where the clock is not the steady one.
  void end_call(double seconds) { seconds_ = seconds; }

  /// Since the call began.
  double now() const { return std::chrono::duration<double>(Clock::now() - begin_).count(); }
  /// Different threads may add at a time.
  void add(const LaunchSpan& span) { spans_[span.thread].push_back(span); }

  double seconds() const { return seconds_; }
  /// Of each thread, in the order in which they ended.
  const std::vector<std::vector<LaunchSpan>>& of_threads() const { return spans_; }

 private:
  std::vector<std::vector<LaunchSpan>> spans_;
  Clock::time_point begin_;
  double seconds_ = 0;
};

/// Times a launch from here to the end of its scope; with null nothing.
class LaunchTimer {
 public:
  LaunchTimer(LaunchTimes* times, const LaunchSpan& span) : times_(times), span_(span) {
    if (times_ != nullptr) span_.begin = times_->now();
  }
  ~LaunchTimer() {
    if (times_ == nullptr) return;
    span_.end = times_->now();
    times_->add(span_);
  }
  LaunchTimer(const LaunchTimer&) = delete;
  LaunchTimer& operator=(const LaunchTimer&) = delete;

 private:
  LaunchTimes* times_;
  LaunchSpan span_;
};

}  // namespace rnnc
