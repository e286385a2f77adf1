#include "passes/graph/pipeline.h"

#include "ir/graph/verify.h"
#include "passes/graph/common_subexpressions.h"
#include "passes/graph/constant_folding.h"
#include "passes/graph/dead_code.h"
#include "passes/graph/delays.h"
#include "passes/graph/distribute_products.h"
#include "passes/graph/dot_products.h"
#include "passes/graph/identities.h"
#include "passes/graph/sequence_features.h"
#include "passes/graph/stop_gradients.h"
#include "passes/graph/structure.h"

namespace rnnc {
namespace {

struct Step {
  std::string_view name;
  bool (*run)(Graph&);
  bool wanted = true;
};

bool run_simplify(Graph& graph) {
  const bool moves = run_structure(graph);
  const bool arithmetic = run_identities(graph);
  return moves || arithmetic;
}

/// True if one of them changed the graph.
Result<bool> run(std::span<const Step> steps, Graph& graph, const PassObserver& observer) {
  bool changed = false;
  for (const Step& step : steps) {
    if (!step.wanted) continue;
    if (!observe(observer, step.name, &graph, nullptr, [&] { return step.run(graph); })) continue;
    changed = true;
    if (Status status = verify(graph); !status) {
      return fail_as(ErrorKind::Internal, "this is a bug in rnnc: after pass {}: {}", step.name,
                     status.error().message);
    }
  }
  return changed;
}

}  // namespace

Status run_pipeline(Graph& graph, const PipelineOptions& options) {
  const Step lowerings[] = {
      {"stop-gradients", run_pass_through_stops, !options.training},
      {"dead-code", run_dead_code},               // before delays: unused ones make no states
      {"delays", run_delays},                     // from here on only states cross steps
      {"resets", run_resets, options.resets},     // of the delays' states too
      {"lengths", run_lengths, options.lengths},  // last: what stays past the end knows no resets
      {"dot-products", run_dot_products},         // from here on every product has a matrix
  };
  const Result<bool> lowered = run(lowerings, graph, options.observer);
  return lowered ? run_simplifications(graph, options) : tl::unexpected(lowered.error());
}

Status run_simplifications(Graph& graph, const PipelineOptions& options) {
  const PassSet& passes = options.passes;
  // Each finds more to do after the others: folding needs the scalars that `simplify` bares,
  // `simplify` the equal operands that `cse` joins. They only ever simplify, so there is an end.
  const Step simplifications[] = {
      {"simplify", run_simplify, passes.has(Pass::Simplify)},  // makes equal pieces and products…
      {"fold", run_constant_folding, passes.has(Pass::Fold)},  // and this equal constants…
      {"cse", run_common_subexpressions, passes.has(Pass::Cse)},    // …which this then joins
      {"dead-code", run_dead_code, passes.has(Pass::DeadCode)},     // what the others left unused
      {"hoist", run_distribute_products, passes.has(Pass::Hoist)},  // of joined vectors
  };

  Result<bool> changed = true;
  while (changed && *changed) changed = run(simplifications, graph, options.observer);
  return changed ? Status() : tl::unexpected(changed.error());
}

}  // namespace rnnc
