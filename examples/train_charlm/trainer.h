/// Training calls of a program whose output is a loss, with its memory on the device.
#pragma once

#include <cstdint>
#include <vector>

#include "examples/train_charlm/char_text.h"
#include "runtime/program/device_array.h"
#include "runtime/program/program.h"

namespace train_charlm {

/// Truncated backpropagation through time (Williams & Peng 1990): each piece begins with the states
/// that the piece before it ended with, and gradients end where it begins.
class Trainer {
 public:
  /// Of a program with inputs `x` and `target`, and a scalar output `loss`, for pieces of one shape.
  static rnnc::Result<Trainer> make(rnnc::Program& program, int64_t batch, int64_t steps);

  /// The mean loss of a piece. `fresh`: it begins with the declared initial states.
  rnnc::Result<double> forward(const std::vector<rnnc::NamedArray>& params, const Piece& piece,
                               bool fresh);
  /// The gradients of the last forward call's mean loss by the params.
  rnnc::Result<std::vector<rnnc::NamedArray>> backward();

  /// What the next piece begins with, [B, ...] each; a checkpoint keeps them.
  rnnc::Result<std::vector<rnnc::NamedArray>> states() const;
  rnnc::Status load_states(const std::vector<rnnc::NamedArray>& states);

 private:
  Trainer(rnnc::Program& program, int64_t batch, int64_t steps);
  rnnc::Status prepare();
  rnnc::Status allocate();

  rnnc::Program* program_;
  int64_t batch_, steps_;
  size_t loss_ = 0;  // the output's number
  std::vector<rnnc::DeviceArray> inputs_, params_, states_, outputs_, gradients_;
  rnnc::DeviceArray loss_gradient_, workspace_, reserve_, reset_;
  // What calls are given.
  std::vector<const void*> input_pointers_, param_pointers_, initial_states_, output_gradients_;
  std::vector<void*> output_pointers_, final_states_, param_gradients_;
  size_t workspace_bytes_ = 0, reserve_bytes_ = 0;
  const uint8_t* begins_ = nullptr;  // of the last forward call: where sequences begin
};

}  // namespace train_charlm
