#include "runtime/backend/device.h"

#include <gtest/gtest.h>

namespace rnnc {
namespace {

TEST(Device, ParsesWhatItPrints) {
  EXPECT_EQ(Device::parse("cpu")->kind, Device::Kind::cpu);
  EXPECT_EQ(Device::parse("cuda")->to_string(), "cuda:0");
  EXPECT_EQ(Device::parse("cuda:13")->index, 13);
  EXPECT_EQ(Device::parse("cuda:13")->to_string(), "cuda:13");
  EXPECT_EQ(Device::parse("cpu")->to_string(), "cpu");
}

TEST(Device, RejectsTheRest) {
  for (const char* text :
       {"", "gpu", "CPU", "cuda:", "cuda:x", "cuda:-1", "cuda:1 ", "cpu:0", "cuda:99999999999"}) {
    const Result<Device> device = Device::parse(text);
    ASSERT_FALSE(device) << text;
    EXPECT_EQ(device.error().message,
              std::string("unknown device `") + text + "`: expected `cpu`, `cuda` or `cuda:1`");
  }
}

TEST(Device, ListsBothKindsWithOrWithoutThem) {
  bool cpu = false;
  bool cuda = false;
  for (const DeviceDescription& device : list_devices()) {
    cpu |= device.name == "cpu";
    cuda |= device.name.starts_with("cuda");
    EXPECT_NE(device.usable, !device.reason.empty()) << device.name;
  }
  EXPECT_TRUE(cpu);
  EXPECT_TRUE(cuda);
}

}  // namespace
}  // namespace rnnc
