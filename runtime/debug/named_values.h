/// What the values of a step are called by those who look at them.
#pragma once

#include <string>
#include <vector>

#include "ir/graph/graph.h"

namespace rnnc::debug {

struct NamedValue {
  NodeId node = kNoNode;
  std::string name;   // as an equation's left side, without [t]: "i", "h", "LSTM.0.i"
  std::string place;  // "lstm.rnn:14:7", or empty
};

/// Each equation's value, inputs and outputs, in the order of the step, but what is the same at all
/// steps and inputs of integers. `graph` is bound. A name may stand for several.
std::vector<NamedValue> named_values(const Graph& graph);

/// Those that are meant by the names, in their order: whole names ("LSTM.0.i") or what is behind
/// their last dot ("i": in each layer), with or without [t]. An error names all unknown ones.
Result<std::vector<NamedValue>> find_values(const Graph& graph,
                                            const std::vector<std::string>& names);

/// "unit 3", "unit [1, 2]", or "" of a scalar: the element of a value at a place in its row.
std::string element_name(const Type& type, size_t index);

}  // namespace rnnc::debug
