/// Trains a program whose output is a loss, with all memory on its device.
#pragma once

#include <cstdint>
#include <vector>

#include "examples/training/adamw.h"
#include "runtime/program/device_array.h"
#include "runtime/program/program.h"

namespace training {

/// What one call reads: [T, B, ...] each, in any element type, or numbers of one-hot vectors' ones
/// (`as_input`).
struct Piece {
  rnnc::Array x, target;
  /// It begins with the declared initial states even if pieces go on from each other.
  bool fresh = false;
};

/// Numbers [T, B] in i32 as the input takes them: as they are, or [T, B, V] with ones at their
/// places. All else stays as it is.
rnnc::Array as_input(const rnnc::Array& array, const rnnc::ArrayInfo& input);

/// What all pieces of a run are like.
struct PieceShape {
  int64_t batch = 0, steps = 0;
  /// Each begins with the states that the one before ended with, and gradients end where it begins:
  /// truncated backpropagation through time (Williams & Peng 1990). Else all begin as declared.
  bool go_on = false;
  /// The loss counts at the last step alone.
  bool last_counts = false;
};

/// What a run that goes on needs, on the host, in the program's order.
struct Trained {
  int64_t step = 0;  // updates so far
  std::vector<rnnc::NamedArray> params;
  std::vector<rnnc::NamedArray> mean, variance;  // AdamW's, under the params' names
  std::vector<rnnc::NamedArray> states;          // [B, ...] each, where pieces go on
};

class Trainer {
 public:
  /// Of a program with inputs `x` and `target` and a scalar output `loss`. Params, in f32 or f64,
  /// are zero until they are loaded. A program whose params are 16-bit gets them rounded, through
  /// the host: better are programs of `CompileOptions::param_dtype`.
  static rnnc::Result<Trainer> make(rnnc::Program& program, const PieceShape& shape,
                                    const AdamWOptions& options);

  /// Lists that are empty stay as they are.
  rnnc::Status load(const Trained& trained);
  rnnc::Result<Trained> trained();
  rnnc::Result<std::vector<rnnc::NamedArray>> params() const {
    return params_[current_].download();
  }
  int64_t steps() { return adamw_.steps(); }

  /// One update by the gradients of the mean of the losses of a piece that count. That mean, from
  /// before the update; where it is not finite, nothing is updated.
  rnnc::Result<double> update(const Piece& piece);

 private:
  Trainer(rnnc::Program& program, const PieceShape& shape, AdamW adamw);
  rnnc::Status prepare();
  rnnc::Status allocate();
  rnnc::Status give_loss_gradients();
  rnnc::Status load_inputs(const Piece& piece);
  rnnc::Status run(bool fresh);
  rnnc::Result<double> mean_loss() const;
  /// Losses before the first that counts.
  int64_t first_counted() const {
    return shape_.last_counts ? (shape_.steps - 1) * shape_.batch : 0;
  }

  rnnc::Program* program_;
  PieceShape shape_;
  AdamW adamw_;
  size_t loss_ = 0;        // the output's number
  double loss_scale_ = 1;  // gradients on the device are so much larger
  ArrayRows params_[2];    // an update reads one and writes the other
  size_t current_ = 0;     // where the params are
  ArrayRows gradients_;
  bool is_rounded_ = false;  // the program's params and gradients are 16-bit, and these
  ArrayRows rounded_params_, rounded_gradients_;
  std::vector<rnnc::DeviceArray> inputs_, states_, outputs_;
  rnnc::DeviceArray loss_gradient_, workspace_, reserve_, reset_;
  // What calls are given.
  std::vector<const void*> input_pointers_, initial_states_, output_gradients_;
  std::vector<void*> output_pointers_, final_states_;
  size_t workspace_bytes_ = 0, reserve_bytes_ = 0;
};

}  // namespace training
