/// A state that a loop or a scan keeps in registers from step to step (ir/plan/plan.h).
#pragma once

#include <cstdint>

namespace rnnc {

/// Arguments of its kernel.
struct LoopCarry {
  uint32_t load = 0;
  uint32_t store = 0;  // has the same place, and the value at the next step
  friend bool operator==(const LoopCarry&, const LoopCarry&) = default;
};

}  // namespace rnnc
