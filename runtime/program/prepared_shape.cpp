#include "runtime/program/prepared_shape.h"

#include <algorithm>
#include <utility>

#include "runtime/base/describe.h"
#include "runtime/program/tune.h"

namespace rnnc {

size_t PreparedShape::workspace_bytes(int64_t steps) const {
  const auto bytes = static_cast<size_t>(rnnc::workspace_bytes(chosen.plan, steps));
  return bytes == 0 ? 0 : bytes + kWorkspaceAlignment - 1;
}

Status PreparedShape::run(const Call& call, uint64_t params) {
  const bool run_once = std::exchange(loaded_params, 0) != params;
  Status status = executable->run(call, run_once);
  if (status) loaded_params = params;
  return status;
}

Result<PreparedShape> prepare_shape(const ShapePlanner& of_shape, Plan plan, Backend& backend,
                                    const KernelCache& cache) {
  const Planner& planner = of_shape.planner();
  PreparedShape prepared;
  prepared.max_steps = of_shape.shape().max_steps;
  prepared.chunk = plan.chunk;
  prepared.initial_states.resize(plan.states.size());
  Tuned tuned = {planner.choice()};
  if (planner.options().tune) tuned = tune(of_shape, plan, backend, cache);
  if (tuned.choice != planner.choice()) {
    Result<Plan> fastest = of_shape.plan(tuned.choice);
    if (!fastest) return tl::unexpected(fastest.error());
    plan = *std::move(fastest);
  }
  Result<ChosenPlan> chosen = choose_plan(
      of_shape, std::move(plan), tuned.choice, [&](const Plan& given) -> Result<Verdict> {
        Result<std::unique_ptr<Executable>> executable = backend.prepare(given);
        if (!executable) return tl::unexpected(executable.error());
        prepared.executable = *std::move(executable);
        return Verdict{prepared.executable->refusal(), prepared.executable->doubt()};
      });
  if (!chosen) return tl::unexpected(chosen.error());
  prepared.chosen = *std::move(chosen);
  if (prepared.chosen.note.empty()) prepared.chosen.note = tuned.note;
  return prepared;
}

Status check_given_histories(const Graph& graph, const std::function<bool(size_t)>& given) {
  for (size_t i = 0; i < graph.states.size(); ++i) {
    const StateDecl& state = graph.states[i];
    if (!state.delay_of || given(i) || !given(*state.delay_of)) continue;
    const StateDecl& of = graph.states[*state.delay_of];
    if (of.type == state.type) continue;
    return fail(
        "initial state {} is given without {}, its values of the {} steps before; give both, as a "
        "call that writes final states leaves them",
        quote(of.name), quote(state.name), state.type.shape[0].to_string());
  }
  return {};
}

void choose_initial_states(const Graph& graph, std::span<const void* const> given,
                           std::vector<const void*>& chosen) {
  std::ranges::fill(chosen, nullptr);
  std::ranges::copy(given, chosen.begin());
  for (size_t i = 0; i < graph.states.size() && !given.empty(); ++i) {
    const std::optional<uint32_t>& base = graph.states[i].delay_of;
    if (chosen[i] == nullptr && base) chosen[i] = given[*base];
  }
}

}  // namespace rnnc
