/// What a call of a program is given (runtime/program/program.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace rnnc {

class LaunchTimes;

/// A cudaStream_t on a GPU; unused on the CPU. nullptr is the default stream.
using Stream = void*;

/// Arguments of one forward call. Pointers are to the program's device and stay the caller's.
/// Lists line up with the Signature.
struct ForwardArgs {
  int64_t steps = 0;
  int64_t batch = 0;
  std::span<const void* const> inputs = {};
  std::span<const void* const> params = {};
  std::span<void* const> outputs = {};
  /// Empty, or one each; null: as declared (an implied state of a given one: its value).
  std::span<const void* const> initial_states = {};
  /// Empty, or one each; null: not wanted. May be the memory of `initial_states`.
  std::span<void* const> final_states = {};
  /// Promises that the memory of `params` has not changed since the last call that was given it, so
  /// that values derived from params alone (packed weights) are not made again. Where other params
  /// came in between, which the program knows, they are made again all the same. It does not see
  /// replays of calls that were captured in a CUDA graph.
  bool reuse_params = false;
  void* workspace = nullptr;  // any address: `workspace_size` includes room to align it
  size_t workspace_bytes = 0;
  Stream stream = nullptr;

  /// [B] on the device, steps of each sequence, clamped to [0, steps]; null: all are `steps` long.
  /// Past a sequence's end its states stay and its outputs are zero. A layer in reverse begins at
  /// each sequence's own last step.
  const int32_t* lengths = nullptr;
  /// [T, B] on the device; nonzero at (t, b): sequence b begins anew at step t, with the declared
  /// initial states (not given ones) and nothing before. Null: never.
  const uint8_t* reset = nullptr;

  /// Filled with what a backward call needs, if it is not null: then the shape was prepared for
  /// training, with the initial states that are given here. Any address.
  void* reserve = nullptr;
  size_t reserve_bytes = 0;

  /// Filled with when each launch ran, if it is not null: the call then allocates, waits for its
  /// GPU, and takes somewhat longer. Not on a stream that is being captured.
  LaunchTimes* times = nullptr;
};

}  // namespace rnnc
