/// What the cost model knows of a machine: rates and latencies, in SI units, as measured or as its
/// maker gives them.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "ir/base/dtype.h"

namespace rnnc {

/// What a kind of launch reaches in one step, which is too short for a machine's rates.
struct StepShares {
  // Of the rates:
  double tensor_flops = 1;
  double tf32_flops = 1;
  double exact_flops = 1;
  double bandwidth = 1;
  double seconds = 0;  // besides
};

struct Machine {
  enum class Kind : uint8_t { Cpu, Cuda };
  Kind kind = Kind::Cpu;
  std::string name = "CPU";
  int units = 1;                   // threads, or streaming multiprocessors
  double exact_flops = 1e11;       // per second, all units: f32 (f64: half)
  double tensor_flops = 1e11;      // bf16 and f16 products
  double tf32_flops = 1e11;        // f32 products that may round to TF32
  double memory_bandwidth = 2e10;  // bytes per second, reads and writes together
  double cache_bandwidth = 1e11;   // of the largest cache that all units share
  int64_t cache_bytes = 32 << 20;  // of that cache
  double launch_seconds = 1e-6;    // of a launch that waits for the one before it
  double exchange_seconds = 1e-6;  // from a unit's store to the load of all others
  double cluster_seconds = 1e-6;   // likewise, of two units of a cluster
  double wave_seconds = 1e-6;      // from the end of a wave to the start of the next
  double submit_seconds = 0;       // until the thread that made a launch can make another
  double fork_seconds = 0;         // of a wave on several streams, beside what these do
  // Of launches of a step:
  StepShares step_product = {};  // a library's product
  StepShares step_fused = {};    // products with elementwise work
  StepShares step_kernel = {};   // elementwise work
  // Of a GPU's unit, for one block of threads:
  int64_t shared_bytes = 0;  // of shared memory
  int64_t registers = 0;     // of 32 bits
  // Of a GPU's clusters of blocks, each block on a unit of its own:
  int cluster_units = 0;                         // most units of one; 0: there are no clusters
  std::array<int64_t, 4> clusters_at_once = {};  // of 2, 4, 8 and 16 blocks

  /// So many clusters of `blocks` blocks run at the same time; 0 if `blocks` are too many for one.
  int64_t clusters(int64_t blocks) const;
};

/// A CPU of so many threads, one unit each.
Machine cpu_machine(int threads);
/// An NVIDIA H200 (132 SMs), for plans that are made where no GPU is.
Machine h200_machine();

/// Rate of products of storage type `dtype`.
double product_flops(const Machine& machine, DType dtype, bool tf32);
/// The share of it.
double product_share(const StepShares& shares, DType dtype, bool tf32);

}  // namespace rnnc
