// Needs a GPU, and fails where there is none. Carried to another machine, it finds the goldens and
// examples with --data DIR (the root of the source tree) or RNNC_TEST_DATA.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string_view>

#include "runtime/backend/backend.h"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i + 1 < argc; ++i) {
    if (std::string_view(argv[i]) == "--data") setenv("RNNC_TEST_DATA", argv[i + 1], 1);
  }
  const std::vector<rnnc::DeviceDescription> devices = rnnc::describe_cuda_devices();
  for (const rnnc::DeviceDescription& device : devices) {
    fmt::print("{}: {}\n", device.name, device.usable ? device.detail : device.reason);
  }
  if (!devices[0].usable) {
    fmt::print("FAILED: these tests need an NVIDIA GPU that rnnc can use\n");
    return 1;
  }
  return RUN_ALL_TESTS();
}
