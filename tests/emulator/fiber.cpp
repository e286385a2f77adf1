#include "tests/emulator/fiber.h"

#include <sys/mman.h>

#include <cstdlib>

namespace rnnc::emulator {
namespace {

using boost::context::detail::jump_fcontext;
using boost::context::detail::make_fcontext;
using boost::context::detail::transfer_t;

/// A kernel of thousands of operations has a frame of tens of KiB: none is to reach past the guard.
constexpr size_t kStackGuardBytes = 64 << 10;
constexpr size_t kStackBytes = 512 << 10;
/// Stacks that all began at the same place of a page would share few places of the caches.
constexpr size_t kShifts = 61;
constexpr size_t kShiftBytes = 832;

}  // namespace

Fiber::Fiber() {
  static size_t count = 0;
  shift_ = count++ % kShifts * kShiftBytes / 16 * 16;
  stack_ = mmap(nullptr, kStackGuardBytes + kStackBytes, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (stack_ == MAP_FAILED || mprotect(stack_, kStackGuardBytes, PROT_NONE) != 0) std::abort();
}

Fiber::~Fiber() {
  munmap(stack_, kStackGuardBytes + kStackBytes);
}

void Fiber::start(void (*function)(void*), void* argument) {
  function_ = function;
  argument_ = argument;
  char* const top = static_cast<char*>(stack_) + kStackGuardBytes + kStackBytes - shift_;
  inside_ = make_fcontext(top, kStackBytes - shift_, enter);
}

void Fiber::resume() {
  inside_ = jump_fcontext(inside_, this).fctx;
}

void Fiber::wait() {
  outside_ = jump_fcontext(outside_, nullptr).fctx;
}

void Fiber::enter(transfer_t from) {
  auto* const self = static_cast<Fiber*>(from.data);
  self->outside_ = from.fctx;
  self->function_(self->argument_);
  for (;;) self->wait();
}

}  // namespace rnnc::emulator
