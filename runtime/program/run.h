/// The convenience call: named host arrays in, named host arrays out, on any device.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/arrays/array.h"
#include "runtime/arrays/infer_dims.h"
#include "runtime/arrays/run_args.h"
#include "runtime/backend/launch_times.h"
#include "runtime/program/program.h"

namespace rnnc {

/// Outputs and final states, implied ones included, in the Signature's order, as float64 for f64
/// and float32 otherwise.
struct RunResult {
  std::vector<NamedArray> outputs;
  std::vector<NamedArray> final_states;
};

/// The gradients of a loss by a run's results; those that are not there are zero.
struct LossGradients {
  std::vector<NamedArray> outputs = {};       // [T, B, ...]
  std::vector<NamedArray> final_states = {};  // [B, ...]
};

/// What a run gives, and the gradients of the loss by what it was given: each under its array's
/// name and of its shape, in the Signature's order.
struct RunGradients {
  RunResult result;
  std::vector<NamedArray> params;
  std::vector<NamedArray> inputs;
  std::vector<NamedArray> initial_states;  // of those that were given
};

/// When each launch of a run was under way.
struct RecordedRun {
  LaunchTimes forward;
  std::optional<LaunchTimes> backward = {};  // of a run for gradients
  double seconds() const { return forward.seconds() + (backward ? backward->seconds() : 0); }
};

/// Keeps device memory and loaded params between calls with the same shapes, and the program with
/// them, wherever that is moved and however long it lives. Each of a program's runners runs on the
/// params that it has loaded. Nothing throws: where memory runs out, and of a runner that was moved
/// from, every call is an error. Calls that overlap, on one runner or runners of one program, are
/// errors too.
class Runner {
 public:
  explicit Runner(Program& program);
  ~Runner();
  Runner(Runner&&) noexcept;
  Runner& operator=(Runner&&) noexcept;

  /// Checks and uploads the params once for all following runs.
  Status load_params(const std::vector<NamedArray>& params);
  /// Checks the arrays and prepares their shape, as `run` does by itself; for timing apart.
  Status prepare(const RunArgs& args);
  /// Prepares the shape on first use, runs, waits. `args.params` may be empty after `load_params`.
  Result<RunResult> run(const RunArgs& args);
  /// Runs forward and backward, by all params, inputs and given initial states. Not in pieces;
  /// `residuals` and `checkpoint` as in TrainingOptions.
  Result<RunGradients> gradients(const RunArgs& args, const LossGradients& loss,
                                 ResidualChoice residuals = ResidualChoice::Auto,
                                 int64_t checkpoint = 0);
  /// Runs once more `repeats` times on the arrays of the last `run`; the median seconds of a whole
  /// run divided by its steps. Device events on a GPU, a steady clock on the CPU.
  Result<double> time_per_step(int repeats);
  /// As `time_per_step`, of both halves of the last `gradients`.
  Result<double> time_training_per_step(int repeats);
  /// As `time_per_step`, of replays of a run that is captured once as a CUDA graph, on a stream of
  /// its own, four one behind another: what the host does for one is done while another runs. A
  /// plain run goes before, which packs weights. An error on the CPU, which has no
  /// graphs. Not while another call of the program is under way; other threads may go on with other
  /// programs.
  Result<double> time_replayed_per_step(int repeats);
  /// As `time_replayed_per_step`, of both halves of the last `gradients`.
  Result<double> time_replayed_training_per_step(int repeats);
  /// Runs the last `run` or `gradients`, which was not in pieces and had no checkpoints, once more
  /// `repeats` times with its launches timed. Gives the run of median length.
  Result<RecordedRun> record_launches(int repeats);

 private:
  struct Impl;
  /// `work` of the parts, alone; an error where there are none.
  template <typename Work>
  auto call(std::string_view verb, const Work& work) -> decltype(work(std::declval<Impl&>()));
  std::unique_ptr<Impl> impl_;  // null: moved from
};

}  // namespace rnnc
