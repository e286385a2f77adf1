/// What stands between a caller and the library: no exception leaves a call, and calls that would
/// overlap, or follow one that met a bug, are refused.
#pragma once

#include <atomic>
#include <new>
#include <stdexcept>
#include <string_view>

#include "ir/base/status.h"
#include "runtime/base/describe.h"

namespace rnnc {

/// `work()`, a Result; an error "not enough memory to run `LSTM`" where memory runs out in it, and
/// one of a bug in rnnc where an invariant is broken.
template <typename Work>
auto without_exceptions(std::string_view verb, std::string_view name, const Work& work)
    -> decltype(work()) {
  try {
    return work();
  } catch (const InternalError& error) {
    return fail_as(ErrorKind::Internal, "{}", error.what());
  } catch (const std::bad_alloc&) {
  } catch (const std::length_error&) {  // more than any memory has
  }
  return fail_as(ErrorKind::OutOfMemory, "not enough memory to {} {}", verb, quote(name));
}

/// Of something whose calls must not overlap.
struct CallState {
  std::atomic_flag running;
  bool broken = false;  // a call met a bug in rnnc
};

/// Likewise, unless another call that was given the same state is under way, or has met a bug: then
/// an error.
template <typename Work>
auto call_alone(CallState& state, std::string_view verb, std::string_view name, const Work& work)
    -> decltype(work()) {
  if (state.running.test_and_set(std::memory_order_acquire)) {
    return fail("cannot {} {} while another call of it is running", verb, quote(name));
  }
  struct End {
    std::atomic_flag& flag;
    ~End() { flag.clear(std::memory_order_release); }
  } const end{state.running};
  if (state.broken) {
    return fail_as(ErrorKind::Internal, "cannot {} {} any more: a call before met a bug in rnnc",
                   verb, quote(name));
  }
  auto result = without_exceptions(verb, name, work);
  state.broken = !result && result.error().kind == ErrorKind::Internal;
  return result;
}

}  // namespace rnnc
