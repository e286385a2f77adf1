/// What a program's calls run, explained and as text.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "runtime/explain/training_explanation.h"
#include "runtime/program/program.h"

namespace rnnc::explain {

/// As calls come.
struct CallShape {
  int64_t batch = 1;
  int64_t steps = 1;
  SequenceFeatures features = {};
  std::optional<TrainingOptions> training = {};  // none: inference
};

/// Of a shape that is prepared: what it runs. Without training, and with it.
Result<Explanation> explain_prepared(Program& program, const CallShape& shape);
Result<TrainingExplanation> explain_prepared_training(Program& program, const CallShape& shape);

/// Prepares the shape, and explains what it runs: as "text", as "json" (docs/explain.md) or as an
/// "html" page.
Result<std::string> explain_program(Program& program, const CallShape& shape,
                                    std::string_view format);

/// Prepares the shape. Its step "graph", its "plan", and of that its code: on the CPU "llvm" and
/// "asm", on a GPU "cuda" and "ptx". Of training these are the forward half's; with "backward " in
/// front the other one's.
Result<std::string> emit_program(Program& program, const CallShape& shape, std::string_view form);

}  // namespace rnnc::explain
