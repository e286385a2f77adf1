/// What stands between a caller and the library: no exception leaves a call, and calls that would
/// overlap are refused.
#pragma once

#include <atomic>
#include <new>
#include <stdexcept>
#include <string_view>

#include "ir/base/status.h"
#include "runtime/base/describe.h"

namespace rnnc {

/// `work()`, a Result; an error "not enough memory to run `LSTM`" where memory runs out in it.
template <typename Work>
auto without_exceptions(std::string_view verb, std::string_view name, const Work& work)
    -> decltype(work()) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
  } catch (const std::length_error&) {  // more than any memory has
  }
  return fail_as(ErrorKind::OutOfMemory, "not enough memory to {} {}", verb, quote(name));
}

/// Likewise, unless another call that was given the same flag is under way: then an error.
template <typename Work>
auto call_alone(std::atomic_flag& running, std::string_view verb, std::string_view name,
                const Work& work) -> decltype(work()) {
  if (running.test_and_set(std::memory_order_acquire)) {
    return fail("cannot {} {} while another call of it is running", verb, quote(name));
  }
  struct End {
    std::atomic_flag& flag;
    ~End() { flag.clear(std::memory_order_release); }
  } const end{running};
  return without_exceptions(verb, name, work);
}

}  // namespace rnnc
