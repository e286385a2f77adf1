/// Where a plan's buffers are during a call.
#pragma once

#include <cstddef>

#include "ir/plan/plan.h"
#include "ir/plan/waves.h"
#include "runtime/backend/backend.h"
#include "runtime/backend/forward_args.h"
#include "runtime/backend/places.h"

namespace rnnc::cpu {

class Addresses {
 public:
  /// `plan` outlives this.
  explicit Addresses(const Plan& plan) : plan_(plan), places_(plan, kAlignment) {}

  /// The program's own memory, of `Places::program_bytes`.
  void use_program_memory(std::byte* memory) { places_.use_program_memory(memory); }
  void find(const Call& call);
  const Places& places() const { return places_; }
  std::byte* of(BufferId buffer) const { return places_.address(buffer); }
  int64_t steps() const { return steps_; }
  /// Row 0 of an access; null if it has no buffer.
  std::byte* locate(const Access& access, Position position) const;
  /// Bytes from an access's row 0 at one step to that at the next.
  int64_t bytes_per_step(const Access& access) const;

 private:
  /// Generated code wants elements aligned, which a call's are.
  static constexpr size_t kAlignment = 1;

  const Plan& plan_;
  int64_t steps_ = 0;  // of the call
  Places places_;
};

}  // namespace rnnc::cpu
