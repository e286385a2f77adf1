/// Graphs as text under tests/passes/cases, one file each.
#pragma once

#include <string>
#include <vector>

#include "ir/graph/graph.h"

namespace rnnc::test {

/// Names of all `.graph` files there, sorted.
std::vector<std::string> case_names();

/// The bound, verified graph of a case; dims that are not given have the file's defaults.
Graph load_case(const std::string& name, const DimBindings& dims = {});

/// Its backward half, simplified, with the gradients of all params and inputs.
Graph load_backward_half(const std::string& name, const DimBindings& dims = {});

/// A bound, verified graph from text.
Graph graph_from(const std::string& text, const DimBindings& dims = {});

/// "tests/passes/cases/NAME".
std::string case_path(const std::string& file);

}  // namespace rnnc::test
