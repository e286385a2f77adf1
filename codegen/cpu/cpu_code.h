/// Plan → LLVM IR → machine code for this host. Only this folder sees LLVM.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "codegen/cpu/cpu_target.h"
#include "ir/plan/plan.h"

namespace rnnc {

/// A compiled elementwise kernel: rows [row_begin, row_end) and, if it has no reductions, columns
/// [column_begin, column_end) of them, else all columns. `arguments[i]` points at row 0 of argument
/// i, rows of it lie `strides[i]` elements apart, as in the plan's launches of the kernel. Pure,
/// reentrant, touches only its arguments' memory and `scratch`, which holds at least
/// `CpuModule::scratch_bytes`, 64-byte aligned. A vector argument that is written may be in the
/// place of one that is loaded, if there are no reductions.
///
/// Of an argument that is a product's result, column j lies j * `strides[arguments + i]` elements
/// from column 0 for j that are `column_begin` plus a multiple of `CpuGemm::lanes`; the columns in
/// between follow one another. What `column_end` leaves of such a vector lies
/// `strides[2 * arguments + i]` elements before that.
using CpuKernel = void (*)(void* const* arguments, const int64_t* strides, int64_t row_begin,
                           int64_t row_end, int64_t column_begin, int64_t column_end,
                           void* scratch);

/// Steps of a loop over time, at least one, of columns [column_begin, column_end) of one row.
/// `arguments[i]` points at the row at the first step, and goes on by `strides[i]` elements from step
/// to step; of what is carried, `load` points at the state before the first step, and `store` to
/// where the one behind the last goes. What a scan adds up for totals is stored once, the sum over
/// these steps. Pure, reentrant. In the place of an argument that is loaded at a step there
/// may be one that is stored at it.
using CpuSteps = void (*)(void* const* arguments, const int64_t* strides, int64_t steps,
                          int64_t column_begin, int64_t column_end);

/// Of a round of a scan, over steps of columns of one row (CpuSteps). `map` composes their maps from
/// the states of earlier rounds, and writes to where the arguments behind the kernel's point, a row
/// each: coefficients [m, m], offsets [m], and the greatest size that any of these had on the way
/// (codegen/cpu/emit_round_map.h). `states` goes through the steps with the states of this round and
/// earlier ones. Neither writes anything else, and neither looks at later rounds' states.
struct CpuScanRound {
  CpuSteps map = nullptr;
  CpuSteps states = nullptr;
};

/// A tile of a matrix product: for r below the tile's number of rows and j < columns,
/// out[r * out_stride + j] = (add_to_out ? itself : 0) + sum over i < k of
/// left[r * left_stride + i] * panel[i * width + j], where the panel is `width` elements wide. The
/// sum runs over i in order, fused multiply-adds where the host has them, so an element's bits
/// depend on its row and column alone. Cache line i from `next` on is asked for meanwhile; any
/// address will do.
using CpuGemmTile = void (*)(const void* left, int64_t left_stride, const void* panel, void* out,
                             int64_t out_stride, int64_t k, int64_t columns, int64_t add_to_out,
                             const void* next);

/// Vectors side by side in a panel of packed weights, at most.
inline constexpr int64_t kMostPanelVectors = 4;

/// The matrix product kernels of a module. Weights are packed in panels of 1 to `kMostPanelVectors`
/// vectors.
struct CpuGemm {
  int64_t lanes = 0;    // elements of a vector
  int64_t block_k = 0;  // terms of a sum before it is added to the result
  /// tiles[v - 1][r - 1] computes r rows by a panel of v vectors; empty: the plan has no products.
  std::array<std::vector<CpuGemmTile>, kMostPanelVectors> tiles;
};

/// "19.1.7".
std::string llvm_version();

/// LLVM IR before and assembly after optimisation, for `rnnc emit`: the plan's kernels and, if it
/// has products, their tiles.
Result<std::string> emit_llvm(const Plan& plan, const CpuTarget& target = {});
Result<std::string> emit_assembly(const Plan& plan, const CpuTarget& target = {});

/// A plan's kernels as LLVM IR, before they are compiled.
class CpuKernels {
 public:
  static Result<std::unique_ptr<CpuKernels>> emit(const Plan& plan, const CpuTarget& target = {});
  virtual ~CpuKernels() = default;
  /// The IR: all that the object code depends on besides `target_description` and `llvm_version`.
  virtual std::string text() const = 0;
  /// Relocatable object code: what the kernel cache keeps. Once: the IR is no longer the same then.
  virtual Result<std::string> compile() = 0;
};

/// Both at once.
Result<std::string> compile_object(const Plan& plan, const CpuTarget& target = {});

/// Object code of the products' tiles, which are the same for all plans of a dtype.
Result<std::string> compile_gemm_object(DType dtype, const CpuTarget& target = {});

/// Whether any launch of the plan is a matrix product, so that it needs the tiles.
bool has_products(const Plan& plan);

/// Object code loaded into this process.
class CpuModule {
 public:
  /// `gemm_object` counts only if the plan has products.
  static Result<std::unique_ptr<CpuModule>> load(const Plan& plan, const std::string& object,
                                                 const std::string& gemm_object,
                                                 const CpuTarget& target = {});
  virtual ~CpuModule() = default;
  /// One per `Plan::kernels`, null where loops alone run it; valid while the module lives.
  virtual const std::vector<CpuKernel>& kernels() const = 0;
  /// One per `Plan::stages`; null: the stage is no loop, or runs its kernel step by step.
  virtual const std::vector<CpuSteps>& loops() const = 0;
  /// One per `Plan::stages`, with the rounds of those that are scans.
  virtual const std::vector<std::vector<CpuScanRound>>& rounds() const = 0;
  virtual const CpuGemm& gemm() const = 0;
  virtual size_t scratch_bytes() const = 0;
};

}  // namespace rnnc
