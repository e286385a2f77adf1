/// A plan's products and elementwise work, ready to run part by part on any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "codegen/cpu/cpu_code.h"
#include "ir/plan/plan.h"

namespace rnnc::cpu {

/// Some rows of a launch, and of these some of its tiles of columns.
struct Part {
  int64_t row_begin = 0, row_end = 0;
  int64_t tile_begin = 0, tile_end = 0;
  /// The last tiles first, where that is as fast: the cache may still have their weights, if they
  /// were last the time before.
  bool backwards = false;
};

/// Parts may be computed in any order, at the same time, and their bits depend on nothing but the
/// launch's operands.
class PreparedLaunch {
 public:
  virtual ~PreparedLaunch() = default;
  PreparedLaunch(const PreparedLaunch&) = delete;
  PreparedLaunch& operator=(const PreparedLaunch&) = delete;

  /// `addresses` line up with `accesses`, each at row 0; `scratch` has `scratch_bytes`, aligned to
  /// 64, and is the caller's alone.
  virtual void run(void* const* addresses, const Part& part, std::byte* scratch) const = 0;
  /// Packs the weights of one tile into `packed`; `addresses` line up with `weights`.
  virtual void pack(void* const* addresses, int64_t tile) const;
  /// How many times as long as the processor's best the arithmetic of so many rows takes, roughly.
  virtual double slowdown(int64_t /*rows*/) const { return 1; }

  std::vector<Access> accesses;  // some have no buffer, and then no address
  std::vector<Access> weights;
  int64_t tiles = 1;         // of columns
  int64_t columns = 0;       // of each vector argument
  int64_t tile_columns = 0;  // tile i is columns [i, i + 1) * tile_columns; 0: they are not so even
  double operations_per_row = 0;  // roughly: multiply-adds, or instructions times elements
  int64_t operand_bytes = 0;      // of a row, that each tile of a product reads
  int64_t scratch_bytes = 0;
  int64_t packed_bytes = 0;
  std::byte* packed = nullptr;

 protected:
  PreparedLaunch() = default;
  std::span<const std::byte> all_packed() const {
    return {packed, static_cast<size_t>(packed_bytes)};
  }
};

/// An empty launch (of a state that has no such launch) gives null.
std::unique_ptr<PreparedLaunch> prepare_elementwise(const Plan& plan, const CpuModule& module,
                                                    uint32_t kernel,
                                                    const std::vector<Access>& accesses);
/// Of so many rows at most.
std::unique_ptr<PreparedLaunch> prepare_product(const Plan& plan, const CpuModule& module,
                                                const GemmLaunch& launch, int64_t rows);
/// For at most `threads` threads.
std::unique_ptr<PreparedLaunch> prepare_fused(const Plan& plan, const CpuModule& module,
                                              const FusedLaunch& launch, int threads);

}  // namespace rnnc::cpu
