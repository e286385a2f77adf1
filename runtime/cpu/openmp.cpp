#include "runtime/cpu/openmp.h"

#include <dlfcn.h>
#include <pthread.h>

#include <atomic>

namespace rnnc::cpu {
namespace {

std::atomic<bool> is_forked = false;
/// From when the library is loaded, since the parent may have used OpenMP without it.
[[maybe_unused]] const int is_watched =
    ::pthread_atfork(nullptr, nullptr, [] { is_forked.store(true); });

template <typename Function>
bool find(const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(RTLD_DEFAULT, name));
  return function != nullptr;
}

}  // namespace

std::optional<OpenMp> OpenMp::of_process() {
  OpenMp found;
  if (is_forked.load() || !find("GOMP_parallel", found.parallel_) ||
      !find("omp_get_thread_num", found.thread_) || !find("omp_get_num_threads", found.threads_)) {
    return std::nullopt;
  }
  return found;
}

bool OpenMp::run(int threads, Work work, void* context) const {
  struct Region {
    const OpenMp& runtime;
    int threads;
    Work work;
    void* context;
    bool is_whole;  // written by thread 0 alone
  } region = {*this, threads, work, context, false};
  parallel_(
      [](void* data) {
        auto& own = *static_cast<Region*>(data);
        const int thread = own.runtime.thread_();
        const bool is_whole = own.runtime.threads_() == own.threads;
        if (thread == 0) own.is_whole = is_whole;
        if (is_whole) own.work(own.context, thread);
      },
      &region, static_cast<unsigned>(threads), 0);
  return region.is_whole;
}

}  // namespace rnnc::cpu
