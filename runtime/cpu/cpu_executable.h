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

/// All threads walk through the plan together; each computes its share of a launch that is worth
/// sharing, the caller computes the others alone, and a barrier stands wherever one thread could
/// read what another writes. Who computes what follows from sizes alone, and no element's value
/// depends on it.
class CpuExecutable : public Executable {
 public:
  /// `pool` null: one thread.
  static Result<std::unique_ptr<CpuExecutable>> create(Plan plan, std::unique_ptr<CpuModule> module,
                                                       std::shared_ptr<ThreadPool> pool);
  Status forward(const ForwardArgs& args, bool run_once) override;

 private:
  /// One thread's way through the plan.
  struct Walker {
    int thread = 0;
    bool shared = false;           // the last launch was shared out
    std::vector<void*> arguments;  // of the kernel that runs now
    std::byte* scratch = nullptr;
  };
  /// Where the sequence stands: step t of the chunk that begins at t0.
  struct Position {
    int64_t t = 0;
    int64_t t0 = 0;
  };
  struct PreparedLaunch {
    std::vector<int64_t> strides;   // Elementwise: per argument
    double operations_per_row = 0;  // roughly, in elements
    GemmShape shape;                // Gemm
    int64_t packed_offset = 0;      // Gemm: bytes into packed_
  };
  using PreparedLaunches = std::vector<PreparedLaunch>;

  CpuExecutable(Plan plan, std::unique_ptr<CpuModule> module, std::shared_ptr<ThreadPool> pool);
  Status prepare();
  PreparedLaunch prepare_launch(const Launch& launch, int64_t& packed_bytes) const;
  int useful_threads() const;
  int64_t rows_at_most(const Stage& stage, const Launch& launch) const;

  void find_buffers(const ForwardArgs& args);
  static void walk_on_thread(void* executable, int thread);
  void walk(Walker& walker);
  void run_once_stages(Walker& walker);
  void run_chunk(Walker& walker, int64_t t0, int64_t steps);
  void keep_history(Walker& walker, int64_t steps);
  void run(Walker& walker, const Launch& launch, const PreparedLaunch& prepared, int64_t rows,
           Position position);
  void run_elementwise(Walker& walker, const ElementwiseLaunch& launch,
                       const PreparedLaunch& prepared, int64_t rows, Position position);
  void run_gemm(Walker& walker, const GemmLaunch& launch, const PreparedLaunch& prepared,
                int64_t rows, Position position);
  void pack(Walker& walker, const GemmLaunch& launch, const PreparedLaunch& prepared);
  void run_copy(Walker& walker, const CopyLaunch& launch);
  bool is_shared(double operations, int64_t units) const;
  bool enter(Walker& walker, bool shared);
  Share share(const Walker& walker, bool shared) const;
  std::byte* locate(const Access& access, Position position) const;

  Plan plan_;
  std::unique_ptr<CpuModule> module_;
  std::shared_ptr<ThreadPool> pool_;
  int threads_ = 1;
  AlignedMemory resident_, packed_, scratch_;
  std::vector<PreparedLaunches> stages_;  // as Plan::stages
  struct PreparedState {
    PreparedLaunch init_given, init_declared, write_final;
  };
  std::vector<PreparedState> states_;  // as Plan::states
  std::vector<Walker> walkers_;        // per thread

  // Of the call that is running.
  std::vector<std::byte*> buffers_;  // as Plan::buffers
  const ForwardArgs* args_ = nullptr;
  bool run_once_ = false;
};

}  // namespace rnnc
