/// A linear recurrence without products, tiles of time shared out among threads (ScanLaunch).
#pragma once

#include <algorithm>
#include <vector>

#include "codegen/cpu/cpu_code.h"
#include "ir/plan/plan.h"
#include "runtime/cpu/loop_stage.h"

namespace rnnc::cpu {

/// As many tiles at a time as stay in the threads' caches: round by round, threads compose the maps
/// of tiles, and the states before each tile follow from these, one tile after the other; then
/// threads go through the tiles again, step by step from these states.
///
/// A composed map may be infinite, or NaN, where step by step nothing is, and it does not overflow
/// where a step in between does. So it counts only where nothing on the way can come near overflow;
/// elsewhere the tile's steps say which states are behind it.
///
/// What is added up over the steps is so in each tile and row first, and then tile by tile, and row
/// by row within one.
///
/// Tiles of a chunk are the same for all numbers of threads, and so are the bits.
class ScanStage : public ChunkStage {
 public:
  /// For at most `threads` threads. `plan` and the module of the functions outlive this.
  ScanStage(const Plan& plan, const Stage& stage, CpuSteps steps, std::vector<CpuScanRound> rounds,
            int64_t lanes, int threads);

  int threads() const override { return threads_; }
  int64_t memory_bytes() const override;
  void use_memory(std::byte* memory) override { memory_ = memory; }
  void run(const Crew& crew, const Addresses& addresses, const ThreadScratch& scratch,
           Position start, int64_t steps) override;

 private:
  /// Tiles that run side by side, of a chunk of `steps`.
  struct Wave {
    int64_t first = 0;  // tile
    int64_t count = 0;
    int64_t steps = 0;
    int64_t tiles = 0;  // of the chunk
    /// Nobody asks what is behind the last tile of a chunk.
    int64_t composed() const { return std::min(count, tiles - 1 - first); }
  };

  /// Elements of rows are handed on, and added up, so many at a time: no element needs another.
  static constexpr int64_t kColumnsAtOnce = 64;
  struct Columns {
    int64_t row = 0;
    int64_t begin = 0;
    int64_t end = 0;
  };
  int64_t blocks() const;
  Columns columns_of(int64_t unit) const;

  int64_t steps_of(const Wave& wave, int64_t tile) const;
  void take_first_states();
  void compose(const Wave& wave, size_t round, int64_t unit, int thread);
  void hand_on(const Wave& wave, size_t round, int64_t unit, int thread);
  template <typename T>
  void hand_on(const Wave& wave, size_t round, int64_t tile, const Columns& of, int thread);
  template <typename T>
  bool apply(const ScanRound& round, int64_t tile, const Columns& of);
  void go_through(const Wave& wave, int64_t unit, int thread);
  void add_totals(const Wave& wave, int64_t unit);
  template <typename T>
  void add_totals(const Wave& wave, size_t total, const Columns& of);
  void keep_last_states(const Wave& wave);
  void** arguments_at(const Wave& wave, int64_t tile, int64_t row, int thread);

  // ---- Rows of the kernel's length in `memory_` ----

  std::byte* row_at(int64_t index) const { return memory_ + index * row_bytes_; }
  /// Of a tile of the wave; the one behind the last has the next wave's first states.
  std::byte* state(int64_t tile, int64_t row, size_t carry) const;
  std::byte* state_behind(int64_t tile, int64_t row, size_t carry) const;
  std::byte* word(int64_t tile, int64_t row, int64_t word) const;
  std::byte* partial(int64_t tile, int64_t row, size_t total) const;

  const Plan& plan_;
  const ScanLaunch& launch_;
  StepCalls calls_;
  CpuSteps steps_;
  std::vector<CpuScanRound> rounds_;
  int threads_ = 1;
  int64_t at_once_ = 1;  // tiles
  int64_t words_ = 0;    // of a round's map, the most of any
  int64_t row_bytes_ = 0;
  std::byte* memory_ = nullptr;
  std::vector<void*> first_;                   // arguments of row 0 at the first step
  std::vector<std::vector<void*>> arguments_;  // per thread
};

}  // namespace rnnc::cpu
