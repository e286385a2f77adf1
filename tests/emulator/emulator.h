/// An NVIDIA GPU in software, for tests: CUDA's runtime, NVRTC and cuBLASLt as far as rnnc uses
/// them (README.md). What tests set and ask besides; not thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace rnnc::emulator {

struct Settings {
  int multiprocessors = 4;
};
Settings& settings();
/// Decides every order that a GPU leaves open, from now on.
void set_seed(uint64_t seed);

/// What programs did wrong since the last call: deadlocks, writes outside of memory, and so on. The
/// device works again afterwards.
std::vector<std::string> take_faults();
/// From then on the device fails, and says this first.
void add_fault(const std::string& what);

/// Whether units can be compiled here; else why not.
std::string missing_compiler();

}  // namespace rnnc::emulator
