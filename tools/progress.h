/// Says on a terminal what long work is at.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace rnnc::tools {

/// After a second, a line on standard error with the current phase and its seconds, redrawn in
/// place and erased in the end. Nothing if standard error is not a terminal.
class Progress {
 public:
  Progress();
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void phase(std::string name);
  /// Erases the line, for other output.
  void stop();

 private:
  void draw();

  std::mutex mutex_;
  std::condition_variable stopped_;
  bool stopping_ = false;
  bool drawn_ = false;
  std::string phase_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::thread thread_;  // last: it uses the others
};

}  // namespace rnnc::tools
