/// What a program's backward call is given (runtime/program/program.h).
#pragma once

#include "runtime/backend/forward_args.h"

namespace rnnc {

/// Arguments of one backward call: what the forward call that filled `reserve` was given, and the
/// gradients of a loss L. Pointers are to the program's device and stay the caller's; lists line up
/// with the Signature. An array's gradient has its shape and dtype.
struct BackwardArgs {
  int64_t steps = 0;
  int64_t batch = 0;
  std::span<const void* const> inputs = {};
  std::span<const void* const> params = {};
  /// What the forward call wrote, if the shape was prepared so (TrainingOptions::outputs); else not
  /// looked at.
  std::span<const void* const> outputs = {};
  /// Of L by each output; null: zero, which takes `TrainingSizes::zeros` more bytes of workspace.
  std::span<const void* const> output_gradients = {};
  /// Empty, or one each; null: zero.
  std::span<const void* const> final_state_gradients = {};
  // Written (param gradients of a shape that was prepared with `accumulate`: added to). Of each list
  // none, or one each: those that the shape was prepared for, and null for the others. Those of
  // initial states may be the memory of `final_state_gradients`.
  std::span<void* const> param_gradients = {};
  std::span<void* const> input_gradients = {};
  std::span<void* const> initial_state_gradients = {};
  bool reuse_params = false;  // as in ForwardArgs
  void* workspace = nullptr;
  size_t workspace_bytes = 0;
  Stream stream = nullptr;
  const int32_t* lengths = nullptr;  // as the forward call's
  const uint8_t* reset = nullptr;
  /// What a forward call of the same shape filled. It stays as it is: a second call gives the same
  /// bits.
  const void* reserve = nullptr;
  size_t reserve_bytes = 0;
  /// The reserve is where another Program, prepared alike for as many steps, has left it, or a copy of
  /// that: that a forward call has filled it is then not checked.
  bool foreign_reserve = false;
  /// As in ForwardArgs, of a shape that was prepared without checkpoints.
  LaunchTimes* times = nullptr;
};

}  // namespace rnnc
