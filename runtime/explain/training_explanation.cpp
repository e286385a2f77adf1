#include "runtime/explain/training_explanation.h"

#include <algorithm>

#include "ir/graph/places.h"
#include "passes/gradient/differentiate.h"
#include "runtime/explain/describe_launch.h"
#include "runtime/explain/spelling.h"

namespace rnnc::explain {
namespace {

constexpr size_t kMostNames = 4;

class ResidualWriter {
 public:
  ResidualWriter(const TrainingGraphs& graphs, DType dtype, ResidualChoice choice)
      : step_(graphs.step), names_(graphs.step), dtype_(dtype), choice_(choice) {}

  ResidualInfo describe(const ResidualDecision& decision) const {
    const Node& node = step_[decision.value];
    ResidualInfo info{.name = names_.of(decision.value),
                      .place = place_of(step_, node.location),
                      .shape = node.type.shape,
                      .how = how(decision),
                      .why = why(decision),
                      .asked = decision.asked};
    if (decision.is_saved()) {
      info.array = residual_name(decision.array);
      info.bytes = element_count(node.type.shape) * static_cast<int64_t>(size_of(dtype_));
    }
    return info;
  }

 private:
  static std::string how(const ResidualDecision& decision) {
    if (decision.is_saved()) return "saved";
    return decision.reason == ResidualReason::Given     ? "read"
           : decision.reason == ResidualReason::Follows ? "read"
           : decision.reason == ResidualReason::Cheaper ? "anew"
                                                        : "not needed";
  }

  std::string why(const ResidualDecision& decision) const {
    switch (decision.reason) {
      case ResidualReason::NotNeeded:
        return "no gradient asks for it";
      case ResidualReason::Given:
        return why_given(step_[decision.value].op);
      case ResidualReason::Followed:
        return "read by a product, and a step earlier as a state's earlier value, too";
      case ResidualReason::Follows:
        return "saved at the step before: read again, a step earlier, at no cost";
      case ResidualReason::State:
        return "a state's earlier value: always saved, so that no recurrence runs again";
      case ResidualReason::Reversed:
        return "a sequence that was reversed on the way: always saved";
      case ResidualReason::AskedFor:
        return "a gradient asks for it, and all such values are saved";
      case ResidualReason::Dearer:
        return why_saved(decision);
      case ResidualReason::Cheaper:
        break;
    }
    return why_anew(decision);
  }

  static std::string why_given(Op op) {
    if (op == Op::Input) return "an input of the call: read again at no cost";
    if (op == Op::State) return "an output of the call: read again, a step earlier, at no cost";
    return "a mask: made again at no cost";
  }

  /// "x, h[t-1], i and 3 others".
  std::string list(const std::vector<NodeId>& values) const {
    std::vector<std::string> names;
    for (const NodeId value : values) {
      std::string name = names_.of(value);
      if (std::ranges::find(names, name) == names.end()) names.push_back(std::move(name));
    }
    const size_t others = names.size() > kMostNames + 1 ? names.size() - kMostNames : 0;
    if (others > 0) names.resize(kMostNames);
    const std::string text = fmt::format("{}", fmt::join(names, ", "));
    return others > 0 ? fmt::format("{} and {} others", text, others) : text;
  }

  /// Who wants it, if no gradient does.
  static std::string_view purpose(const ResidualDecision& decision) {
    return decision.asked ? "" : "; only what is computed anew needs it";
  }

  std::string why_saved(const ResidualDecision& decision) const {
    if (!decision.instead.empty()) {
      return fmt::format("fewer bytes than {}, which would have to be saved in its stead{}",
                         list(decision.instead), purpose(decision));
    }
    const std::string moved = bytes_text(decision.save_bytes);
    if (choice_ == ResidualChoice::Least) {
      return fmt::format("as few bytes as any other choice{}", purpose(decision));
    }
    return fmt::format(
        "moves {}; anew from {} it takes {}, the time of moving {}{}", moved, list(decision.from),
        decision.products > 0 ? plural(decision.products, "product") : "elementwise work",
        bytes_text(decision.anew_bytes), purpose(decision));
  }

  std::string why_anew(const ResidualDecision& decision) const {
    const Op op = step_[decision.value].op;
    const std::string moved = bytes_text(decision.save_bytes);
    const std::string of = list(decision.from);
    if (op == Op::MatMul && choice_ != ResidualChoice::Least) {
      return fmt::format("a product of {} takes the time of moving {}, saving it that of {}", of,
                         bytes_text(decision.anew_bytes), moved);
    }
    const std::string_view work = op == Op::MatMul   ? "a product of"
                                  : is_reduction(op) ? "a reduction of"
                                  : is_scalar(op)    ? "elementwise work on"
                                                     : "only moves elements of";
    const int before = decision.products - (op == Op::MatMul ? 1 : 0);
    const std::string made = before > 0 ? fmt::format("what {} {} of ", plural(before, "product"),
                                                      before == 1 ? "makes" : "make")
                                        : "";
    return fmt::format("{} {}{}; saving it would move {}", work, made, of, moved);
  }

  const Graph& step_;
  const ValueNames names_;
  const DType dtype_;
  const ResidualChoice choice_;
};

std::string wanted_text(const TrainingOptions& training) {
  std::vector<std::string> arrays;
  const auto count = [](const std::vector<bool>& list) { return std::ranges::count(list, true); };
  const auto add = [&](const std::vector<bool>& list, std::string_view what) {
    if (count(list) > 0) arrays.push_back(plural(count(list), what));
  };
  add(training.params, "param");
  add(training.inputs, "input");
  add(training.initial_states, "initial state");
  const auto given = count(training.given_states);
  return fmt::format(
      "gradients of {}; {}",
      arrays.empty() ? "nothing" : fmt::format("{}", fmt::join(arrays, ", ")),
      given == 0 ? "initial states as declared" : plural(given, "initial state") + " given");
}

}  // namespace

Result<TrainingExplanation> explain_training(const TrainingGraphs& graphs,
                                             const HalfOptions& options,
                                             const TrainingOptions& training, int64_t steps) {
  TrainingExplanation explanation;
  explanation.wanted = wanted_text(training);
  explanation.residuals = to_string(training.residuals);
  explanation.notes = graphs.notes;
  const PlanOptions& forward = options.forward;
  explanation.operations_per_byte = product_flops(forward.machine, forward.dtype, forward.tf32) /
                                    forward.machine.memory_bandwidth;
  const ResidualWriter writer(graphs, forward.dtype, training.residuals);
  for (const ResidualDecision& decision : graphs.decisions) {
    explanation.values.push_back(writer.describe(decision));
    explanation.bytes_per_step += explanation.values.back().bytes;
  }
  SavedNames saved;
  for (const ResidualInfo& value : explanation.values) {
    if (!value.array.empty()) saved.emplace(value.array, value.name);
  }
  Result<Explanation> half = explain_plan(graphs.forward, forward, steps, &saved);
  if (!half) return tl::unexpected(half.error());
  explanation.forward = *std::move(half);
  half = explain_plan(graphs.backward, options.backward, steps, &saved);
  if (!half) return tl::unexpected(half.error());
  explanation.backward = *std::move(half);
  return explanation;
}

}  // namespace rnnc::explain
