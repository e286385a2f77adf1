/// What calls of a shape that is trained run: both halves of its derivative, and the reserve between
/// them.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/backend/backward_args.h"
#include "runtime/program/prepared_shape.h"

namespace rnnc {

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
  void find_residuals(const TrainingGraphs& graphs);
  /// Adds where each residual begins in a reserve for so many rows.
  void point_at_residuals(const void* reserve, int64_t rows, std::vector<const void*>& pointers);
  Status point_at_output_gradients(const BackwardArgs& args);
  void point_at_gradients(const BackwardArgs& args);
  size_t zeros_bytes(int64_t rows) const;

  const Planner* planner_;
  Backend* backend_;
  TrainingOptions options_;
  int64_t batch_ = 0;
  uint64_t id_ = 0;
  std::vector<uint32_t> adjoint_of_;
  std::vector<size_t> residual_bytes_;  // of a row
  PreparedShape forward_, backward_;
  // Of the call that runs: no call allocates.
  std::vector<const void*> outputs_;          // of the forward half
  std::vector<const void*> inputs_, params_;  // of the backward half
  std::vector<const void*> gradients_of_inputs_, results_;
};

}  // namespace rnnc
