/// The passes over a Graph that every plan starts with, in their order.
#pragma once

#include "ir/graph.h"

namespace rnnc {

/// Runs them all and verifies after each; an error is a bug in the pass that it names.
/// `graph` is bound and verified; declared inputs, params, outputs and states keep their places.
Status run_pipeline(Graph& graph);

}  // namespace rnnc
