/// What `rnnc bench FILE` and `rnnc bench ladder` share.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "ir/plan/plan.h"
#include "passes/options/machine.h"
#include "runtime/program/run.h"

namespace rnnc::tools {

struct BenchOptions {
  std::string device = "cpu";
  std::string dtype = "f32";
  bool tf32 = false;
  int spare_multiprocessors = 0;
  bool f32_params = false;
  bool tune = false;
  bool given_states = false;  // calls come with initial states, and have gradients by them
  int threads = 0;
  int runs = 0;        // 0: as many as fit into `seconds`
  double seconds = 1;  // of each measurement
  std::string json;    // a file; empty: a table for people
};
void add_bench_options(CLI::App& command, BenchOptions& options);
/// What is wrong with the options together, or "".
std::string check_usage(const BenchOptions& options);
CompileOptions compile_options(const BenchOptions& options);
/// Whether `write_json` will be able to write.
Status check_json(const BenchOptions& options);
/// Where `options.json` says.
Status write_json(const BenchOptions& options, const nlohmann::json& json);

struct BenchShape {
  int64_t batch = 16;
  int64_t steps = 100;
  SequenceFeatures features = {};
};
void add_bench_shape(CLI::App& command, BenchShape& shape);
/// --lengths and --resets.
void add_sequence_features(CLI::App& command, SequenceFeatures& features);
void add_given_states(CLI::App& command, BenchOptions& options);

/// A program and the plan that it runs for a shape.
struct BenchProgram {
  Program program;
  Plan plan;
  int64_t tile_rank = 0;
  Machine machine;
};
/// `graph` is bound. Prints what runs otherwise than asked for.
Result<BenchProgram> compile_bench(const Graph& graph, const CompileOptions& options,
                                   const BenchShape& shape);

/// What a plan tells of itself.
struct Prediction {
  double seconds_per_step = 0;  // by the cost model
  double floor_seconds_per_step = 0;
  int64_t launches = 0;  // per call, those of Once stages aside
};
Prediction predict(const BenchProgram& bench, int64_t steps);
Prediction predict(const Plan& plan, const Machine& machine, int64_t steps);

struct Timing {
  double seconds_per_step = 0;  // the median of `runs`
  int runs = 0;
};
struct Measurement {
  RunResult result;
  Timing plain;                    // calls as they are
  std::optional<Timing> replayed;  // a call captured as a CUDA graph
};
/// Runs on random arrays, the same for the same names and shapes, and if the shape has them on
/// random lengths and resets; takes the time of a call again and again, and of its replays if
/// `replays`, on a GPU only. `runner` is the program's.
Result<Measurement> measure(Program& program, Runner& runner, const BenchShape& shape,
                            const BenchOptions& options, bool replays = false);

/// Of training: both halves, on all gradients there are.
struct TrainingMeasurement {
  Timing forward;  // with what is saved
  Timing both;
  std::optional<Timing> replayed;  // both, on a GPU
  Prediction prediction;
  TrainingSizes sizes;
};
struct TrainingChoice {
  ResidualChoice residuals = ResidualChoice::Auto;
  int64_t checkpoint = 0;
  bool replays = false;  // measured, too; on a GPU only
};
Result<TrainingMeasurement> measure_training(Program& program, Runner& runner,
                                             const BenchShape& shape, const BenchOptions& options,
                                             const TrainingChoice& choice);

/// The ladder's network, bound: layers of LSTM with inputs as wide as the hidden state.
Graph ladder_network(int64_t layers, int64_t hidden);

/// Adds `ladder` and `scan` to `bench`.
void add_ladder(CLI::App& bench, int& exit_code);
void add_scan(CLI::App& bench, int& exit_code);

}  // namespace rnnc::tools
