/// Matrix product tiles as LLVM functions of the type `CpuGemmTile`.
#pragma once

#include <llvm/IR/Module.h>

#include <string>

#include "codegen/cpu/host_target.h"
#include "ir/base/dtype.h"

namespace rnnc {

/// A tile of so many rows and vectors of columns.
struct GemmTile {
  int rows = 1;
  int vectors = 1;
};

/// Rows of the largest tile of so many vectors whose sums are in registers with what a term takes.
int most_tile_rows(const HostTarget& host, int vectors);

/// Elements of a vector.
int64_t gemm_lanes(const HostTarget& host, DType dtype);

/// Terms of a sum that are added up before they are added to the result.
int64_t gemm_block_k(const HostTarget& host);

/// Name of the function that computes a tile.
std::string gemm_tile_name(const GemmTile& tile);

/// Adds a function for each tile of 1 to `kMostPanelVectors` vectors and 1 to `most_tile_rows`
/// rows.
void emit_gemm_tiles(llvm::Module& module, const HostTarget& host, DType dtype);

}  // namespace rnnc
