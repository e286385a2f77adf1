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
  /// Gradients of params are added to what their arrays hold.
  bool accumulate = false;

  friend bool operator==(const TrainingOptions&, const TrainingOptions&) = default;
};

/// Bytes that calls of a number of steps need, room to align them included.
struct TrainingSizes {
  size_t forward_workspace = 0;
  size_t backward_workspace = 0;
  /// On top of it, where the gradient of some output is null.
  size_t zeros = 0;
  /// At most 256 * (residuals + 1) + T * B * (bytes of their elements).
  size_t reserve = 0;
};

}  // namespace rnnc
