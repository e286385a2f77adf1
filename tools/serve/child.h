/// A process of its own for work that may take too long or too much.
#pragma once

#include <sys/types.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "ir/base/status.h"

namespace rnnc::serve {

struct Limits {
  std::chrono::milliseconds time{10'000};
  uint64_t memory = uint64_t{2} << 30;  // bytes, beside what this process has
  size_t output = 64 << 20;             // bytes
};

/// How a child has ended.
struct Outcome {
  enum class Kind : uint8_t { exited, too_long, too_much, died };
  Kind kind = Kind::died;
  int exit_code = 0;  // of one that exited
  std::string output = {};
  std::string errors = {};
};

/// A copy of this process that runs a function and is gone, with all that it may have started: when
/// the function returns, at a limit, when this object goes, or when this process ends in whatever
/// way. It has no open files but the null device for its input and pipes for its outputs, can write
/// no files, and sees no GPU. Other threads of this process are not in it.
class Child : public std::enable_shared_from_this<Child> {
  struct Private {};

 public:
  /// Calls `done` from `io`, once, unless the object goes before.
  static Result<std::shared_ptr<Child>> start(boost::asio::io_context& io, const Limits& limits,
                                              const std::function<int()>& run,
                                              std::function<void(Outcome)> done);
  Child(Private, boost::asio::io_context& io, const Limits& limits,
        boost::asio::posix::stream_descriptor output, boost::asio::posix::stream_descriptor errors,
        std::function<void(Outcome)> done);
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  /// Nobody waits for it any more: `done` is told, soon, that it died.
  void kill();

 private:
  void begin();
  void read(boost::asio::posix::stream_descriptor& pipe, std::string& text);
  void end(Outcome::Kind kind);
  void reap();

  Limits limits_;
  pid_t pid_ = 0;  // 0: it is gone
  boost::asio::posix::stream_descriptor output_, errors_;
  boost::asio::steady_timer deadline_, pause_;
  int open_pipes_ = 2;
  Outcome outcome_{.kind = Outcome::Kind::exited};
  std::function<void(Outcome)> done_;
};

}  // namespace rnnc::serve
