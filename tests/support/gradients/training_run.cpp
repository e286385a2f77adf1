#include "tests/support/gradients/training_run.h"

#include <gtest/gtest.h>

#include "runtime/arrays/random_arrays.h"
#include "tests/support/kept_kernels.h"

namespace rnnc::test {
namespace {

NamedArray random_rows(ArrayInfo info, const std::vector<int64_t>& leading, uint64_t seed) {
  info.shape.insert(info.shape.begin(), leading.begin(), leading.end());
  return {info.name, random_array(info, 1, seed)};
}

std::string find_difference(const std::string& kind, const std::vector<NamedArray>& a,
                            const std::vector<NamedArray>& b) {
  if (a.size() != b.size()) return kind + ": other arrays";
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].name != b[i].name || a[i].array.data != b[i].array.data) return kind + a[i].name;
  }
  return "";
}

}  // namespace

TrainingArrays random_training(const Signature& signature, const TrainingRun& run) {
  TrainingArrays arrays;
  const std::vector<int64_t> rows = {run.steps, run.batch};
  for (const ArrayInfo& input : signature.inputs) {
    arrays.args.inputs.push_back(random_rows(input, rows, run.seed));
  }
  arrays.args.params = random_weights(signature.params, run.seed).value();
  for (const ArrayInfo& state : signature.states) {
    if (run.given_states) {
      arrays.args.initial_states.push_back(random_rows(state, {run.batch}, run.seed));
    }
    arrays.loss.final_states.push_back(random_rows(state, {run.batch}, run.seed + 1));
  }
  for (const ArrayInfo& output : signature.outputs) {
    arrays.loss.outputs.push_back(random_rows(output, rows, run.seed + 1));
  }
  const ArrayInfo noise{.name = "noise", .shape = rows, .dtype = DType::f64};
  const std::vector<double> values = random_array(noise, 1, run.seed).to_doubles();
  if (run.lengths) {
    arrays.args.lengths.emplace();
    for (int64_t b = 0; b < run.batch; ++b) {
      const double share = b == 0 ? 1 : b == 1 ? 0 : std::abs(values[b]);
      arrays.args.lengths->push_back(static_cast<int64_t>(share * static_cast<double>(run.steps)));
    }
  }
  if (run.resets) {
    std::vector<double> reset;
    for (const double value : values) reset.push_back(value > 0.7 ? 1 : 0);
    arrays.args.reset = Array::from_doubles(reset, rows, DType::f64);
  }
  return arrays;
}

std::string find_difference(const RunGradients& a, const RunGradients& b) {
  for (const std::string& difference :
       {find_difference("output ", a.result.outputs, b.result.outputs),
        find_difference("final state ", a.result.final_states, b.result.final_states),
        find_difference("the gradient of param ", a.params, b.params),
        find_difference("the gradient of input ", a.inputs, b.inputs),
        find_difference("the gradient of initial state ", a.initial_states, b.initial_states)}) {
    if (!difference.empty()) return difference;
  }
  return "";
}

void check_checkpoints(const Graph& graph, const CompileOptions& options, const TrainingRun& run,
                       const std::vector<int64_t>& checkpoints) {
  Result<Program> program = Program::compile(graph, with_kept_kernels(options));
  ASSERT_TRUE(program) << program.error().message;
  Runner runner(*program);
  const auto [args, loss] = random_training(program->signature(), run);
  const auto whole = runner.gradients(args, loss);
  ASSERT_TRUE(whole) << whole.error().message;
  for (const int64_t checkpoint : checkpoints) {
    SCOPED_TRACE(fmt::format("checkpoints each {} steps", checkpoint));
    const auto pieces = runner.gradients(args, loss, ResidualChoice::Auto, checkpoint);
    ASSERT_TRUE(pieces) << pieces.error().message;
    EXPECT_EQ(find_difference(*whole, *pieces), "");
  }
}

}  // namespace rnnc::test
