/// From a graph and options to the plans that a program runs, on whichever machine they are made:
/// what runs on a device and what is compiled for one ahead of time are the same.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ir/plan/plan.h"
#include "passes/candidates.h"
#include "passes/gradient/residual_decisions.h"
#include "passes/options/machine.h"
#include "runtime/program/program.h"
#include "runtime/program/training_options.h"

namespace rnnc {

/// What a plan is for.
struct PlanShape {
  int64_t batch = 1;
  int64_t max_steps = 1;
  SequenceFeatures features = {};
};

/// A graph and its derivative (passes/gradient/differentiate.h), after the passes.
struct TrainingGraphs {
  Graph step;  // the graph, lowered: what is differentiated
  Graph forward;
  Graph backward;                    // its params: the graph's, then gradients that are added to
  std::vector<uint32_t> adjoint_of;  // per state of `backward`, the graph's state
  size_t residuals = 0;              // last outputs of `forward` and inputs of `backward`
  std::vector<ResidualDecision> decisions;  // of values of `step`, if asked for
  std::vector<std::string> notes;           // on what may surprise: Program::notes
};

class Planner;

/// Makes the plans of one shape on one machine, whatever its device chooses: the graph goes through
/// the pipeline once for all of them. The planner outlives it.
class ShapePlanner {
 public:
  const Planner& planner() const { return *planner_; }
  const PlanShape& shape() const { return shape_; }
  PlanOptions options(const PlanChoice& choice) const;
  Result<Plan> plan(const PlanChoice& choice) const;

 private:
  friend class Planner;
  ShapePlanner(const Planner& planner, const PlanShape& shape, const Machine& machine)
      : planner_(&planner), shape_(shape), machine_(machine) {}

  const Planner* planner_;
  PlanShape shape_;
  Machine machine_;
  std::optional<Graph> own_;  // of a shape with features, or a half; else it is the planner's graph
  ChunkSlack slack_;
};

class Planner {
 public:
  /// Checks dims and options.
  static Result<Planner> make(const Graph& graph, const CompileOptions& options);

  const Graph& graph() const { return graph_; }  // bound, after the passes
  const Graph& bound() const { return bound_; }  // before them
  const CompileOptions& options() const { return options_; }
  const Signature& signature() const { return signature_; }
  /// By the options.
  PlanChoice choice() const { return {options_.passes, options_.tile_rank, 0, options_.strategy}; }

  /// Whether there may be sequences of so many steps.
  Status check_size(int64_t batch, int64_t steps) const;
  Result<ShapePlanner> at(const PlanShape& shape, const Machine& machine) const;
  Result<Plan> plan(const PlanShape& shape, const Machine& machine, const PlanChoice& choice) const;

  /// Checks the options. What they leave empty is filled in.
  Result<TrainingOptions> complete(TrainingOptions options) const;
  /// `options` are complete; `decisions`: whether people ask why values are saved.
  Result<TrainingGraphs> differentiate(SequenceFeatures features, const TrainingOptions& options,
                                       const Machine& machine, bool decisions = false) const;
  /// Of a half, for the residuals that it was made for.
  ShapePlanner at(Graph half, ResidualChoice residuals, const PlanShape& shape,
                  const Machine& machine) const;

 private:
  Planner() = default;

  Graph graph_;
  Graph bound_;
  CompileOptions options_;
  Signature signature_;
  int64_t largest_value_ = 1;  // elements
};

}  // namespace rnnc
