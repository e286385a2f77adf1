#include "passes/options/machine.h"

#include <algorithm>

namespace rnnc {
namespace {

/// The number for products of a storage type.
double of_type(DType dtype, bool tf32, double tensor, double with_tf32, double exact) {
  if (dtype == DType::bf16 || dtype == DType::f16) return tensor;
  return dtype == DType::f32 && tf32 ? with_tf32 : exact;
}

}  // namespace

int64_t Machine::clusters(int64_t blocks) const {
  if (blocks <= 1) return units;
  if (blocks > cluster_units) return 0;
  // One of a size between takes the room of the next.
  size_t size = 0;
  while (int64_t{2} << size < blocks) ++size;
  return clusters_at_once[size];
}

Machine cpu_machine(int threads) {
  // Of one thread: two 256-bit multiply-adds a cycle at about 3 GHz, and its share of the cache.
  constexpr double kFlops = 1e11;
  constexpr double kCacheBandwidth = 6e10;
  Machine machine;
  machine.kind = Machine::Kind::Cpu;
  machine.name = "CPU";
  machine.units = std::max(threads, 1);
  machine.exact_flops = kFlops * machine.units;
  machine.tensor_flops = machine.exact_flops;  // products are computed in f32
  machine.tf32_flops = machine.exact_flops;
  machine.memory_bandwidth = 2e10;
  machine.cache_bandwidth = kCacheBandwidth * machine.units;
  machine.cache_bytes = int64_t{32} << 20;
  machine.launch_seconds = 5e-8;  // a call of a compiled function
  machine.exchange_seconds = 2e-7;
  machine.wave_seconds = 1e-6;
  return machine;
}

Machine h200_machine() {
  Machine machine;
  machine.kind = Machine::Kind::Cuda;
  machine.name = "NVIDIA H200";
  machine.units = 132;
  machine.exact_flops = 6e13;  // 132 SMs of 128 lanes at 1.755 GHz
  machine.tensor_flops = 7.9e14;
  machine.tf32_flops = 3.95e14;
  machine.memory_bandwidth = 4.3e12;  // a measured copy
  machine.cache_bandwidth = 5.5e12;
  machine.cache_bytes = int64_t{50} << 20;
  machine.launch_seconds = 1.3e-6;  // of a node in a graph
  machine.exchange_seconds = 1e-6;
  machine.cluster_seconds = 1.5e-7;
  machine.wave_seconds = 4e-6;  // a graph's start and histories' moves
  machine.submit_seconds = 8e-6;
  machine.fork_seconds = 25e-6;
  // Fitted to bench/results/steps.tsv: 8 to 512 rows of LSTM and GRU, within a fifth.
  machine.step_product = {0.83, 0.62, 0.67, 0.67, 1.5e-6};
  machine.step_fused = {0.13, 0.11, 0.48, 0.67, 1.4e-6};
  machine.step_kernel = {.bandwidth = 0.3};
  machine.shared_bytes = int64_t{227} << 10;
  machine.registers = int64_t{64} << 10;
  machine.cluster_units = 16;
  machine.clusters_at_once = {66, 30, 15, 7};
  return machine;
}

double product_flops(const Machine& machine, DType dtype, bool tf32) {
  const double flops =
      of_type(dtype, tf32, machine.tensor_flops, machine.tf32_flops, machine.exact_flops);
  return dtype == DType::f64 ? flops / 2 : flops;
}

double product_share(const StepShares& shares, DType dtype, bool tf32) {
  return of_type(dtype, tf32, shares.tensor_flops, shares.tf32_flops, shares.exact_flops);
}

}  // namespace rnnc
