/// What several parts of the C API know of its handles.
#pragma once

#include "ir/graph/graph.h"
#include "runtime/capi/border.h"
#include "runtime/program/program.h"

struct rnnc_graph {
  rnnc::Graph graph;
};

struct rnnc_program {
  rnnc::Program program;
};

namespace rnnc::capi {

/// Values of dims; an error where a name is NULL or comes twice.
Result<DimBindings> bindings_of(const rnnc_dim* dims, size_t count);

}  // namespace rnnc::capi
