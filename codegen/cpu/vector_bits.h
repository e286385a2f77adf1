/// How wide the vectors are that a processor is fastest with.
#pragma once

#include <string_view>

#include "codegen/cpu/cpu_target.h"

namespace rnnc {

/// What CPUID says of an x86-64 processor.
struct Processor {
  std::string_view name = {};   // LLVM's: "sapphirerapids"
  std::string_view brand = {};  // "Intel(R) Xeon(R) Gold 6430", possibly empty
  bool avx512 = false;          // F, VL, BW and DQ
  bool avx2 = false;            // and FMA
};

/// Follows from CPUID alone, so that results have the same bits from run to run.
VectorBits fast_vector_bits(const Processor& processor);

}  // namespace rnnc
