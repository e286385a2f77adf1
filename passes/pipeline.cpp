#include "passes/pipeline.h"

#include "ir/verify.h"
#include "passes/common_subexpressions.h"
#include "passes/constant_folding.h"
#include "passes/dead_code.h"
#include "passes/delays.h"
#include "passes/dot_products.h"
#include "passes/structure.h"

namespace rnnc {
namespace {

struct Pass {
  const char* name;
  bool (*run)(Graph&);
};

constexpr Pass kFirst[] = {
    {"dead_code", run_dead_code},        // before delays, so that unused ones make no states
    {"delays", run_delays},              // from here on only states cross steps
    {"dot_products", run_dot_products},  // from here on every product has a matrix
};

// Each finds more to do after the others: folding needs the scalars that `structure` bares,
// `structure` the equal operands that `common_subexpressions` joins. They only ever simplify, so
// there is an end to it.
constexpr Pass kUntilNothingChanges[] = {
    {"structure", run_structure},                          // makes equal pieces and products…
    {"constant_folding", run_constant_folding},            // and this equal constants…
    {"common_subexpressions", run_common_subexpressions},  // …which this then joins
    {"dead_code", run_dead_code},                          // what the others left unused
};

Result<bool> run(const Pass& pass, Graph& graph) {
  const bool changed = pass.run(graph);
  if (Status status = verify(graph); !status) {
    return fail("this is a bug in rnnc: after pass {}: {}", pass.name, status.error().message);
  }
  return changed;
}

}  // namespace

Status run_pipeline(Graph& graph) {
  for (const Pass& pass : kFirst) {
    if (Result<bool> changed = run(pass, graph); !changed) {
      return tl::unexpected(changed.error());
    }
  }
  for (bool again = true; again;) {
    again = false;
    for (const Pass& pass : kUntilNothingChanges) {
      const Result<bool> changed = run(pass, graph);
      if (!changed) return tl::unexpected(changed.error());
      again = again || *changed;
    }
  }
  return {};
}

}  // namespace rnnc
