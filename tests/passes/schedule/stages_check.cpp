#include "tests/passes/schedule/stages_check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <utility>

#include "passes/build_plan.h"
#include "tests/passes/cases.h"
#include "tests/support/cells/random_graph.h"
#include "tests/support/reference/golden.h"
#include "tests/support/reference/plan_executor.h"

namespace rnnc::test {
namespace {

/// "b12" and a letter or digit neither before nor after it: a buffer.
std::string with_names(const Plan& plan, const std::string& text) {
  std::string result;
  const auto in_word = [&](size_t i) {
    return i < text.size() && std::isalnum(static_cast<unsigned char>(text[i])) != 0;
  };
  for (size_t i = 0; i < text.size();) {
    size_t end = i + 1;
    while (end < text.size() && std::isdigit(static_cast<unsigned char>(text[end])) != 0) ++end;
    const bool starts = text[i] == 'b' && (i == 0 || !in_word(i - 1));
    if (!starts || end == i + 1 || in_word(end)) {
      result += text[i++];
      continue;
    }
    result += plan.buffers[std::stoul(text.substr(i + 1, end - i - 1))].name;
    i = end;
  }
  return result;
}

std::string between(const std::string& text, const std::string& from, const std::string& to) {
  const size_t begin = text.find(from) + from.size();
  return text.substr(begin, text.find(to, begin) - begin);
}

void expect_same_results(const Graph& graph, const PlanOptions& options, double tolerance) {
  const InterpreterArgs args = random_args(graph, /*steps=*/7, options.batch, 1);
  const InterpreterResult expected = interpret(graph, args);
  const InterpreterResult actual = execute_plan(*build_plan(graph, options), args);
  for (size_t i = 0; i < expected.outputs.size(); ++i) {
    EXPECT_LE(error_of(actual.outputs[i], expected.outputs[i]), tolerance) << "output " << i;
  }
  for (size_t i = 0; i < expected.final_states.size(); ++i) {
    EXPECT_LE(error_of(actual.final_states[i], expected.final_states[i]), tolerance)
        << "final state " << i;
  }
}

}  // namespace

std::string stages_of(const std::string& text, std::string_view passes, int64_t batch,
                      const Machine& machine, std::string_view after) {
  const Graph graph = graph_from(text);
  PlanOptions options{.batch = batch, .max_steps = 100, .chunk = 3, .machine = machine};
  options.passes = *PassSet::parse(passes);
  const std::pair<DType, double> types[] = {
      {DType::f64, 1e-10}, {DType::bf16, 5e-2}, {DType::f32, 2e-5}};
  for (const auto& [dtype, tolerance] : types) {
    options.dtype = dtype;
    const Result<Plan> plan = build_plan(graph, options);
    EXPECT_TRUE(plan) << plan.error().message;
    if (!plan) return plan.error().message;
    expect_same_results(graph, options, tolerance);
  }
  std::optional<Plan> left;
  options.observer.after = [&](std::string_view name, double, const Graph*, const Plan* seen) {
    if (name == after) left = *seen;
  };
  Plan plan = *build_plan(graph, options);
  if (!after.empty()) {
    EXPECT_TRUE(left) << "there is no pass " << after;
    plan = left.value_or(std::move(plan));
  }
  for (Stage& stage : plan.stages) {  // of these the tests of dependence tell
    stage.reason.clear();
    stage.phases = 0;
  }
  std::string stages = "\n" + between(to_string(plan), "\nstages:\n", "states:\n");
  if (const size_t once = stages.find("\n  once:"); once != std::string::npos) {
    const size_t next = stages.find("\n  s", once + 1);  // sequence or step
    stages = next == std::string::npos ? "" : stages.substr(next);
  }
  return lines(with_names(plan, stages));
}

std::string lines(const std::string& text) {
  const size_t first = text.find_first_not_of(" \n");
  if (first == std::string::npos) return "";
  const size_t indent = first - text.rfind('\n', first) - 1;
  std::string result;
  for (size_t at = first - indent; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(std::min(at + indent, end), end - at - indent);
    if (end - at > indent && line.find_first_not_of(' ') != std::string::npos)
      result += line + "\n";
    at = end + 1;
  }
  return result;
}

}  // namespace rnnc::test
