/// A loss, compiled from a .rnn file.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "runtime/program/program.h"

namespace training {

/// A vector that a program must take or give, such as `x` of [58], "a one-hot character". An input
/// may be `int []` instead, the place of the one, where data have numbers.
struct NeededVector {
  std::string name;
  int64_t size = 0;
  std::string what;
  bool or_number = false;
};

/// What must be in the signature of a loss.
struct LossSignature {
  std::vector<NeededVector> inputs;        // all that there are
  std::vector<NeededVector> outputs = {};  // besides `loss`, a scalar; there may be others
  bool in_pieces = false;                  // of long sequences: nothing may run in reverse
  rnnc::DimBindings dims = {};             // that the data know, where the graph has such
};

/// The cell or network `name`, or the file's last one, with such a signature. Dims that the inputs'
/// sizes decide need not be given. An error says what is wrong with the file or the signature.
rnnc::Result<rnnc::Program> compile_loss(const std::filesystem::path& file, std::string name,
                                         const LossSignature& needed, rnnc::CompileOptions options);

}  // namespace training
