#include "tests/passes/gradient/gradient_check.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "ir/graph/verify.h"
#include "passes/gradient/interpret_gradients.h"
#include "passes/graph/delays.h"
#include "passes/graph/pipeline.h"
#include "tests/support/cells/sequence_cases.h"
#include "tests/support/reference/sequence_oracle.h"

namespace rnnc::test {
namespace {

using Arrays = std::vector<std::vector<double>>;

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
    const Gradients gradients = differentiated();
    loss_ = loss();
    InterpreterArgs& forward = args_.forward;
    for (size_t i = 0; i < forward.inputs.size(); ++i) {
      compare("input " + plain_.inputs[i].name, gradients.inputs[i], forward.inputs[i]);
    }
    for (size_t i = 0; i < forward.params.size(); ++i) {
      compare("param " + plain_.params[i].name, gradients.params[i], forward.params[i]);
    }
    for (size_t i = 0; i < forward.initial_states.size(); ++i) {
      if (forward.initial_states[i].empty()) continue;
      compare("state " + plain_.states[i].name, gradients.initial_states[i],
              forward.initial_states[i]);
    }
    return report_;
  }

 private:
  std::vector<double> random_array(size_t size) {
    std::vector<double> array(size);
    for (double& element : array) element = static_cast<double>(random_() % 2001) / 1000 - 1;
    return array;
  }

  /// Beside a final state of 1e38, which some cells declare as their first, differences drown.
  void ignore_huge_states() {
    const InterpreterResult result = outcome();
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
    Derivative derivative = differentiate(lowered, wanted);
    for (Graph* half : {&derivative.forward, &derivative.backward}) {
      status = verify(*half);
      EXPECT_TRUE(status) << status.error().message;
      if (check_.simplify) status = run_simplifications(*half);
      EXPECT_TRUE(status) << status.error().message;
    }
    return interpret_gradients(lowered, derivative, args_);
  }

  InterpreterResult outcome() const {
    return interpret_sequences(plain_, args_.forward, args_.forward.lengths, args_.forward.resets);
  }

  double loss() const {
    const InterpreterResult result = outcome();
    return dot(result.outputs, args_.output_gradients) +
           dot(result.final_states, args_.final_state_gradients);
  }

  static double dot(const Arrays& left, const Arrays& right) {
    double sum = 0;
    for (size_t i = 0; i < left.size(); ++i) {
      for (size_t j = 0; j < left[i].size(); ++j) sum += left[i][j] * right[i][j];
    }
    return sum;
  }

  /// Central differences of one width, and how far one-sided ones are apart.
  struct Differences {
    double central = 0;
    double bend = 0;
  };
  Differences differences(double& element, double width) {
    const double before = element;
    element = before + width;
    const double above = loss();
    element = before - width;
    const double below = loss();
    element = before;
    return {(above - below) / (2 * width), (above - 2 * loss_ + below) / width};
  }

  void compare(const std::string& name, const std::vector<double>& gradient,
               std::vector<double>& array) {
    ASSERT_EQ(gradient.size(), array.size()) << name;
    double norm = 0;
    for (const double element : gradient) norm += element * element;
    norm = std::sqrt(norm);
    for (size_t i = 0; i < check_.entries && !array.empty(); ++i) {
      const size_t at = check_.entries >= array.size() ? i : random_() % array.size();
      if (at >= array.size()) return;
      const Differences wide = differences(array[at], 1e-4);
      const Differences narrow = differences(array[at], 2e-5);
      // Where the function is smooth, bends are as small as the width; at a kink they stay.
      const double kink = (5 * narrow.bend - wide.bend) / 4;
      const double apart = std::max(std::abs(wide.central - narrow.central), std::abs(kink));
      if (apart > 1e-6 * (norm + 1e-3)) {
        ++report_.kinks;
        continue;
      }
      ++report_.compared;
      const double error = std::abs(gradient[at] - narrow.central) / (norm + 1e-3);
      if (error <= report_.error) continue;
      report_.error = error;
      report_.worst =
          fmt::format("{}[{}]: {}, by differences {}", name, at, gradient[at], narrow.central);
    }
  }

  const GradientCheck& check_;
  std::mt19937_64 random_;
  Graph plain_;
  GradientArgs args_;
  double loss_ = 0;
  GradientReport report_;
};

}  // namespace

GradientReport check_gradients(const Graph& graph, const InterpreterArgs& args,
                               const GradientCheck& check) {
  return Check(graph, args, check).run();
}

}  // namespace rnnc::test
