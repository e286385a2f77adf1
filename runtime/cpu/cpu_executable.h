/// Runs a compiled plan on the CPU: the loop of ir/plan.h.
#pragma once

#include <memory>
#include <vector>

#include "codegen/cpu/cpu_code.h"
#include "runtime/backend.h"
#include "runtime/cpu/gemm.h"
#include "runtime/cpu/memory.h"
#include "runtime/cpu/thread_pool.h"

namespace rnnc {

/// The caller walks through the plan and shares out every launch that is worth it. Which launches
/// those are follows from sizes alone, and no element's value depends on who computes it.
class CpuExecutable : public Executable {
 public:
  static Result<std::unique_ptr<CpuExecutable>> create(Plan plan, std::unique_ptr<CpuModule> module,
                                                       ThreadPools& pools);
  Status forward(const ForwardArgs& args, bool run_once) override;

 private:
  /// Where the sequence stands: step t of the chunk that begins at t0.
  struct Position {
    int64_t t = 0;
    int64_t t0 = 0;
  };
  /// What is known of a launch before it runs.
  struct PreparedLaunch {
    std::vector<int64_t> strides;   // Elementwise: per argument
    double operations_per_row = 0;  // roughly, in elements
    GemmShape shape;                // Gemm: of one block
    int64_t packed_offset = 0;      // Gemm: bytes into packed_
    int64_t packed_bytes = 0;       // Gemm: of one block
  };
  struct PreparedState {
    PreparedLaunch init_given, init_declared, write_final;
  };

  CpuExecutable(Plan plan, std::unique_ptr<CpuModule> module);
  Status prepare(ThreadPools& pools);
  PreparedLaunch prepare_launch(const Launch& launch, int64_t& packed_bytes) const;
  int useful_threads() const;
  int64_t rows_at_most(const Stage& stage, const Launch& launch) const;

  void find_buffers(const ForwardArgs& args);
  std::byte* memory_of(const Buffer& buffer, const ForwardArgs& args) const;
  void run_once_stages();
  void run_sweep(uint32_t sweep);
  void run_chunk(uint32_t sweep, int64_t t0, int64_t steps);
  void keep_history(uint32_t sweep, int64_t steps);

  void run_launch(const Launch& launch, const PreparedLaunch& prepared, int64_t rows,
                  Position position);
  // `rows` rows from (position.t, 0) on.
  void run(const ElementwiseLaunch& launch, const PreparedLaunch& prepared, int64_t rows,
           Position position);
  void run(const GemmLaunch& launch, const PreparedLaunch& prepared, int64_t rows,
           Position position);
  void run(const CopyLaunch& launch, const PreparedLaunch& prepared, int64_t rows,
           Position position);
  void run(const ReverseLaunch& launch, const PreparedLaunch& prepared, int64_t rows,
           Position position);
  void run(const MaskLaunch& launch, const PreparedLaunch& prepared, int64_t rows,
           Position position);
  void pack(const GemmLaunch& launch, const PreparedLaunch& prepared);
  int64_t length_of(int64_t sequence) const;
  bool mask_value(MaskLaunch::Kind kind, int64_t t, int64_t sequence) const;
  /// Calls work(unit, thread) for every unit, on several threads if the operations are worth it.
  template <typename Work>
  void share_out(int64_t units, double operations, const Work& work);
  /// Calls work(begin, end, thread) for ranges that make up [0, rows).
  template <typename Work>
  void share_out_rows(int64_t rows, double operations_per_row, const Work& work);
  std::byte* locate(const Access& access, Position position) const;

  Plan plan_;
  std::unique_ptr<CpuModule> module_;
  ThreadPool* pool_ = nullptr;  // null: one thread
  size_t scratch_stride_ = 0;   // bytes per thread
  AlignedMemory resident_, packed_, scratch_;
  std::vector<std::vector<PreparedLaunch>> stages_;  // as Plan::stages
  std::vector<PreparedState> states_;                // as Plan::states

  // Of the call that is running.
  int64_t steps_ = 0;
  const int32_t* lengths_ = nullptr;
  const uint8_t* reset_ = nullptr;
  std::vector<std::byte*> buffers_;  // as Plan::buffers
  std::vector<void*> arguments_;     // of the kernel that runs now
};

}  // namespace rnnc
