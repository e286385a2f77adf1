/// Where a plan's buffers lie on the device, for launches with addresses of their own and for
/// launches in replayed graphs, which find the movable ones through the parameter block.
#pragma once

#include <vector>

#include "codegen/cuda/device/kernel_abi.h"
#include "ir/plan/plan.h"
#include "ir/plan/waves.h"
#include "runtime/backend/backend.h"
#include "runtime/backend/forward_args.h"
#include "runtime/backend/places.h"

namespace rnnc::cuda {

/// Where the first step of a launch is.
struct LaunchPosition : Position {
  /// In a graph of ours, which is replayed for every wave and every call: `chunk_start` counts from
  /// the start of the chunk that lag 0 is at.
  bool replayed = false;
};

class Addresses {
 public:
  /// `plan` outlives this; `program_memory` has Places::program_bytes.
  Addresses(const Plan& plan, char* program_memory);

  /// The caller's and the workspace's addresses, and the steps, for the calls that follow.
  void bind(const Call& call);
  const Places& places() const { return places_; }
  /// Of the call.
  int64_t steps() const { return steps_; }

  /// Row 0 of an access. In a graph only program memory has an address.
  char* pointer(const Access& access, LaunchPosition position) const;
  /// Row (0, 0) of a sequence, or row 0 of a buffer that is turned.
  char* start(const Access& access) const {
    return reinterpret_cast<char*>(places_.address(access.buffer)) +
           access.column * static_cast<int64_t>(size_of(buffer_of(access).dtype));
  }
  /// Row 0 of an access, or no array if it has no buffer; in a graph, nothing that `bind` sets is
  /// in it.
  CudaAccess at(const Access& access, LaunchPosition position) const;

  /// The parameter block at the start of a sweep.
  const std::vector<int64_t>& parameter_block() const { return block_; }

 private:
  const Buffer& buffer_of(const Access& access) const { return plan_.buffers[access.buffer]; }
  bool is_fixed(const Access& access) const { return slots_[access.buffer] < 0; }
  int64_t first_step(const Buffer& buffer, int64_t steps) const;
  int64_t bytes_from(const Access& access, const Places::Row& row) const;

  const Plan& plan_;
  int64_t steps_ = 1;  // of the call
  Places places_;
  std::vector<int32_t> slots_;   // per place; -1 in program memory
  std::vector<size_t> movable_;  // per slot: its place
  std::vector<int64_t> block_;   // the parameter block
};

}  // namespace rnnc::cuda
