#include "tools/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

namespace rnnc::tools {

Progress::Progress() {
  if (::isatty(STDERR_FILENO) != 0) thread_ = std::thread([this] { draw(); });
}

Progress::~Progress() {
  stop();
}

void Progress::phase(std::string name) {
  const std::lock_guard lock(mutex_);
  phase_ = std::move(name);
  start_ = std::chrono::steady_clock::now();
}

void Progress::stop() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  stopped_.notify_one();
  thread_.join();
  if (drawn_) fmt::print(stderr, "\r\033[K");
}

void Progress::draw() {
  std::unique_lock lock(mutex_);
  while (!stopped_.wait_for(lock, std::chrono::seconds(1), [this] { return stopping_; })) {
    const auto elapsed = std::chrono::steady_clock::now() - start_;
    fmt::print(stderr, "\r\033[Krnnc: {}, {} s", phase_,
               std::chrono::duration_cast<std::chrono::seconds>(elapsed).count());
    std::fflush(stderr);
    drawn_ = true;
  }
}

}  // namespace rnnc::tools
