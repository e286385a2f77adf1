/// The machine that code is compiled for: this one, or one with fewer instructions.
#pragma once

#include <llvm/Target/TargetMachine.h>

#include <memory>
#include <string>

#include "codegen/cpu/cpu_code.h"

namespace rnnc {

struct HostTarget {
  std::string triple;
  std::string cpu;
  std::string features;  // "+avx2,-avx512f,…", sorted
  VectorBits vectors;    // neither is 0
  unsigned vector_registers = 16;
  bool fma = false;
  bool avx512 = false;  // F, VL, BW and DQ: for vectors of any width
  bool x86 = false;
};

/// Found once for each target; initialises LLVM's code generator for the host. Thread-safe. The
/// target is one that `check_target` finds right.
const HostTarget& host_target(const CpuTarget& target);

/// A code generator for the host: position-independent code in the small code model.
Result<std::unique_ptr<llvm::TargetMachine>> make_target_machine(const HostTarget& host);

}  // namespace rnnc
