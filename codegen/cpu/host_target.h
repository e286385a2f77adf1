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
  unsigned vector_bits = 128;
  unsigned vector_registers = 16;
  bool fma = false;
  bool x86 = false;
};

/// Found once; initialises LLVM's code generator for the host. Thread-safe.
const HostTarget& host_target(CpuLevel level);

/// A code generator for the host: position-independent code in the small code model.
Result<std::unique_ptr<llvm::TargetMachine>> make_target_machine(const HostTarget& host);

}  // namespace rnnc
