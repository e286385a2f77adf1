#include "tools/serve/child.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <boost/asio/buffer.hpp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <new>
#include <utility>

#include "runtime/base/descriptor.h"
#include "runtime/base/held_signals.h"
#include "tools/command.h"

namespace rnnc::serve {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

// Sanitizers take terabytes of addresses.
#if defined(__SANITIZE_ADDRESS__)
constexpr bool kLimitsMemory = false;
#else
constexpr bool kLimitsMemory = true;
#endif

template <typename Resource>
void set_limit(Resource resource, uint64_t value) {
  const rlimit limit{value, value};
  ::setrlimit(resource, &limit);
}

/// Bytes of addresses that this process has.
uint64_t addresses_used() {
  uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

/// All but the standard streams: among them are connections to pages.
void close_files() {
#ifdef SYS_close_range
  if (::syscall(SYS_close_range, 3U, ~0U, 0U) == 0) return;
#endif
  for (long file = ::sysconf(_SC_OPEN_MAX) - 1; file > STDERR_FILENO; --file) {
    ::close(static_cast<int>(file));
  }
}

void restore_signals() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) std::signal(signal, SIG_DFL);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

/// What is thrown becomes an error as those of commands are.
int run_guarded(const std::function<int()>& run) {
  try {
    return run();
  } catch (const std::bad_alloc&) {
    return tools::report({"not enough memory"});
  } catch (const std::exception& error) {
    return tools::report({error.what()});
  }
}

[[noreturn]] void become_child(pid_t parent, int output, int errors, const Limits& limits,
                               const std::function<int()>& run) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(tools::kError);
  const int null = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  ::dup2(null, STDIN_FILENO);
  ::dup2(output, STDOUT_FILENO);
  ::dup2(errors, STDERR_FILENO);
  close_files();
  restore_signals();
  ::setenv("NO_COLOR", "1", 1);
  ::setenv("CUDA_VISIBLE_DEVICES", "", 1);
  set_limit(RLIMIT_CORE, 0);
  set_limit(RLIMIT_FSIZE, 0);
  if (kLimitsMemory) set_limit(RLIMIT_AS, addresses_used() + limits.memory);
  const int exit_code = run_guarded(run);
  std::fflush(nullptr);
  ::_exit(exit_code);
}

struct Pipe {
  asio::posix::stream_descriptor reader;
  Descriptor writer;
};

Result<Pipe> make_pipe(asio::io_context& io) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return fail("{}", error_text(errno));
  Pipe pipe{asio::posix::stream_descriptor(io), Descriptor(ends[1])};
  error_code error;
  pipe.reader.assign(ends[0], error);
  if (!error) return pipe;
  ::close(ends[0]);
  return fail("{}", error.message());
}

}  // namespace

Result<std::shared_ptr<Child>> Child::start(asio::io_context& io, const Limits& limits,
                                            const std::function<int()>& run,
                                            std::function<void(Outcome)> done) {
  Result<Pipe> output = make_pipe(io);
  if (!output) return tl::unexpected(output.error());
  Result<Pipe> errors = make_pipe(io);
  if (!errors) return tl::unexpected(errors.error());
  auto child = std::make_shared<Child>(Private{}, io, limits, std::move(output->reader),
                                       std::move(errors->reader), std::move(done));
  std::fflush(nullptr);
  const pid_t parent = ::getpid();
  // Until it has put it away, a child shares this process's way with signals.
  const HeldSignals held;
  child->pid_ = ::fork();
  if (child->pid_ == 0) {
    become_child(parent, output->writer.get(), errors->writer.get(), limits, run);
  }
  if (child->pid_ < 0) {
    child->pid_ = 0;
    return fail("{}", error_text(errno));
  }
  ::setpgid(child->pid_, child->pid_);
  child->begin();
  return child;
}

Child::Child(Private /*key*/, asio::io_context& io, const Limits& limits,
             asio::posix::stream_descriptor output, asio::posix::stream_descriptor errors,
             std::function<void(Outcome)> done)
    : limits_(limits),
      output_(std::move(output)),
      errors_(std::move(errors)),
      deadline_(io),
      pause_(io),
      done_(std::move(done)) {}

Child::~Child() {
  if (pid_ == 0) return;
  ::kill(-pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

void Child::begin() {
  deadline_.expires_after(limits_.time);
  deadline_.async_wait([weak = weak_from_this()](error_code error) {
    const auto self = weak.lock();
    if (!error && self) self->end(Outcome::Kind::too_long);
  });
  read(output_, outcome_.output);
  read(errors_, outcome_.errors);
}

void Child::read(asio::posix::stream_descriptor& pipe, std::string& text) {
  constexpr size_t kPiece = 1 << 16;
  const size_t used = text.size();
  text.resize(used + kPiece);
  pipe.async_read_some(
      asio::buffer(text.data() + used, kPiece),
      [self = shared_from_this(), &pipe, &text, used](error_code error, size_t count) {
        text.resize(used + count);
        if (text.size() > self->limits_.output) {
          self->end(Outcome::Kind::too_much);
        }
        if (!error) return self->read(pipe, text);
        if (--self->open_pipes_ == 0) self->reap();
      });
}

void Child::kill() {
  end(Outcome::Kind::died);
}

/// The pipes end with the process, and then it is reaped.
void Child::end(Outcome::Kind kind) {
  if (pid_ == 0) return;
  if (outcome_.kind == Outcome::Kind::exited) outcome_.kind = kind;
  ::kill(-pid_, SIGKILL);
}

void Child::reap() {
  siginfo_t ended{};
  const bool waited =
      ::waitid(P_PID, static_cast<id_t>(pid_), &ended, WEXITED | WNOHANG | WNOWAIT) == 0;
  if (waited && ended.si_pid == 0) {
    // It has closed its pipes and is about to go.
    pause_.expires_after(std::chrono::milliseconds(1));
    pause_.async_wait([self = shared_from_this()](error_code error) {
      if (!error) self->reap();
    });
    return;
  }
  ::kill(-pid_, SIGKILL);  // what it may have started
  ::waitpid(pid_, nullptr, 0);
  pid_ = 0;
  deadline_.cancel();
  if (outcome_.kind == Outcome::Kind::exited) {
    if (ended.si_code != CLD_EXITED) outcome_.kind = Outcome::Kind::died;
    outcome_.exit_code = ended.si_status;
  }
  std::exchange(done_, nullptr)(std::move(outcome_));
}

}  // namespace rnnc::serve
