/// Graph → Plan: stages from the dependence analysis, products merged, elementwise work fused,
/// recurrences of a network side by side, buffers placed.
#pragma once

#include <optional>

#include "ir/plan/plan.h"
#include "passes/gradient/residuals.h"
#include "passes/options/machine.h"
#include "passes/options/pass_observer.h"
#include "passes/options/pass_set.h"
#include "passes/options/strategy.h"

namespace rnnc {

inline constexpr int64_t kMostTileRank = 99;

/// How many times as long as with the best chunk a call may take with a shorter one, which takes
/// less memory.
struct ChunkSlack {
  double always = 1.003;
  /// Where chunks would take more memory than the call's own sequences, and more than is little
  /// (passes/candidates.cpp).
  double of_much_memory = 1.003;
};

/// In training a chunk has many values that only it needs. The model holds waves for cheaper than
/// they are: 1.03 of its seconds are up to 1.2 of a GPU's. (H100, 512 steps in bf16, both halves,
/// workspace and us a step: LSTM 16x1024 96 MB and 4.91, 218 MB and 4.21; LSTM 64x1024 159 MB and
/// 11.9, 219 MB and 11.1, 773 MB and 10.5. With the least residuals 353 MB and 14.5 us at 1.02, 82 MB
/// and 19.6 at 1.15.) Short chunks of f32, whose products are split, cost even more: GRU 128x1024
/// 96.8 us at 1.02, 106 at 1.03; LSTM 16x1024 in chunks of 128 looks 1.2 % slower than in those of
/// 256, whose products of parts alone take 0.29 us of 15 less.
constexpr ChunkSlack slack_in_training(ResidualChoice residuals, DType dtype) {
  if (residuals == ResidualChoice::Least) return {1.15, 1.15};
  return {.of_much_memory = dtype != compute_type(dtype) ? 1.03 : 1.01};
}

struct PlanOptions {
  DType dtype = DType::f32;
  std::optional<DType> param_dtype = {};  // of params and their gradients, if it is another
  int64_t batch = 1;
  int64_t max_steps = 1;
  int64_t chunk = 0;  // steps per chunk; 0: chosen (never more than max_steps)
  ChunkSlack slack = {};
  bool lengths = false;  // calls come with lengths of their sequences
  bool resets = false;   // and with a mask of resets
  bool tf32 = false;     // f32: products may round their operands to TF32
  PassSet passes = PassSet::all();
  Machine machine = {};
  /// Of each recurrence of class block or dense. One that cannot be is an error, as are passes
  /// without Resident, without Stack for stacked ones, and machines other than GPUs.
  Strategy strategy = Strategy::Any;
  int64_t tile_rank = 0;        // of resident recurrences: passes/tile/recurrence_tiles.h
  int64_t spare_registers = 0;  // likewise
  PassObserver observer = {};
};

/// `graph` is bound and verified. The plan's states are its own and, behind them, those that
/// `run_delays` makes of it (passes/graph/delays.h). Errors name what cannot be planned and where
/// it comes from.
Result<Plan> build_plan(const Graph& graph, const PlanOptions& options);

/// The same of a graph that has been through the pipeline (passes/graph/pipeline.h) with the
/// options' passes and features.
Result<Plan> plan_graph(const Graph& graph, const PlanOptions& options);

}  // namespace rnnc
