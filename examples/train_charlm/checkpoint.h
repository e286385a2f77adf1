/// All that a training run needs to go on as if it had not stopped, in one .safetensors file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "ir/base/status.h"
#include "runtime/arrays/array.h"
#include "runtime/arrays/signature.h"

namespace train_charlm {

/// In the file numbers stand under `run.` and lists under `param.` and the like, so that `rnnc run
/// --weights FILE --weight-prefix param.` runs what was trained.
struct Checkpoint {
  int64_t step = 0;
  int64_t position = 0;  // in each stream of the text: where the next piece begins
  uint32_t text = 0;     // a hash of the text
  std::vector<rnnc::NamedArray> params, mean, variance, states;
};

/// Whole or not at all: a run that is killed leaves the file that was there before.
rnnc::Status write_checkpoint(const std::filesystem::path& path, const Checkpoint& checkpoint);

/// Lists are in the signature's order. An error if the file is not of such a program, batch size
/// and text.
rnnc::Result<Checkpoint> read_checkpoint(const std::filesystem::path& path,
                                         const rnnc::Signature& signature, int64_t batch,
                                         uint32_t text);

}  // namespace train_charlm
