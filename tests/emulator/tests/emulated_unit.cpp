#include "tests/emulator/tests/emulated_unit.h"

#include <gtest/gtest.h>

#include "codegen/cuda/cuda_code.h"
#include "codegen/cuda/device/prelude.h"

namespace rnnc::test {

EmulatedUnit::EmulatedUnit(const std::string& kernels) {
  const Result<std::string> image = compile_cubin(std::string(kCudaPrelude) + kernels, "sm_90");
  if (!image) {
    ADD_FAILURE() << image.error().message;
    return;
  }
  EXPECT_EQ(cudaLibraryLoadData(&library_, image->data(), nullptr, nullptr, 0, nullptr, nullptr, 0),
            cudaSuccess);
}

EmulatedUnit::~EmulatedUnit() {
  if (library_ != nullptr) cudaLibraryUnload(library_);
}

cudaError_t EmulatedUnit::launch(const char* name, const LaunchOptions& options,
                                 void** parameters) const {
  cudaKernel_t kernel = nullptr;
  if (cudaError_t error = cudaLibraryGetKernel(&kernel, library_, name); error != cudaSuccess) {
    return error;
  }
  if (options.cluster > 8) {
    cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
  }
  cudaLaunchAttribute attributes[3] = {};
  attributes[0].id = cudaLaunchAttributeCooperative;
  attributes[0].val.cooperative = options.cooperative ? 1 : 0;
  attributes[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[1].val.programmaticStreamSerializationAllowed = options.overlaps ? 1 : 0;
  attributes[2].id = cudaLaunchAttributeClusterDimension;
  attributes[2].val.clusterDim = {options.cluster, 1, 1};
  cudaLaunchConfig_t config = {};
  config.gridDim = options.grid;
  config.blockDim = options.block;
  config.dynamicSmemBytes = options.shared_bytes;
  config.stream = options.stream;
  config.attrs = attributes;
  config.numAttrs = options.cluster > 0 ? 3 : 2;
  return cudaLaunchKernelExC(&config, kernel, parameters);
}

}  // namespace rnnc::test
