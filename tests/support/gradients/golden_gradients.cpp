#include "tests/support/gradients/golden_gradients.h"

#include <algorithm>

#include "runtime/program/run.h"
#include "tests/support/kept_kernels.h"
#include "tests/support/reference/deterministic.h"

namespace rnnc::test {
namespace {

/// Outputs and final states of a program, each times random numbers.
LossGradients loss_of(const Signature& signature, int64_t steps, int64_t batch) {
  LossGradients loss;
  for (const ArrayInfo& output : signature.outputs) {
    std::vector<int64_t> shape = {steps, batch};
    shape.insert(shape.end(), output.shape.begin(), output.shape.end());
    loss.outputs.push_back(
        {output.name,
         Array::from_doubles(golden_weights(output.name, steps * batch * output.elements()), shape,
                             DType::f64)});
  }
  for (const ArrayInfo& state : signature.states) {
    std::vector<int64_t> shape = {batch};
    shape.insert(shape.end(), state.shape.begin(), state.shape.end());
    loss.final_states.push_back(
        {state.name,
         Array::from_doubles(golden_weights("final." + state.name, batch * state.elements()), shape,
                             DType::f64)});
  }
  return loss;
}

Status compare(const GoldenCase& one, const Summaries& expected, const CompileOptions& options,
               ResidualChoice residuals, GoldenReport& report) {
  const Result<Graph> graph = golden_graph(one);
  if (!graph) return tl::unexpected(graph.error());
  Result<Program> program = Program::compile(*graph, with_kept_kernels(options));
  if (!program) return tl::unexpected(program.error());
  const RunArgs args = golden_arguments(*graph, one);
  Runner runner(*program);
  const LossGradients loss =
      loss_of(program->signature(), one.size.steps, args.inputs.at(0).array.shape.at(1));
  const Result<RunGradients> gradients = runner.gradients(args, loss, residuals);
  if (!gradients) return tl::unexpected(gradients.error());
  for (const auto* arrays : {&gradients->params, &gradients->inputs, &gradients->initial_states}) {
    for (const NamedArray& gradient : *arrays) {
      const auto golden = expected.find(gradient.name);
      if (golden == expected.end()) continue;  // PyTorch's cell has no such array
      const double error = error_of(summarise(gradient.array.to_doubles()), golden->second);
      ++report.cases;
      if (error <= report.error) continue;
      report.error = error;
      report.worst = fmt::format("{} of {}", gradient.name, one.name());
    }
  }
  return {};
}

}  // namespace

std::vector<double> golden_weights(const std::string& name, int64_t count) {
  return deterministic_values("gradient." + name, count, 1, DType::f64);
}

bool has_golden_gradients(const std::string& cell) {
  return GoldenFile::read("gradients/" + cell).has_value();
}

Result<GoldenReport> run_golden_gradients(const std::string& cell, const CompileOptions& options,
                                          ResidualChoice residuals) {
  const Result<GoldenFile> file = GoldenFile::read("gradients/" + cell);
  if (!file) return tl::unexpected(file.error());
  GoldenReport report;
  for (const GoldenSize& size : file->sizes()) {
    const GoldenCase one = {.cell = cell, .size = size, .rounding = DType::f32};
    const Status compared = compare(one, file->of_case(one.name()), options, residuals, report);
    if (!compared) return fail("{} {}: {}", cell, one.name(), compared.error().message);
  }
  return report;
}

}  // namespace rnnc::test
