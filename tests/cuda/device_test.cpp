// What is said of GPUs, on machines with and without one.
#include <gtest/gtest.h>

#include "runtime/backend/backend.h"

namespace rnnc::test {
namespace {

class CudaDevices : public testing::Test {
 protected:
  Error error_of(int index, DType dtype = DType::f32) {
    CompileOptions options;
    options.device = {.kind = Device::Kind::cuda, .index = index};
    options.dtype = dtype;
    const auto backend = make_cuda_backend(options, cache_);
    EXPECT_FALSE(backend.has_value());
    return backend ? Error{} : backend.error();
  }
  KernelCache cache_{""};
};

TEST_F(CudaDevices, AreListedWithAReasonIfUnusable) {
  const std::vector<DeviceDescription> devices = describe_cuda_devices();
  ASSERT_FALSE(devices.empty());
  for (const DeviceDescription& device : devices) {
    EXPECT_TRUE(device.name.starts_with("cuda")) << device.name;
    EXPECT_EQ(device.reason.empty(), device.usable);
    if (device.usable) {
      EXPECT_NE(device.detail.find(", sm_"), std::string::npos) << device.detail;
    }
  }
}

TEST_F(CudaDevices, UnusableOneIsRefusedWithTheSameReason) {
  const DeviceDescription first = describe_cuda_devices()[0];
  if (first.usable) GTEST_SKIP() << "this machine has a GPU";
  EXPECT_EQ(error_of(0).message, "device `cuda:0` cannot be used: " + first.reason);
}

TEST_F(CudaDevices, MissingIndexIsRefused) {
  const std::vector<DeviceDescription> devices = describe_cuda_devices();
  const std::string message = error_of(1000).message;
  if (devices[0].usable) {
    EXPECT_EQ(message, fmt::format("device `cuda:1000` cannot be used: there is no cuda:1000; this "
                                   "machine has {} CUDA device{}",
                                   devices.size(), devices.size() == 1 ? "" : "s"));
  } else {
    EXPECT_EQ(message, "device `cuda:1000` cannot be used: " + devices[0].reason);
  }
}

TEST_F(CudaDevices, RefuseF64) {
  EXPECT_EQ(error_of(0, DType::f64).message,
            "f64 runs on the CPU only; on a GPU use f32, bf16 or f16");
}

}  // namespace
}  // namespace rnnc::test
