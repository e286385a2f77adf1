/// An NVIDIA GPU in software, for tests: CUDA's runtime, NVRTC and cuBLASLt as far as rnnc uses
/// them (README.md). What tests set and ask besides; not thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace rnnc::emulator {

struct Settings {
  int multiprocessors = 4;
  int most_blocks = 32;                 // at once on a multiprocessor
  int most_cooperative_blocks = 1'024;  // in a launch, whatever multiprocessors say
  int most_clusters = 1'024;            // at once, whatever multiprocessors say; 0: launches fail
  int spilling_units = 0;               // those loaded next have kernels that spill registers
  int spilled_bytes = 64;               // so many
  bool under_mps = false;
  int wrong_algorithms = 0;  // of cuBLASLt's, its favourites, which leave a part unwritten
};
Settings& settings();
/// Decides every order that a GPU leaves open, from now on.
void set_seed(uint64_t seed);

/// What programs did wrong since the last call: deadlocks, writes outside of memory, and so on. The
/// device works again afterwards.
std::vector<std::string> take_faults();
/// From then on the device fails, and says this first.
void add_fault(const std::string& what);

/// How much streams were given since the last call: kernels, cuBLASLt's products, copies, memory
/// that is set, events, whole graphs. What is captured counts when the graph is launched.
int64_t take_launches();

/// Whether units can be compiled here; else why not.
std::string missing_compiler();

}  // namespace rnnc::emulator
