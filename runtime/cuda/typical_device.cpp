#include "runtime/cuda/typical_device.h"

#include <algorithm>
#include <string>

namespace rnnc::cuda {
namespace {

struct Typical {
  std::string_view arch;
  const char* name;
  int major, minor;
  int memory_gib;
  int multiprocessors;
  double clock;
  double memory_bandwidth;
  int cache_mib;
  int shared_kib;
};

constexpr Typical kTypical[] = {
    {"sm_80", "NVIDIA A100", 8, 0, 80, 108, 1.41e9, 2.039e12, 40, 163},
    {"sm_86", "NVIDIA A10", 8, 6, 24, 72, 1.695e9, 6.0e11, 6, 99},
    {"sm_89", "NVIDIA L40S", 8, 9, 48, 142, 2.52e9, 8.64e11, 96, 99},
    {"sm_90", "NVIDIA H200", 9, 0, 141, 132, 1.98e9, 3.201e9 * 2 * 6144 / 8, 50, 227},
    {"sm_100", "NVIDIA B200", 10, 0, 180, 148, 1.965e9, 7.7e12, 126, 227},
    {"sm_120", "NVIDIA GeForce RTX 5090", 12, 0, 32, 170, 2.407e9, 1.792e12, 96, 99},
};

}  // namespace

Result<CudaDevice> typical_cuda_device(std::string_view arch) {
  const auto* const found = std::ranges::find(kTypical, arch, &Typical::arch);
  if (found == std::end(kTypical)) {
    std::string known;
    for (const Typical& typical : kTypical) {
      known += fmt::format("{}{}", known.empty() ? "" : ", ", typical.arch);
    }
    return fail("there is no architecture `{}` to compile for ahead of time; there are {}", arch,
                known);
  }
  return CudaDevice{.index = 0,
                    .name = found->name,
                    .major = found->major,
                    .minor = found->minor,
                    .memory_bytes = int64_t{found->memory_gib} << 30,
                    .multiprocessors = found->multiprocessors,
                    .clock = found->clock,
                    .memory_bandwidth = found->memory_bandwidth,
                    .cache_bytes = int64_t{found->cache_mib} << 20,
                    .shared_bytes = int64_t{found->shared_kib} << 10,
                    .registers = int64_t{64} << 10};
}

}  // namespace rnnc::cuda
