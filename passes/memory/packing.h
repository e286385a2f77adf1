/// Places for lifetimes in one piece of memory.
#pragma once

#include "passes/memory/lifetimes.h"

namespace rnnc {

struct Packing {
  std::vector<int64_t> offsets;  // per lifetime
  int64_t bytes = 0;             // in all
};

/// So that no two which overlap share memory. Nearly always in `live_bytes`, which is the least
/// there could be; the same input gives the same packing.
Packing pack(const std::vector<Lifetime>& lifetimes);

}  // namespace rnnc
