/// Step graphs for GPU tests, and arguments for them.
#pragma once

#include "ir/graph/graph.h"
#include "ir/graph/interpreter.h"

namespace rnnc::test {

/// A long short-term memory of size H on inputs of size I; state and output h, state c.
Graph lstm_graph(int64_t input_size, int64_t hidden_size);

/// Arguments of moderate size: weights within 1 / sqrt(columns), other values within 1.
InterpreterArgs arguments_for(const Graph& graph, int64_t steps, int64_t batch,
                              bool with_initial_states = false);

/// Adds an input or output.
NodeId add_input(Graph& graph, const std::string& name, Shape shape);
void add_output(Graph& graph, const std::string& name, NodeId value);

}  // namespace rnnc::test
