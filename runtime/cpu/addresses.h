/// Where a plan's buffers are during a call.
#pragma once

#include <cstddef>
#include <vector>

#include "ir/plan/plan.h"
#include "ir/plan/waves.h"
#include "runtime/backend/backend.h"
#include "runtime/backend/forward_args.h"

namespace rnnc::cpu {

class Addresses {
 public:
  /// `plan` outlives this.
  explicit Addresses(const Plan& plan) : plan_(plan), buffers_(plan.buffers.size()) {}

  void find(const Call& call, std::byte* resident);
  std::byte* of(BufferId buffer) const { return buffers_[buffer]; }
  int64_t steps() const { return steps_; }
  /// Row 0 of an access; null if it has no buffer.
  std::byte* locate(const Access& access, Position position) const;
  /// Bytes from an access's row 0 at one step to that at the next.
  int64_t bytes_per_step(const Access& access) const;

 private:
  std::byte* memory_of(const Buffer& buffer, const Call& call, std::byte* resident) const;

  const Plan& plan_;
  int64_t steps_ = 0;                // of the call
  std::vector<std::byte*> buffers_;  // as Plan::buffers
};

}  // namespace rnnc::cpu
