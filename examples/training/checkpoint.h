/// All that a training run needs to go on as if it had not stopped, in one .safetensors file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "examples/training/trainer.h"
#include "ir/base/status.h"
#include "runtime/arrays/array.h"
#include "runtime/arrays/signature.h"

namespace training {

/// In the file numbers stand under `run.` and lists under `param.` and the like, so that `rnnc run
/// --weights FILE --weight-prefix param.` runs what was trained.
struct Checkpoint : Trained {
  int64_t position = 0;  // in the data: where the next piece is read
  uint32_t data = 0;     // a hash of the data
};

/// Whole or not at all: a run that is killed leaves the file that was there before.
rnnc::Status write_checkpoint(const std::filesystem::path& path, const Checkpoint& checkpoint);

/// What a checkpoint must be of.
struct CheckpointSource {
  std::string program;
  std::vector<rnnc::ArrayInfo> params;
  std::vector<rnnc::ArrayInfo> states;  // that pieces hand on
  int64_t batch = 0;
  uint32_t data = 0;
};

/// Lists are in the source's order. An error if the file is of another.
rnnc::Result<Checkpoint> read_checkpoint(const std::filesystem::path& path,
                                         const CheckpointSource& source);

}  // namespace training
