#include "tools/commands/measure.h"

#include <algorithm>

#include "runtime/explain/explain_program.h"
#include "runtime/explain/profile.h"
#include "tools/progress.h"

namespace rnnc::tools {
namespace {

using explain::Explanation;
using explain::TrainingExplanation;

/// Calls whose launches are timed, of which the middle one is shown.
constexpr int kTimedCalls = 9;

}  // namespace

TrainingOptions training_options(const Signature& signature, ResidualChoice residuals,
                                 bool given_states) {
  TrainingOptions training;
  training.params.assign(signature.params.size(), true);
  for (const ArrayInfo& input : signature.inputs) {
    training.inputs.push_back(input.dtype != DType::i32);
  }
  training.given_states.assign(signature.states.size(), given_states);
  training.initial_states = training.given_states;
  training.residuals = residuals;
  training.outputs = true;
  return training;
}

Result<MeasuredRun<Explanation>> measure_calls(Program& program, const BenchShape& shape,
                                               const BenchOptions& bench) {
  Progress progress;
  progress.phase("measuring");
  Runner runner(program);
  const Result<Measurement> measured = measure(program, runner, shape, bench);
  if (!measured) return tl::unexpected(measured.error());
  Result<RecordedRun> run = runner.record_launches(kTimedCalls);
  if (!run) return tl::unexpected(run.error());
  progress.stop();
  const auto& [batch, steps, features] = shape;
  Result<Explanation> explanation = explain::explain_prepared(program, {batch, steps, features});
  if (!explanation) return tl::unexpected(explanation.error());
  const Timing& plain = measured->plain;
  explain::add_measured(
      *explanation,
      {run->forward, plain.seconds_per_step * static_cast<double>(steps), plain.runs});
  return MeasuredRun<Explanation>{std::move(*explanation), std::move(*run)};
}

Result<MeasuredRun<TrainingExplanation>> measure_training_calls(Program& program,
                                                                const BenchShape& shape,
                                                                const BenchOptions& bench,
                                                                ResidualChoice residuals) {
  Progress progress;
  progress.phase("measuring");
  Runner runner(program);
  const Result<TrainingMeasurement> measured =
      measure_training(program, runner, shape, bench, {.residuals = residuals});
  if (!measured) return tl::unexpected(measured.error());
  Result<RecordedRun> run = runner.record_launches(kTimedCalls);
  if (!run) return tl::unexpected(run.error());
  progress.stop();
  const auto& [batch, steps, features] = shape;
  Result<TrainingExplanation> explanation = explain::explain_prepared_training(
      program, {batch, steps, features,
                training_options(program.signature(), residuals, bench.given_states)});
  if (!explanation) return tl::unexpected(explanation.error());
  const double forward = measured->forward.seconds_per_step * static_cast<double>(steps);
  const double both = measured->both.seconds_per_step * static_cast<double>(steps);
  explain::add_measured(explanation->forward, {run->forward, forward, measured->forward.runs});
  explain::add_measured(explanation->backward,
                        {*run->backward, std::max(0.0, both - forward), measured->both.runs});
  return MeasuredRun<TrainingExplanation>{std::move(*explanation), std::move(*run)};
}

}  // namespace rnnc::tools
