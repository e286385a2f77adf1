#include "tests/passes/gradient/gradient_check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "ir/graph/verify.h"
#include "passes/gradient/finite_differences.h"
#include "passes/graph/delays.h"
#include "passes/graph/pipeline.h"
#include "tests/support/cells/sequence_cases.h"
#include "tests/support/reference/sequence_oracle.h"

namespace rnnc::test {
namespace {

class Check {
 public:
  Check(const Graph& graph, const InterpreterArgs& args, const GradientCheck& check)
      : check_(check), random_(check.seed), plain_(graph), args_{args, {}, {}} {
    run_delays(plain_);
    args_.forward.initial_states.resize(plain_.states.size());
    const SequenceFeatures features = {.lengths = check.lengths, .resets = check.resets};
    const Sequences sequences = random_sequences(args.steps, args.batch, features, false,
                                                 static_cast<uint32_t>(check.seed));
    args_.forward.lengths = sequences.lengths;
    args_.forward.resets = sequences.resets;
    for (const OutputDecl& output : plain_.outputs) {
      const auto size = static_cast<size_t>(element_count(plain_[output.value].type.shape));
      args_.output_gradients.push_back(
          random_array(static_cast<size_t>(args.steps * args.batch) * size));
    }
    for (const StateDecl& state : plain_.states) {
      const auto size = static_cast<size_t>(element_count(state.type.shape));
      args_.final_state_gradients.push_back(random_array(static_cast<size_t>(args.batch) * size));
    }
  }

  GradientReport run() {
    ignore_huge_states();
    const auto plain = [&](const InterpreterArgs& args) {
      return interpret_sequences(plain_, args, args.lengths, args.resets);
    };
    GradientReport result;
    for (const DifferenceReport& report :
         compare_with_differences(plain_, args_, differentiated(), plain,
                                  {.elements = check_.entries, .seed = check_.seed})) {
      result.compared += report.compared;
      result.kink_share = std::max(result.kink_share, report.kink_share());
      for (const Kink& kink : report.kinks) {
        result.kinks.push_back(fmt::format("{} {}[{}]: {}, by differences {} below and {} above",
                                           report.kind, report.name, kink.element, kink.gradient,
                                           kink.below, kink.above));
      }
      if (report.error <= result.error) continue;
      result.error = report.error;
      result.worst = fmt::format("{} {}[{}]: {}, by differences {}", report.kind, report.name,
                                 report.worst, report.gradient, report.difference);
    }
    return result;
  }

 private:
  std::vector<double> random_array(size_t size) {
    std::vector<double> array(size);
    for (double& element : array) element = static_cast<double>(random_() % 2001) / 1000 - 1;
    return array;
  }

  /// Beside a final state of 1e38, which some cells declare as their first, differences drown.
  void ignore_huge_states() {
    const InterpreterResult result =
        interpret_sequences(plain_, args_.forward, args_.forward.lengths, args_.forward.resets);
    for (size_t s = 0; s < result.final_states.size(); ++s) {
      for (size_t i = 0; i < result.final_states[s].size(); ++i) {
        if (std::abs(result.final_states[s][i]) > 1e6) args_.final_state_gradients[s][i] = 0;
      }
    }
  }

  Gradients differentiated() {
    Graph lowered = plain_;
    PipelineOptions options = {
        .lengths = check_.lengths, .resets = check_.resets, .training = true};
    if (!check_.simplify) options.passes = PassSet::none();
    Status status = run_pipeline(lowered, options);
    EXPECT_TRUE(status) << status.error().message;
    std::vector<bool> given;
    for (const auto& initial : args_.forward.initial_states) given.push_back(!initial.empty());
    DifferentiateOptions wanted = DifferentiateOptions::all(lowered, given);
    wanted.residuals = check_.residuals;
    wanted.outputs = check_.outputs;
    Derivative derivative = differentiate(lowered, wanted);
    for (Graph* half : {&derivative.forward, &derivative.backward}) {
      status = verify(*half);
      EXPECT_TRUE(status) << status.error().message;
      if (check_.simplify) status = run_simplifications(*half);
      EXPECT_TRUE(status) << status.error().message;
    }
    return interpret_gradients(lowered, derivative, args_);
  }

  const GradientCheck& check_;
  std::mt19937_64 random_;
  Graph plain_;
  GradientArgs args_;
};

}  // namespace

GradientReport check_gradients(const Graph& graph, const InterpreterArgs& args,
                               const GradientCheck& check) {
  return Check(graph, args, check).run();
}

}  // namespace rnnc::test
