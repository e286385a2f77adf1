/// Launches whose kernels stand in sequence.cuh, or that a copy of the CUDA runtime does.
#pragma once

#include <cuda_runtime_api.h>

#include "ir/plan/plan.h"
#include "runtime/cuda/addresses.h"
#include "runtime/cuda/start_kernel.h"

namespace rnnc::cuda {

/// Of the call that is running.
struct SequenceCall {
  const int32_t* lengths = nullptr;
  const uint8_t* reset = nullptr;
  int64_t steps = 0;
  int64_t first_step = 0;  // CallPiece's
  bool begins = true;      // likewise
};

struct SequenceRun {
  const Plan& plan;
  const Addresses& addresses;
  SequenceCall call;
  LaunchQueue& queue;
  cudaKernel_t kernel = nullptr;  // of the launch (cuda_sequence_kernel); null: it has none
  int64_t rows = 0;
  LaunchPosition first = {};  // of row 0
};

/// One launch, of rows from `first` on.
Status run_sequence(const SequenceRun& at, const Launch& launch);

}  // namespace rnnc::cuda
