/// Whole training runs of small character models, on any device, beside PyTorch's
/// (tests/goldens/make_training.py).
#pragma once

#include <string>
#include <vector>

#include "runtime/program/program.h"

namespace rnnc::test {

/// The loss of each of 50 steps, before its update.
struct TrainingLosses {
  std::vector<double> actual;
  std::vector<double> expected;  // PyTorch's, in float64
};

/// Trains examples/train_charlm's model with LSTM or GRU as its cell: with the example's trainer and
/// AdamW, from the golden's params and in its order. `options` need no dims.
Result<TrainingLosses> train_beside_torch(const std::string& cell, CompileOptions options);

}  // namespace rnnc::test
