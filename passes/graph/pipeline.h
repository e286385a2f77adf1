/// The passes over a Graph that every plan starts with, in their order.
#pragma once

#include "ir/graph/graph.h"
#include "passes/options/pass_observer.h"
#include "passes/options/pass_set.h"

namespace rnnc {

struct PipelineOptions {
  PassSet passes = PassSet::all();
  bool lengths = false;   // calls come with lengths of their sequences
  bool resets = false;    // and with a mask of resets
  bool training = false;  // the graph will be differentiated: `stop_gradient` stays
  PassObserver observer = {};
};

/// Runs the lowerings, which every plan needs, and the passes that are wanted; verifies what each of
/// these has changed:
/// an error is a bug in the pass that it names. `graph` is bound and verified; declared inputs,
/// params, outputs and states keep their places, and states for delays come after them.
Status run_pipeline(Graph& graph, const PipelineOptions& options = {});

/// Of that, what comes after the lowerings: for Graphs that are made of a lowered one.
Status run_simplifications(Graph& graph, const PipelineOptions& options = {});

}  // namespace rnnc
