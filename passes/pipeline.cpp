#include "passes/pipeline.h"

#include "ir/verify.h"
#include "passes/common_subexpressions.h"
#include "passes/constant_folding.h"
#include "passes/dead_code.h"
#include "passes/dot_products.h"
#include "passes/input_delays.h"

namespace rnnc {
namespace {

struct Pass {
  const char* name;
  bool (*run)(Graph&);
};

constexpr Pass kPasses[] = {
    {"dead_code", run_dead_code},                // first, so that unused delays make no states
    {"input_delays", run_input_delays},          // from here on only states cross steps
    {"dot_products", run_dot_products},          // from here on every product has a matrix
    {"constant_folding", run_constant_folding},  // makes constants equal…
    {"common_subexpressions", run_common_subexpressions},  // …which this then joins
    {"dead_code", run_dead_code},                          // what the two before left unused
};

}  // namespace

Status run_pipeline(Graph& graph) {
  for (const Pass& pass : kPasses) {
    pass.run(graph);
    if (Status status = verify(graph); !status) {
      return fail("this is a bug in rnnc: after pass {}: {}", pass.name, status.error().message);
    }
  }
  return {};
}

}  // namespace rnnc
