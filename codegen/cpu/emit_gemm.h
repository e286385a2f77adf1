/// Matrix product tiles as LLVM functions of the type `CpuGemmTile`.
#pragma once

#include <llvm/IR/Module.h>

#include <string>

#include "codegen/cpu/host_target.h"
#include "ir/dtype.h"

namespace rnnc {

/// The largest tile: its sums, one vector of weights and the rows' elements fill the registers.
struct GemmTiling {
  int rows = 0;
  int64_t lanes = 0;
  int64_t panel_columns = 0;
};
GemmTiling gemm_tiling(const HostTarget& host, DType dtype);

/// Name of the function that computes `rows` rows.
std::string gemm_tile_name(int rows);

/// Adds one function per number of rows, from 1 to the tiling's.
void emit_gemm_tiles(llvm::Module& module, const HostTarget& host, DType dtype);

}  // namespace rnnc
