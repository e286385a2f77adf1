/// Training calls of a program whose output is a loss, with its memory on the device.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/program/device_array.h"
#include "runtime/program/program.h"

namespace training {

/// What one call reads: [T, B, ...] each, in any element type.
struct Piece {
  rnnc::Array x, target;
  /// It begins with the declared initial states even if pieces go on from each other.
  bool fresh = false;
};

/// What all pieces of a run are like.
struct PieceShape {
  int64_t batch = 0, steps = 0;
  /// Each begins with the states that the one before ended with, and gradients end where it begins:
  /// truncated backpropagation through time (Williams & Peng 1990). Else all begin as declared.
  bool go_on = false;
  /// The loss counts at the last step alone.
  bool last_counts = false;
};

/// The params as the host keeps them: in f32, or f64 if the program is.
std::vector<rnnc::ArrayInfo> host_params(const rnnc::Signature& signature);

class Trainer {
 public:
  /// Of a program with inputs `x` and `target` and a scalar output `loss`.
  static rnnc::Result<Trainer> make(rnnc::Program& program, const PieceShape& shape);

  /// The mean of the losses of a piece that count. `params` as `host_params`.
  rnnc::Result<double> forward(const std::vector<rnnc::NamedArray>& params, const Piece& piece);
  /// The gradients of the last forward call's result by the params, as `host_params`.
  rnnc::Result<std::vector<rnnc::NamedArray>> backward();

  /// What the next piece begins with, [B, ...] each; a checkpoint keeps them. Of pieces that go on.
  rnnc::Result<std::vector<rnnc::NamedArray>> states() const;
  rnnc::Status load_states(const std::vector<rnnc::NamedArray>& states);

 private:
  Trainer(rnnc::Program& program, const PieceShape& shape);
  rnnc::Status prepare();
  rnnc::Status allocate();
  rnnc::Status give_loss_gradients();
  /// Losses before the first that counts.
  int64_t first_counted() const {
    return shape_.last_counts ? (shape_.steps - 1) * shape_.batch : 0;
  }

  rnnc::Program* program_;
  PieceShape shape_;
  size_t loss_ = 0;        // the output's number
  double loss_scale_ = 1;  // gradients on the device are so much larger
  std::vector<rnnc::DeviceArray> inputs_, params_, states_, outputs_, gradients_;
  rnnc::DeviceArray loss_gradient_, workspace_, reserve_, reset_;
  // What calls are given.
  std::vector<const void*> input_pointers_, param_pointers_, initial_states_, output_gradients_;
  std::vector<void*> output_pointers_, final_states_, param_gradients_;
  size_t workspace_bytes_ = 0, reserve_bytes_ = 0;
  const uint8_t* begins_ = nullptr;  // of the last forward call: where sequences begin
};

}  // namespace training
