/// What calls of a shape that is trained run: both halves of its derivative, and the reserve between
/// them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/backend/backward_args.h"
#include "runtime/program/prepared_shape.h"
#include "runtime/program/training_memory.h"

namespace rnnc {

/// `options` are complete (Planner::complete).
Result<ReserveBound> reserve_bound(const Planner& planner, SequenceFeatures features,
                                   const TrainingOptions& options, const Machine& machine);

/// A call runs as one piece of all its steps or, with checkpoints, as several: a forward call from
/// the first to the last, keeping the states with which each begins; a backward call from the last
/// to the first, running each forward once more before.
class PreparedTraining {
 public:
  /// `options` are complete (Planner::complete); `planner` and `backend` outlive this.
  static Result<PreparedTraining> make(const Planner& planner, const PlanShape& shape,
                                       const TrainingOptions& options, Backend& backend,
                                       const KernelCache& cache);

  const TrainingOptions& options() const { return options_; }
  int64_t max_steps() const { return forward_.max_steps; }
  const ChosenPlan& forward_plan() const { return forward_.chosen; }
  const ChosenPlan& backward_plan() const { return backward_.chosen; }
  /// As in Program::notes, on the gradients themselves.
  const std::vector<std::string>& notes() const { return notes_; }
  /// Another for each shape and each time that it is prepared.
  uint64_t id() const { return id_; }
  TrainingSizes sizes(int64_t steps) const;

  /// `args` are checked but for the reserve and given states. `params`: as in PreparedShape.
  Status check(const ForwardArgs& args) const;
  Status forward(const ForwardArgs& args, uint64_t params);
  Status check(const BackwardArgs& args) const;
  Status backward(const BackwardArgs& args, uint64_t params);

 private:
  PreparedTraining(const Planner& planner, Backend& backend)
      : planner_(&planner), backend_(&backend) {}
  void measure_arrays(const TrainingGraphs& graphs);
  void choose_piece();

  bool has_checkpoints() const { return piece_ > 0; }
  bool takes_outputs() const { return options_.outputs && options_.checkpoint == 0; }
  Pieces pieces(int64_t steps) const { return {steps, has_checkpoints() ? piece_ : steps}; }
  /// Offsets in a call's memory.
  struct ForwardParts {
    size_t plan = 0;
    size_t residuals = 0;  // of a piece; without checkpoints they are the reserve
    size_t bytes = 0;
  };
  struct BackwardParts {
    size_t plan = 0;
    ForwardParts forward;  // what runs again
    size_t outputs = 0;    // that it computes
    size_t adjoints = 0;   // where a piece begins
    size_t bytes = 0;
    size_t zeros = 0;
    size_t bytes_with_zeros = 0;
  };
  ForwardParts forward_parts(MemoryParts& parts, int64_t steps) const;
  BackwardParts backward_parts(int64_t steps) const;
  std::byte* checkpoint(const void* reserve, int64_t piece) const;

  Status keep_given_states(const ForwardArgs& args);
  Status run_forward(Call call, const Piece& piece, std::byte* residuals, uint64_t params);
  void begin_at(const void* reserve, int64_t index);
  Status find_output_gradients(const BackwardArgs& args, const BackwardParts& parts);
  void find_gradients(const BackwardArgs& args);
  Status run_again(const BackwardArgs& args, const BackwardParts& parts, int64_t index,
                   uint64_t params);
  Status run_backward(const BackwardArgs& args, const BackwardParts& parts, int64_t index,
                      uint64_t params);

  const Planner* planner_;
  Backend* backend_;
  TrainingOptions options_;
  int64_t batch_ = 0;
  int64_t piece_ = 0;  // steps from one checkpoint to the next; 0: there are none
  uint64_t id_ = 0;
  std::vector<uint32_t> adjoint_of_;
  std::vector<std::string> notes_;
  PackedArrays residuals_, outputs_, states_, adjoints_;
  PreparedShape forward_, backward_;

  /// Arrays of the call or of the piece that runs: no call allocates.
  struct Addresses {
    std::vector<const void*> inputs, outputs, final_states, given;                  // forward
    std::vector<const void*> output_gradients, arrays, params, gradients, results;  // backward
    std::vector<const void*> carried;                                               // adjoints
    std::byte* zeros = nullptr;  // in place of output gradients that are null
  };
  Addresses at_;
};

}  // namespace rnnc
