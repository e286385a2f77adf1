/// A stack of its own, on which a function runs until it waits.
#pragma once

#include <boost/context/detail/fcontext.hpp>

#include <cstddef>

namespace rnnc::emulator {

class Fiber {
 public:
  Fiber();
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// From now on `resume` runs `function(argument)`; what ran before is dropped as it stands.
  void start(void (*function)(void*), void* argument);
  /// Until it waits or ends; it must not have ended.
  void resume();
  /// Back to `resume`, called by what runs here.
  void wait();

 private:
  static void enter(boost::context::detail::transfer_t from);

  void* stack_ = nullptr;
  size_t shift_ = 0;
  boost::context::detail::fcontext_t inside_ = nullptr;
  boost::context::detail::fcontext_t outside_ = nullptr;
  void (*function_)(void*) = nullptr;
  void* argument_ = nullptr;
};

}  // namespace rnnc::emulator
