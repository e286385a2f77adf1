#include "runtime/explain/explain_program.h"

#include <algorithm>
#include <array>

#include "ir/graph/text.h"
#include "ir/plan/plan_text.h"
#include "runtime/backend/backend.h"
#include "runtime/base/call.h"
#include "runtime/base/describe.h"
#include "runtime/explain/emit_code.h"
#include "runtime/explain/print.h"
#include "runtime/program/planner.h"

namespace rnnc::explain {
namespace {

constexpr std::string_view kBackward = "backward ";

Status prepare(Program& program, const CallShape& shape) {
  return shape.training
             ? program.prepare_training(shape.batch, shape.steps, *shape.training, shape.features)
             : program.prepare(shape.batch, shape.steps, shape.features);
}

/// Of the plan that runs.
PlanOptions options_of(const ShapePlanner& planner, const PreparedPlan& prepared) {
  PlanOptions options = planner.options(
      {prepared.passes, prepared.tile_rank, prepared.spare_registers, prepared.strategy});
  options.chunk = prepared.plan->chunk;
  options.max_steps = std::max(options.max_steps, options.chunk);
  return options;
}

}  // namespace

Result<Explanation> explain_prepared(Program& program, const CallShape& shape) {
  const auto prepared = program.prepared(shape.batch, shape.steps, shape.features);
  if (!prepared) return tl::unexpected(prepared.error());
  const Planner& planner = *program.planner();
  const Result<ShapePlanner> of_shape =
      planner.at({shape.batch, shape.steps, shape.features}, program.backend().machine());
  if (!of_shape) return tl::unexpected(of_shape.error());
  Result<Explanation> explanation =
      explain_plan(planner.bound(), options_of(*of_shape, *prepared), shape.steps);
  if (!explanation) return tl::unexpected(explanation.error());
  explanation->notes = program.notes();
  return explanation;
}

Result<TrainingExplanation> explain_prepared_training(Program& program, const CallShape& shape) {
  const auto plans = program.training_plans(shape.batch, shape.steps, shape.features);
  if (!plans) return tl::unexpected(plans.error());
  const Planner& planner = *program.planner();
  const Machine machine = program.backend().machine();
  const Result<TrainingOptions> training = planner.complete(*shape.training);
  if (!training) return tl::unexpected(training.error());
  const Result<TrainingGraphs> graphs =
      planner.differentiate(shape.features, *training, machine, /*decisions=*/true);
  if (!graphs) return tl::unexpected(graphs.error());
  const auto options = [&](const Graph& half, const PreparedPlan& prepared) {
    const PlanShape planned{shape.batch, shape.steps, shape.features};
    return options_of(planner.at(half, training->residuals, planned, machine), prepared);
  };
  Result<TrainingExplanation> explanation = explain_training(
      *graphs,
      {options(graphs->forward, plans->forward), options(graphs->backward, plans->backward)},
      *training, shape.steps);
  if (!explanation) return tl::unexpected(explanation.error());
  explanation->notes = program.notes();
  return explanation;
}

namespace {

Result<std::string> emit_graph(Program& program, const CallShape& shape, bool backward) {
  const Planner& planner = *program.planner();
  if (!shape.training) return to_string(planner.bound());
  const Result<TrainingGraphs> graphs =
      planner.complete(*shape.training).and_then([&](const TrainingOptions& training) {
        return planner.differentiate(shape.features, training, program.backend().machine());
      });
  if (!graphs) return tl::unexpected(graphs.error());
  return to_string(backward ? graphs->backward : graphs->forward);
}

Result<std::string> emit_plan(Program& program, const CallShape& shape, std::string_view form,
                              bool backward) {
  const auto text = [&](const Result<PreparedPlan>& prepared) -> Result<std::string> {
    if (!prepared) return tl::unexpected(prepared.error());
    if (form == "plan") return to_string(*prepared->plan);
    return emit_code(*prepared->plan, form, {program.options().cpu, program.backend().arch()});
  };
  if (!shape.training) return text(program.prepared(shape.batch, shape.steps, shape.features));
  const auto plans = program.training_plans(shape.batch, shape.steps, shape.features);
  return text(plans.map(
      [&](const TrainingPlans& halves) { return backward ? halves.backward : halves.forward; }));
}

Status check_form(const Program& program, const CallShape& shape, std::string_view form,
                  bool backward) {
  constexpr std::string_view kForms[] = {"graph", "plan", "llvm", "asm", "cuda", "ptx"};
  if (std::ranges::find(kForms, form) == std::end(kForms)) {
    return fail("there is no form {}: there are {}", quote(form), fmt::join(kForms, ", "));
  }
  if (backward && !shape.training) return fail("only shapes of training have a backward half");
  const bool of_cpu = form == "llvm" || form == "asm";
  const bool of_gpu = form == "cuda" || form == "ptx";
  const Device& device = program.options().device;
  if (device.kind == Device::Kind::cpu ? !of_gpu : !of_cpu) return {};
  return fail("there is no {} of a program on {}", form, device.to_string());
}

}  // namespace

Result<std::string> explain_program(Program& program, const CallShape& shape,
                                    std::string_view format) {
  return without_exceptions("explain", program.signature().name, [&]() -> Result<std::string> {
    constexpr std::string_view kFormats[] = {"text", "json", "html"};
    const auto* found = std::ranges::find(kFormats, format);
    if (found == std::end(kFormats)) {
      return fail("there is no format {}: there are {}", quote(format), fmt::join(kFormats, ", "));
    }
    if (Status status = prepare(program, shape); !status) return tl::unexpected(status.error());
    const auto chosen = static_cast<Format>(found - kFormats);
    const auto printed = [&](const auto& explanation) { return print(explanation, chosen); };
    return shape.training ? explain_prepared_training(program, shape).map(printed)
                          : explain_prepared(program, shape).map(printed);
  });
}

Result<std::string> emit_program(Program& program, const CallShape& shape, std::string_view form) {
  return without_exceptions("emit", program.signature().name, [&]() -> Result<std::string> {
    const bool backward = form.starts_with(kBackward);
    if (backward) form.remove_prefix(kBackward.size());
    if (Status status = check_form(program, shape, form, backward); !status) {
      return tl::unexpected(status.error());
    }
    if (Status status = prepare(program, shape); !status) return tl::unexpected(status.error());
    return form == "graph" ? emit_graph(program, shape, backward)
                           : emit_plan(program, shape, form, backward);
  });
}

}  // namespace rnnc::explain
