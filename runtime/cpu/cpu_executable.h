/// Runs a compiled plan on the CPU: the loop of ir/plan/plan.h.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "codegen/cpu/cpu_code.h"
#include "runtime/backend/backend.h"
#include "runtime/cpu/addresses.h"
#include "runtime/cpu/chunk_stage.h"
#include "runtime/cpu/memory.h"
#include "runtime/cpu/prepared_launch.h"
#include "runtime/cpu/thread_pool.h"
#include "runtime/cpu/total.h"
#include "runtime/cpu/tracks.h"

namespace rnnc::cpu {

/// The caller walks through the plan. Launches over a whole chunk are shared out one by one if they
/// are worth it, stages of steps as a whole; or the tracks of a wave run side by side, a thread
/// each. Which follows from sizes alone, and no element's value depends on who computes it.
class CpuExecutable : public Executable {
 public:
  static Result<std::unique_ptr<CpuExecutable>> create(Plan plan, std::unique_ptr<CpuModule> module,
                                                       ThreadPools& pools);
  Status run(const Call& call, bool run_once) override;

 private:
  using Launches = std::vector<std::unique_ptr<PreparedLaunch>>;
  struct PreparedStage {
    Launches launches;  // as Stage::launches; null: neither product nor kernel
    std::vector<std::unique_ptr<TotalWork>> totals;  // likewise; null: not one
    std::unique_ptr<ChunkStage> steps;               // of domain Step, and loops
  };
  struct PreparedState {
    Launches init_given, init_declared, write_final, hide;  // of each of its steps
  };

  CpuExecutable(Plan plan, std::unique_ptr<CpuModule> module);
  Status prepare(ThreadPools& pools);
  std::unique_ptr<PreparedLaunch> prepare_launch(const Launch& launch, int64_t rows,
                                                 int most_threads) const;
  void prepare_stages(int most_threads);
  void prepare_states();
  void estimate_tracks(int threads);
  Status allocate(int threads);
  /// All launches, those of states too.
  std::vector<PreparedLaunch*> prepared_launches() const;
  int useful_threads(int most_threads) const;
  int64_t rows_of(const Stage& stage, const Launch& launch, int64_t steps) const;
  double operations_of(size_t stage, size_t launch) const;

  void record(LaunchTimes* times);
  void run_once_stages();
  void run_last_stages();
  void clear_totals(uint32_t sweep);
  void run_sweep(uint32_t sweep);
  void begin_states(uint32_t sweep, const Wave& wave);
  /// What lies behind resets in a state's history, as the caller has it at the sequences' ends.
  void hide(uint32_t state, Position position);
  void run_wave(uint32_t sweep, const Wave& wave);
  void run_track(const Track& track, const Wave& wave, const Crew& crew);
  void end_states(uint32_t sweep, const Wave& wave);
  void keep_history(uint32_t sweep);

  void run_launch(const Launch& launch, const PreparedLaunch* prepared, int64_t rows,
                  Position position, const Crew& crew);
  void run_parts(const PreparedLaunch& launch, int64_t rows, Position position, const Crew& crew);
  void pack(const PreparedLaunch& launch);
  /// `rows` rows from (position.t, 0) on.
  void run(const TotalWork& total, int64_t rows, Position position, const Crew& crew);
  Crew everyone() const { return {.pool = pool_}; }
  /// The addresses of accesses, in the thread's `pointers_`.
  void* const* locate(const std::vector<Access>& accesses, Position position, int thread);

  Plan plan_;
  std::unique_ptr<CpuModule> module_;
  ThreadPool* pool_ = nullptr;  // null: one thread
  AlignedMemory program_memory_, packed_, scratch_memory_;
  ThreadScratch scratch_;
  std::vector<PreparedStage> stages_;           // as Plan::stages
  std::vector<PreparedState> states_;           // as Plan::states
  std::vector<std::vector<Track>> tracks_;      // per sweep
  std::vector<std::vector<BufferId>> cleared_;  // per sweep, when it begins

  // Of the call that is running.
  Addresses addresses_;
  Call call_;
  std::vector<std::vector<void*>> pointers_;  // per thread: of the launch that it runs now
};

}  // namespace rnnc::cpu
