/// Launches whose kernels stand in sequence.cuh.
#pragma once

#include <cuda_runtime_api.h>

#include "codegen/cuda/device/kernel_abi.h"
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

/// The first `count` copies, by the kernel kCudaCopyName. The error says `what` was not done.
Status start_copies(cudaKernel_t kernel, CudaCopies copies, size_t count, LaunchQueue& queue,
                    const char* what);
/// One launch, of rows from `first` on.
Status run_sequence(const SequenceRun& at, const Launch& launch);

}  // namespace rnnc::cuda
