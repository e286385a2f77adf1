/// A recurrence without products: its generated code goes through the steps (CpuSteps), with states
/// in registers.
#pragma once

#include <vector>

#include "codegen/cpu/cpu_code.h"
#include "ir/plan/plan.h"
#include "runtime/cpu/chunk_stage.h"

namespace rnnc::cpu {

/// What its functions are called with, for any row and step.
class StepCalls {
 public:
  /// `plan` outlives this.
  StepCalls(const Plan& plan, const Stage& stage);

  const Kernel& kernel() const { return *kernel_; }
  size_t arguments() const { return accesses_->size(); }
  const int64_t* strides() const { return strides_.data(); }
  /// Bytes that a step of all rows loads and stores.
  int64_t bytes_per_step() const;

  /// Of row 0 at a position.
  void locate(const Addresses& addresses, Position position, void** arguments) const;
  /// From there to a row, so many steps on.
  void move(void* const* from, int64_t row, int64_t steps, void** arguments) const;

 private:
  const Plan& plan_;
  const Kernel* kernel_ = nullptr;
  const std::vector<Access>* accesses_ = nullptr;
  std::vector<int64_t> strides_;  // elements from one step to the next
  int64_t element_ = 0;           // bytes
};

/// Step by step. Threads have rows, or where these are too few columns too; no element's bits depend
/// on whose it is.
class LoopStage : public ChunkStage {
 public:
  /// For at most `threads` threads. `plan` and the module of `function` outlive this.
  LoopStage(const Plan& plan, const Stage& stage, CpuSteps function, int64_t lanes, int threads);

  int threads() const override { return static_cast<int>(parts_.size()); }
  void run(const Crew& crew, const Addresses& addresses, const ThreadScratch& scratch,
           Position start, int64_t steps) override;

 private:
  struct Part {
    int64_t row_begin = 0, row_end = 0;
    int64_t column_begin = 0, column_end = 0;
  };
  void run_part(const Part& part, void* const* first, int64_t steps, void** arguments) const;

  StepCalls calls_;
  CpuSteps function_;
  std::vector<Part> parts_;
  int64_t steps_at_once_ = 1;
  std::vector<void*> first_;                   // arguments of row 0 at the first step
  std::vector<std::vector<void*>> arguments_;  // per thread
};

}  // namespace rnnc::cpu
