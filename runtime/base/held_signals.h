/// Signals to the process that wait.
#pragma once

#include <pthread.h>

#include <csignal>

namespace rnnc {

/// While this lives, signals that others send to the process do not interrupt this thread, nor
/// threads that it starts, ever. Faults and profilers do.
class HeldSignals {
 public:
  HeldSignals() {
    sigset_t held;
    ::sigfillset(&held);
    for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGPROF}) {
      ::sigdelset(&held, own);
    }
    ::pthread_sigmask(SIG_BLOCK, &held, &before_);
  }
  ~HeldSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;

 private:
  sigset_t before_;
};

}  // namespace rnnc
