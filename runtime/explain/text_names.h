/// A plan in the words of the text that its graph was made of.
#pragma once

#include "ir/graph/graph.h"
#include "ir/plan/plan.h"

namespace rnnc::explain {

/// Buffers that hold the value of a line get the name that it has there: "i" in place of
/// "sigmoid.17", and of several parts "i|f". What is a part of a line keeps its number. `graph` is
/// the one that the plan is made of.
void name_as_text(const Graph& graph, Plan& plan);

}  // namespace rnnc::explain
