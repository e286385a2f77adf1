/// Which instructions and vectors code for the CPU may use.
#pragma once

#include <compare>
#include <cstdint>
#include <string>

#include "ir/base/status.h"

namespace rnnc {

/// Code for a level that the host lacks can be emitted but not run.
enum class CpuLevel : uint8_t {
  Host,      // all that this machine has
  Avx2,      // x86-64-v3
  Baseline,  // any x86-64: no fused multiply-add
};

/// Bits of a vector in the tiles of matrix products, and in elementwise kernels, which are at most
/// as wide. 0: what is fast on the processor (codegen/cpu/vector_bits.h).
struct VectorBits {
  unsigned products = 0;
  unsigned elementwise = 0;
  friend auto operator<=>(const VectorBits&, const VectorBits&) = default;
};

struct CpuTarget {
  CpuLevel level = CpuLevel::Host;
  VectorBits vectors = {};
  friend auto operator<=>(const CpuTarget&, const CpuTarget&) = default;
};

/// "host", "avx2", "baseline".
Result<CpuLevel> parse_cpu_level(const std::string& text);
std::string to_string(CpuLevel level);
/// "512", or "512,256": of products, of elementwise kernels.
Result<VectorBits> parse_vector_bits(const std::string& text);

/// Whether there is such code: an error says which vectors there are instead.
Status check_target(const CpuTarget& target);
/// Whether this machine can run it, too.
Status check_runs(const CpuTarget& target);

/// CPU name, vectors and features that code is compiled for (part of the cache key).
std::string target_description(const CpuTarget& target);
/// For people: "znver4, 512-bit vectors".
std::string target_summary(const CpuTarget& target);

}  // namespace rnnc
