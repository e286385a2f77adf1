/// A plan's code, as `rnnc emit` prints it. Needs no GPU.
#pragma once

#include <string>
#include <string_view>

#include "codegen/cpu/cpu_target.h"
#include "ir/base/status.h"
#include "ir/plan/plan.h"

namespace rnnc::explain {

/// What it is made for: the one that the form needs counts.
struct CodeTarget {
  CpuTarget cpu = {};
  std::string arch = "sm_90";
};

/// Of a plan for the CPU "llvm" (before it is optimised) or "asm"; of one for a GPU "cuda", "ptx" or
/// "cubin", whose bytes are no text. An error if the build lacks the backend.
Result<std::string> emit_code(const Plan& plan, std::string_view form, const CodeTarget& target);

}  // namespace rnnc::explain
