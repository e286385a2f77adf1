/// Arithmetic without subnormal numbers, with which many processors are many times as slow.
#pragma once

#include <cstdint>

namespace rnnc::cpu {

/// While this lives, subnormal operands and results of this thread's arithmetic are zeros: of f32
/// those below 2^-126, of f64 below 2^-1022. Then the thread's floating-point state is what it was.
class FlushedSubnormals {
 public:
  FlushedSubnormals() : before_(read()) { write(before_ | kFlush); }
  ~FlushedSubnormals() { write(before_); }
  FlushedSubnormals(const FlushedSubnormals&) = delete;
  FlushedSubnormals& operator=(const FlushedSubnormals&) = delete;

 private:
#if defined(__x86_64__)
  using State = uint32_t;                              // MXCSR
  static constexpr State kFlush = 1U << 15 | 1U << 6;  // results, operands
  static State read() { return __builtin_ia32_stmxcsr(); }
  static void write(State state) { __builtin_ia32_ldmxcsr(state); }
#elif defined(__aarch64__)
  using State = uint64_t;  // FPCR
  static constexpr State kFlush = State{1} << 24;
  static State read() {
    State state;
    asm volatile("mrs %0, fpcr" : "=r"(state));
    return state;
  }
  static void write(State state) { asm volatile("msr fpcr, %0" : : "r"(state) : "memory"); }
#else
  using State = uint32_t;
  static constexpr State kFlush = 0;
  static State read() { return 0; }
  static void write(State /*state*/) {}
#endif

  const State before_;
};

}  // namespace rnnc::cpu
