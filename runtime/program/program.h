/// rnnc's C++ API: compile a step Graph once, run it many times.
///
///     Unit unit("lstm.rnn", text);                               // frontend/unit.h
///     auto graph = unit.lower("LSTM", {});
///     auto program = Program::compile(*graph, {.dims = {{"I", 80}, {"H", 512}}});
///     program->prepare(/*batch=*/16, /*max_steps=*/100);
///     std::vector<char> workspace(*program->workspace_size(16, 100));
///     program->forward({.steps = 100, .batch = 16, .inputs = …, .params = …, .outputs = …,
///                       .workspace = workspace.data(), .workspace_bytes = workspace.size()});
///
/// `runtime/program/run.h` has a call that does all of that with named host arrays.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ir/graph/graph.h"
#include "passes/options/pass_set.h"
#include "passes/options/strategy.h"
#include "runtime/arrays/signature.h"
#include "runtime/backend/backward_args.h"
#include "runtime/backend/forward_args.h"
#include "runtime/backend/options.h"
#include "runtime/program/training_options.h"

namespace rnnc {

class Backend;
class Planner;
struct Plan;

/// What a prepared shape runs, for those who explain or measure it.
struct PreparedPlan {
  const Plan* plan = nullptr;       // until the shape is prepared for more steps
  PassSet passes = PassSet::all();  // the options', but Resident where the GPU refused it or
                                    // tuning found launches faster
  int64_t tile_rank = 0;
  int64_t spare_registers = 0;        // that its tiles leave, because the best of all spilled
  Strategy strategy = Strategy::Any;  // the options', or what tuning found fastest
};

/// The plans of both halves, until the shape is prepared for training again.
struct TrainingPlans {
  PreparedPlan forward;
  PreparedPlan backward;
};

/// A compiled cell or network on one device. Nothing throws: where memory runs out, and of a
/// program that was moved from, every call is an error.
///
/// Thread-safety: calls on one Program must not overlap (one that does is an error), and its
/// forward calls on a GPU must be in stream order (one stream, or ordered by events), because they
/// share the program's memory. Different Programs are independent, from any threads.
/// Destroying one, with its Runners, waits for its GPU, so not while any thread captures a CUDA
/// graph there.
class Program {
 public:
  /// Checks dims, dtype and device. May be slow, allocate and use the disk.
  static Result<Program> compile(const Graph& graph, const CompileOptions& options);
  ~Program();
  Program(Program&&) noexcept;
  Program& operator=(Program&&) noexcept;

  const Signature& signature() const;
  const CompileOptions& options() const;

  /// Makes any T <= max_steps at this batch size runnable with exactly these features: plan,
  /// kernels, program memory. May be slow, allocate and use the disk. Both at least 1. Preparing
  /// again what is prepared is free; for more steps it may change the workspace's size. Where a GPU has no room for a resident recurrence, or its code
  /// would be slow, the shape runs without: `notes` says so.
  Status prepare(int64_t batch, int64_t max_steps, SequenceFeatures features = {});

  /// For people: what of the shapes prepared so far runs otherwise than asked for, and why; of those
  /// prepared for training also where a gradient is zero everywhere, which may surprise
  /// (docs/gradients.md). `rnnc` prints them as notes.
  std::vector<std::string> notes() const;
  /// An error if the shape is not prepared.
  Result<PreparedPlan> prepared(int64_t batch, int64_t steps, SequenceFeatures features = {}) const;

  /// Bytes of workspace for a prepared shape, room to align it included, more for more steps if a
  /// layer runs in reverse; an error if it is not prepared.
  Result<size_t> workspace_size(int64_t batch, int64_t steps, SequenceFeatures features = {}) const;

  /// Likewise for training: makes `forward` calls with a reserve and `backward` calls runnable, with
  /// exactly these features and options. Preparing with other options replaces what was prepared.
  Status prepare_training(int64_t batch, int64_t max_steps, const TrainingOptions& training = {},
                          SequenceFeatures features = {});
  /// Before anything is prepared.
  Result<ReserveBound> reserve_bound(const TrainingOptions& training = {},
                                     SequenceFeatures features = {}) const;
  /// An error if the shape is not prepared for training.
  Result<TrainingSizes> training_sizes(int64_t batch, int64_t steps,
                                       SequenceFeatures features = {}) const;
  Result<TrainingPlans> training_plans(int64_t batch, int64_t steps,
                                       SequenceFeatures features = {}) const;

  /// Frees what calls of this batch size with these features need, of inference and training; or
  /// of all shapes. What is not prepared is no error. Waits for the GPU, so not while any thread
  /// captures a CUDA graph there; graphs that were captured of such calls must not be replayed any
  /// more. Until then they may be, also when the shape has been prepared anew.
  Status forget(int64_t batch, SequenceFeatures features = {});
  Status forget();

  /// Runs the sequence. Never allocates, never synchronises with the GPU (on the CPU it returns
  /// when the work is done); may be captured in a CUDA graph. Refuses, before anything is
  /// launched, a shape that is not prepared and arguments that are missing.
  /// steps >= 1, batch >= 1.
  Status forward(const ForwardArgs& args);

  /// The gradients of a loss, by backpropagation through time, from what a forward call left in its
  /// reserve. As `forward`: no allocation, no synchronisation, refused before anything is launched.
  /// Truncated: null gradients of final states. Through several calls: the gradients of a later
  /// call's initial states are those of an earlier one's final states.
  Status backward(const BackwardArgs& args);

  /// How its plans are made, for those who explain them; null if it was moved from.
  const Planner* planner() const;
  /// The program's device: its memory, and waiting for it.
  Backend& backend();

 private:
  friend class Runner;
  struct Impl;
  explicit Program(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;  // null: moved from. Its Runners have a part in it
};

}  // namespace rnnc
