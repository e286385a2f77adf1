/// Where a plan's buffers lie on the device, for launches with addresses of their own and for
/// launches in replayed graphs, which find the movable ones through the parameter block.
#pragma once

#include <vector>

#include "codegen/cuda/kernel_abi.h"
#include "ir/plan.h"
#include "runtime/program.h"

namespace rnnc {

/// The first step of a launch: `step` steps after the start of the chunk at `chunk_start`.
struct Position {
  int64_t chunk_start = 0;
  int64_t step = 0;
};

class Addresses {
 public:
  /// `plan` outlives this; `resident` is the base of its resident memory.
  Addresses(const Plan& plan, char* resident);

  /// The caller's and the workspace's addresses, for the calls of `pointer`, `direct` and
  /// `parameter_block` that follow.
  void bind(const ForwardArgs& args);

  /// Row 0 of an access.
  char* pointer(const Access& access, Position position) const;
  CudaAccess direct(const Access& access, Position position) const;
  /// For a graph that is replayed for every chunk and every call: nothing that `bind` sets and no
  /// chunk's start is in it.
  CudaAccess replayed(const Access& access, int64_t step) const;

  /// Words of the parameter block. The first is the chunk's first step: 0.
  size_t parameter_words() const { return movable_.size() + 1; }
  const std::vector<int64_t>& parameter_block();

 private:
  const Buffer& buffer_of(const Access& access) const { return plan_.buffers[access.buffer]; }
  int64_t offset(const Access& access, int64_t step) const;

  const Plan& plan_;
  std::vector<char*> bases_;       // per buffer
  std::vector<int32_t> slots_;     // per buffer; -1 for resident ones
  std::vector<BufferId> movable_;  // per slot
  std::vector<int64_t> block_;
};

}  // namespace rnnc
