/// Plan → LLVM IR → machine code for this host. Only this folder sees LLVM.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ir/plan.h"

namespace rnnc {

/// A compiled elementwise kernel: rows [row_begin, row_end) and, if it has no reductions, columns
/// [column_begin, column_end) of them, else all columns. `arguments[i]` points at row 0 of argument
/// i, rows of it lie `strides[i]` elements apart, as in the plan's launches of the kernel. Pure,
/// reentrant, touches only its arguments' memory and `scratch`, which holds at least
/// `CpuModule::scratch_bytes`, 64-byte aligned. A vector argument that is written may be in the
/// place of one that is loaded, if there are no reductions.
///
/// Of an argument that is a product's result, column j lies j * `strides[arguments + i]` elements
/// from column 0 for j that are `column_begin` and a multiple of `CpuGemm::lanes`; the columns in
/// between follow one another. There whole vectors are read.
using CpuKernel = void (*)(void* const* arguments, const int64_t* strides, int64_t row_begin,
                           int64_t row_end, int64_t column_begin, int64_t column_end,
                           void* scratch);

/// A tile of a matrix product: for r below the tile's number of rows and j < columns,
/// out[r * out_stride + j] = (add_to_out ? itself : 0) + sum over i < k of
/// left[r * left_stride + i] * panel[i * panel_columns + j]. The sum runs over i in order, fused
/// multiply-adds where the host has them, so an element's bits depend on its row and column alone.
/// Cache line i from `next` on is asked for meanwhile; any address will do.
using CpuGemmTile = void (*)(const void* left, int64_t left_stride, const void* panel, void* out,
                             int64_t out_stride, int64_t k, int64_t columns, int64_t add_to_out,
                             const void* next);

/// The matrix product kernels of a module. Weights are packed in panels of `panel_columns` columns.
struct CpuGemm {
  int64_t lanes = 0;  // elements of a vector; a panel has some whole ones
  int64_t panel_columns = 0;
  std::vector<CpuGemmTile> tiles;  // tiles[r - 1] computes r rows; empty: the plan has no products
};

/// Which instructions generated code may use. Code for a level that the host lacks can be emitted
/// but not run.
enum class CpuLevel : uint8_t {
  Host,      // all that this machine has
  Avx2,      // x86-64-v3
  Baseline,  // any x86-64: no fused multiply-add
};

/// CPU name and feature string that code is compiled for (part of the cache key).
std::string cpu_target_description(CpuLevel level = CpuLevel::Host);
/// The host's for people: "znver4, 512-bit vectors".
std::string cpu_summary();
/// "19.1.7".
std::string llvm_version();

/// LLVM IR before and assembly after optimisation, for `rnnc emit`: the plan's kernels and, if it
/// has products, their tiles.
Result<std::string> emit_llvm(const Plan& plan, CpuLevel level = CpuLevel::Host);
Result<std::string> emit_assembly(const Plan& plan, CpuLevel level = CpuLevel::Host);

/// LLVM IR of the kernels alone: all that their object code depends on besides
/// `cpu_target_description` and `llvm_version`.
Result<std::string> emit_kernels_llvm(const Plan& plan, CpuLevel level = CpuLevel::Host);

/// Relocatable object code of a plan's kernels, and of the products' tiles, which are the same for
/// all plans of a dtype: what the kernel cache keeps.
Result<std::string> compile_object(const Plan& plan, CpuLevel level = CpuLevel::Host);
Result<std::string> compile_gemm_object(DType dtype, CpuLevel level = CpuLevel::Host);

/// Whether any launch of the plan is a matrix product, so that it needs the tiles.
bool has_products(const Plan& plan);

/// Object code loaded into this process.
class CpuModule {
 public:
  /// `gemm_object` counts only if the plan has products.
  static Result<std::unique_ptr<CpuModule>> load(const Plan& plan, const std::string& object,
                                                 const std::string& gemm_object,
                                                 CpuLevel level = CpuLevel::Host);
  virtual ~CpuModule() = default;
  /// One per `Plan::kernels`; valid while the module lives.
  virtual const std::vector<CpuKernel>& kernels() const = 0;
  virtual const CpuGemm& gemm() const = 0;
  virtual size_t scratch_bytes() const = 0;
};

}  // namespace rnnc
