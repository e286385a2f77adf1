/// What `rnnc profile` and `rnnc explain --measure` share: calls are run, and their plan explained with
/// the times that its launches took.
#pragma once

#include "runtime/explain/training_explanation.h"
#include "tools/commands/bench.h"

namespace rnnc::tools {

template <typename Explained>
struct MeasuredRun {
  Explained explanation;
  RecordedRun run;
};

/// Of all gradients that `--backward` asks for: of params, of inputs but whole numbers, and of
/// initial states if they are given.
TrainingOptions training_options(const Signature& signature, ResidualChoice residuals,
                                 bool given_states = false);

/// On random arrays; `bench` says how many calls.
Result<MeasuredRun<explain::Explanation>> measure_calls(Program& program, const BenchShape& shape,
                                                        const BenchOptions& bench);
/// Of training, with all gradients there are.
Result<MeasuredRun<explain::TrainingExplanation>> measure_training_calls(Program& program,
                                                                         const BenchShape& shape,
                                                                         const BenchOptions& bench,
                                                                         ResidualChoice residuals);

}  // namespace rnnc::tools
