/// Sums over rows: of outer products as matrix products of what is first turned and packed, of rows
/// as they lie.
#pragma once

#include <cstddef>
#include <cstdint>

#include "codegen/cpu/cpu_code.h"
#include "ir/plan/plan.h"
#include "runtime/cpu/gemm.h"
#include "runtime/cpu/thread_pool.h"

namespace rnnc::cpu {

/// Terms of a sum are taken in blocks of so many rows, whose operands the caches hold.
inline constexpr int64_t kTotalRows = 512;

/// A TotalLaunch, ready to run. An element's bits depend on the operands alone, whoever computes
/// it: its terms are added up by rows, in order.
class TotalWork {
 public:
  TotalWork(const Plan& plan, const CpuGemm& gemm, const TotalLaunch& launch);

  const TotalLaunch& launch() const { return launch_; }
  bool is_outer() const { return launch_.right.buffer != kNoBuffer; }
  double operations_per_row() const;

  /// Of the packed right operand, which all threads share…
  int64_t packed_bytes() const;
  /// …and of each thread's part of the left one.
  int64_t scratch_bytes() const;

  /// Pieces of work that are independent of one another: first all of `packs()`, then all of
  /// `units(threads)`, for each block of rows.
  int64_t packs() const { return is_outer() ? launch_.blocks * panels_.count() : 0; }
  int64_t units(int threads) const;

  /// Rows of one block, of which the first is row 0 of `left` and `right`.
  struct Rows {
    const std::byte* left = nullptr;
    const std::byte* right = nullptr;
    std::byte* out = nullptr;
    int64_t count = 0;
    bool accumulate = false;
  };
  void pack(const Rows& rows, int64_t index) const;
  /// `scratch`: the thread's, aligned to 64.
  void run(const Rows& rows, int64_t unit, int64_t units, std::byte* scratch) const;

  std::byte* packed = nullptr;

 private:
  /// Panels lie one behind another, however few rows there are.
  int64_t block_bytes(const Rows& rows) const;
  std::byte* panel(const Rows& rows, int64_t index) const;
  void add_outer_products(const Rows& rows, int64_t unit, int64_t units, std::byte* scratch) const;

  const CpuGemm& gemm_;
  DType dtype_;
  TotalLaunch launch_;
  Panels panels_;  // of a block's right operand
};

}  // namespace rnnc::cpu
