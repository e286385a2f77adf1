/// Work that a crew shares.
#pragma once

#include "runtime/cpu/thread_pool.h"

namespace rnnc::cpu {

/// Calls work(unit, thread) for every unit: the whole crew, if the operations are worth it.
template <typename Work>
void share_out(const Crew& crew, int64_t units, double operations, const Work& work) {
  if (crew.pool == nullptr || units < 2 || operations < kWorthSharing) {
    for (int64_t unit = 0; unit < units; ++unit) work(unit, crew.thread);
  } else {
    crew.pool->run(units, work);
  }
}

}  // namespace rnnc::cpu
