/// Loops over the steps of a chunk as LLVM functions of the type `CpuSteps`.
#pragma once

#include <llvm/IR/Module.h>

#include "codegen/cpu/cpu_loops.h"
#include "codegen/cpu/host_target.h"

namespace rnnc {

/// Adds `loop_name(loop.stage)` to `module`, and the functions of its rounds if it is a scan.
/// Arithmetic is in `dtype`, f32 or f64.
void emit_loop(llvm::Module& module, const HostTarget& host, const CpuLoop& loop, DType dtype);

}  // namespace rnnc
