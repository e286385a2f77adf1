// What the cost model is told of a GPU.
#include <gtest/gtest.h>

#include "runtime/cuda/cuda_device.h"

namespace rnnc::cuda {
namespace {

CudaDevice h200() {
  return {.index = 0,
          .name = "NVIDIA H200",
          .major = 9,
          .minor = 0,
          .memory_bytes = int64_t{141} << 30,
          .multiprocessors = 132,
          .clock = 1.98e9,
          .memory_bandwidth = 4.917e12,
          .cache_bytes = int64_t{50} << 20,
          .shared_bytes = int64_t{227} << 10,
          .registers = int64_t{64} << 10};
}

TEST(CudaMachine, OfAnH200IsTheMeasuredOne) {
  const Machine machine = cuda_machine(h200());
  const Machine measured = h200_machine();
  EXPECT_EQ(machine.name, measured.name);
  EXPECT_EQ(machine.units, measured.units);
  EXPECT_DOUBLE_EQ(machine.exact_flops, measured.exact_flops);
  EXPECT_DOUBLE_EQ(machine.tensor_flops, measured.tensor_flops);
  EXPECT_NEAR(machine.memory_bandwidth, measured.memory_bandwidth, 1e10);
  EXPECT_EQ(machine.shared_bytes, measured.shared_bytes);
  EXPECT_EQ(machine.registers, measured.registers);
  EXPECT_EQ(machine.cluster_units, measured.cluster_units);
  EXPECT_EQ(machine.clusters_at_once, measured.clusters_at_once);
}

TEST(CudaMachine, OfOthersIsScaled) {
  CudaDevice device = h200();
  device.multiprocessors = 66;
  device.memory_bandwidth /= 4;
  EXPECT_DOUBLE_EQ(cuda_machine(device).exact_flops, h200_machine().exact_flops / 2);
  EXPECT_NEAR(cuda_machine(device).memory_bandwidth, h200_machine().memory_bandwidth / 4, 1e10);
  // An A100 has half the lanes for f32.
  device.major = 8;
  EXPECT_DOUBLE_EQ(cuda_machine(device).exact_flops, h200_machine().exact_flops / 4);
}

TEST(CudaMachine, HasClustersOfSomeArchitectures) {
  CudaDevice device = h200();
  const auto clusters = [&](int64_t blocks) { return cuda_machine(device).clusters(blocks); };
  EXPECT_EQ(clusters(1), 132);
  EXPECT_EQ(clusters(2), 66);
  EXPECT_EQ(clusters(3), 30);
  EXPECT_EQ(clusters(4), 30);
  EXPECT_EQ(clusters(5), 15);
  EXPECT_EQ(clusters(16), 7);
  EXPECT_EQ(clusters(17), 0);
  device.multiprocessors = 66;
  EXPECT_EQ(clusters(4), 15);
  EXPECT_EQ(clusters(16), 3);
  device.major = 12;
  EXPECT_EQ(cuda_machine(device).cluster_units, 0);
  EXPECT_EQ(clusters(2), 0);
}

TEST(CudaMachine, WithoutAKnownInterfaceKeepsTheBandwidth) {
  CudaDevice device = h200();
  device.memory_bandwidth = 0;
  EXPECT_DOUBLE_EQ(cuda_machine(device).memory_bandwidth, h200_machine().memory_bandwidth);
}

}  // namespace
}  // namespace rnnc::cuda
