/// Sizes that arrays tell.
#pragma once

#include "ir/base/status.h"
#include "ir/graph/graph.h"
#include "runtime/arrays/run_args.h"

namespace rnnc {

/// Dims of `graph` that follow from the shapes of named arrays (inputs without their leading T, B;
/// states without B), added to `given`. A conflict is an error that names both places.
Result<DimBindings> infer_dims(const Graph& graph, const DimBindings& given, const RunArgs& args);

}  // namespace rnnc
