/// What a program is trained for, and what its calls then need.
#pragma once

#include <cstddef>
#include <vector>

#include "passes/gradient/residuals.h"

namespace rnnc {

/// What a shape is trained for. Lists are per array of the Signature, or empty.
struct TrainingOptions {
  // Whose gradients are wanted: what is not costs nothing. Empty: of all params, of no others.
  std::vector<bool> params = {};
  std::vector<bool> inputs = {};
  std::vector<bool> initial_states = {};  // of those that are given
  /// States whose initial value calls give. The gradient of the others goes to what their declared
  /// value is made of. Empty: none.
  std::vector<bool> given_states = {};
  ResidualChoice residuals = ResidualChoice::Auto;
  /// Backward calls are given what the forward call wrote to its outputs (BackwardArgs::outputs). A
  /// state's earlier values that are an output are then not in the reserve: of a state that begins
  /// with zero, where nothing is given for it, without lengths, checkpoints and reversed layers.
  bool outputs = false;
  /// Steps between checkpoints (Chen et al. 2016, arXiv:1604.06174); 0: none. The reserve then has
  /// the states at each alone, and `backward` runs the forward half again from one to the next,
  /// from the last to the first, with residuals of so many steps in its workspace: the same bits.
  /// Rounded up to whole chunks of the plans. Not where a layer runs in reverse.
  int64_t checkpoint = 0;
  /// Gradients of params are added to what their arrays hold.
  bool accumulate = false;

  friend bool operator==(const TrainingOptions&, const TrainingOptions&) = default;
};

/// What no reserve of T steps and B sequences is larger than, whatever the shape is prepared for:
/// fixed + per_step * T + per_sequence * B + per_row * T * B bytes.
struct ReserveBound {
  size_t fixed = 0;
  size_t per_step = 0;
  size_t per_sequence = 0;
  size_t per_row = 0;

  size_t at(int64_t batch, int64_t steps) const {
    const auto sequences = static_cast<size_t>(batch);
    const auto count = static_cast<size_t>(steps);
    return fixed + per_step * count + per_sequence * sequences + per_row * count * sequences;
  }
};

/// Bytes that calls of a number of steps need, room to align them included.
struct TrainingSizes {
  size_t forward_workspace = 0;
  size_t backward_workspace = 0;
  /// On top of it, where the gradient of some output is null.
  size_t zeros = 0;
  /// At least 1, since a forward call without a reserve is none of training.
  size_t reserve = 0;
};

}  // namespace rnnc
