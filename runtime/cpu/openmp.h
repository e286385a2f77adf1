/// The threads of the process's OpenMP runtime, for work beside that of a library that uses it.
///
/// Such threads spin for milliseconds after each parallel region. Other threads that get to work
/// meanwhile, one for each processor, share the processors with them.
#pragma once

#include <optional>

namespace rnnc::cpu {

/// What GCC's code calls, which LLVM's and Intel's runtimes have, too.
class OpenMp {
 public:
  /// The runtime among the process's global symbols. None after a fork, where its threads are
  /// missing and it may wait for them.
  static std::optional<OpenMp> of_process();

  using Work = void (*)(void* context, int thread);
  /// work(context, thread) on so many threads at once, the caller among them as thread 0; false if
  /// the runtime gives fewer, as within a parallel region, and then nothing has been called.
  bool run(int threads, Work work, void* context) const;

 private:
  using Parallel = void (*)(void (*function)(void*), void* data, unsigned threads, unsigned flags);
  using Number = int (*)();

  Parallel parallel_ = nullptr;
  Number thread_ = nullptr;
  Number threads_ = nullptr;
};

}  // namespace rnnc::cpu
