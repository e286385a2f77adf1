/// Calls that neither wait for a GPU nor allocate.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>

#include "ir/base/status.h"

namespace rnnc::test {

/// Expectations of gtest fail if `work`, which gives the stream something to do, waits for the
/// stream or takes memory of the device. Other processes on the GPU must leave theirs as it is.
void expect_neither_waits_nor_allocates(cudaStream_t stream, const std::function<Status()>& work);

}  // namespace rnnc::test
