/// A plan's launches, each by one or a few calls of the CUDA runtime that neither allocate nor
/// wait.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <span>
#include <vector>

#include "ir/plan/state_steps.h"
#include "runtime/cuda/addresses.h"
#include "runtime/cuda/loaded_kernels.h"
#include "runtime/cuda/plan_products.h"
#include "runtime/cuda/sequence_launches.h"
#include "runtime/cuda/start_kernel.h"

namespace rnnc::cuda {

/// One of the launches of Step stages that go together, at one step.
struct StepLaunch {
  LaunchId launch;
  LaunchPosition position = {};
};

/// One that begins or ends a state, or a step of it.
struct StateLaunch {
  const ElementwiseLaunch* launch = nullptr;
  LaunchPosition position = {};
  StateTurn turn = {};
  /// Of a state that hides, where the call has resets: which entries, and where in the history.
  const StatePlan* state = nullptr;
  CudaEntries entries = CudaEntries::All;
  int64_t place = 0;
};

class Launcher {
 public:
  /// `plan`, `kernels`, `products` and what they refer to outlive this. `program_memory` has
  /// Places::program_bytes, `parameter_block` has `parameter_words(plan)`.
  Launcher(const Plan& plan, const LoadedKernels& kernels, const PlanProducts& products,
           char* program_memory, int64_t* parameter_block);
  Launcher(const Launcher&) = delete;  // parameters point to members
  Launcher& operator=(const Launcher&) = delete;

  /// The call that the launches that follow belong to.
  void bind(const Call& call);

  /// Where the call's buffers lie.
  const Places& places() const { return addresses_.places(); }

  /// Of library workspace, besides what products need.
  size_t workspace_bytes() const;

  /// All of a Once or a Last stage. What copies arrays of the caller's one after another is one launch.
  Status once(size_t stage, LaunchQueue& queue);
  /// That begin or end states, as few launches as can be.
  Status states(std::span<const StateLaunch> launches, LaunchQueue& queue);
  /// Of what a stage's launches exchange in so many steps.
  int64_t exchange_bytes(size_t stage, int64_t steps) const;
  /// Of a launch with an exchange, makes that ready; of other launches, nothing.
  Status clear_exchange(const Launch& launch, int64_t steps, LaunchPosition position,
                        cudaStream_t stream) const;
  /// Of a Sequence stage, over `steps` steps; its exchange must be clear.
  Status sequence(LaunchId id, int64_t steps, LaunchPosition position, LaunchQueue& queue);
  /// Launches of Step stages that are alike (rounds.h), at least one.
  Status step(std::span<const StepLaunch> launches, LaunchQueue& queue);

  /// What totals of a sweep add to becomes zero, but where the first chunk writes it.
  Status clear_totals(uint32_t sweep, LaunchQueue& queue) const;

  /// Writes the parameter block, as at the start of a sweep.
  Status fill_parameter_block(LaunchQueue& queue);
  /// Moves the histories of a sweep, and if `advance` the parameter block on to the next wave.
  /// `before_ends`: in a graph, and does nothing where a sequence's last chunk has come to lag 0.
  Status end_wave(uint32_t sweep, bool advance, bool before_ends, LaunchQueue& queue);

  /// Clears what states begin at, and launches each generated kernel over no rows: the first launch
  /// of one that needs more stack than any before it allocates and waits. Those of recurrences come
  /// apart.
  Status warm_up(LaunchQueue& queue);
  /// Why the device does not take all blocks of one at once, for people; empty: it does.
  Result<std::string> warm_up_recurrences(LaunchQueue& queue);

 private:
  /// A launch and where it runs.
  struct Run {
    LaunchId id;
    int64_t steps = 0;  // of a sweep
    int64_t rows = 0;
    LaunchPosition position = {};  // of the first step
    LaunchPosition first = {};     // of row 0
  };
  Status run(const Run& at, LaunchQueue& queue);
  /// Of kinds without generated code (sequence_launches.h):
  template <typename L>
  Status run(const L&, const Run& at, LaunchQueue& queue) {
    return plain(at, queue);
  }
  Status plain(const Run& at, LaunchQueue& queue) const;
  /// How many of the first launches are of steps of one state whose arrays lie evenly apart. Leaves
  /// the first one's accesses, and how far apart those of the steps are.
  uint32_t find_steps(std::span<const StateLaunch> launches);
  Status run(const ElementwiseLaunch& launch, const Run& at, LaunchQueue& queue);
  Status run(const GemmLaunch& launch, const Run& at, LaunchQueue& queue);
  Status run(const LoopLaunch& launch, const Run& at, LaunchQueue& queue);
  Status run(const ScanLaunch& launch, const Run& at, LaunchQueue& queue);
  Status run(const RecurrenceLaunch& launch, const Run& at, LaunchQueue& queue);
  Status fused(std::span<const StepLaunch> launches, LaunchQueue& queue);
  /// How many launches from one on are copies that go together; 0 if it is none.
  size_t copies_from(LaunchId id) const;
  Status copy(LaunchId first, size_t count, LaunchQueue& queue);
  Status run(const TotalLaunch& launch, const Run& at, LaunchQueue& queue);
  /// Rows that are added up, in slices whose sums are rows of `to`.
  struct RowSums {
    const char* from = nullptr;
    DType dtype = DType::f32;
    int64_t stride = 0;
    int64_t rows = 0;
    int64_t columns = 0;
    int64_t slices = 1;
    char* to = nullptr;
    bool accumulate = false;
  };
  static Status add_rows(cudaKernel_t kernel, RowSums sums, LaunchQueue& queue);
  /// In as many slices as is best, and these.
  static Status add_all_rows(cudaKernel_t kernel, const RowSums& sums, LaunchQueue& queue);
  /// What the scan's tiles have left.
  Status add_partials(const ScanLaunch& launch, const Run& at, LaunchQueue& queue);
  /// What a whole chunk leaves of these, of all scans: rows and columns alone.
  std::vector<RowSums> partial_sums() const;
  /// Whether it writes the one sum that it makes the whole of.
  bool opens_sum(const Run& at) const;

  const Launch& launch_of(LaunchId id) const { return plan_.stages[id.stage].launches[id.index]; }
  const CudaModule& module() const { return kernels_.module(); }
  /// That a launch has; and how it is launched, of the launch's kind.
  cudaKernel_t kernel_of(LaunchId id) const { return kernels_[module().of(id).kernel]; }
  template <typename Shape>
  const Shape& shape_of(LaunchId id) const {
    return std::get<Shape>(module().kernels[module().of(id).kernel].shape);
  }
  void set_accesses(const std::vector<Access>& accesses, LaunchPosition position);
  /// Where row 0 is of a launch over steps from a position on.
  LaunchPosition first_of(LaunchPosition position, int64_t steps) const {
    return {first_row_at(plan_, position, steps), position.replayed};
  }
  /// Where and when a launch runs, for the parameters of generated kernels.
  CudaRows rows_at(CudaRows rows, LaunchPosition position) const;
  CudaStateTurn turn_at(const ElementwiseLaunch& launch, const StateTurn& turn) const;
  CudaStateHide hide_at(const StateLaunch& launch) const;

  const Plan& plan_;
  const LoadedKernels& kernels_;
  const PlanProducts& products_;
  Addresses addresses_;
  int64_t* const parameter_block_;
  SequenceCall call_;
  std::vector<LaunchId> whole_sums_;            // totals whose first chunk writes, and does not add
  std::vector<std::vector<BufferId>> cleared_;  // by sweep: what other totals add to
  // Parameters of the launch that is being made: launches allocate nothing.
  std::vector<CudaAccess> accesses_;
  std::vector<int64_t> apart_;        // likewise, from one of a state's steps to the next
  std::vector<void*> parameters_;     // two of the launch's own, the accesses, one more
  std::vector<std::byte> instances_;  // of a fused or a recurrence launch
};

/// Words of a plan's parameter block.
size_t parameter_words(const Plan& plan);

}  // namespace rnnc::cuda
