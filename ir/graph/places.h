/// What people call the values of a Graph that was made of a text, and where they stand in it.
#pragma once

#include <string>
#include <vector>

#include "ir/graph/graph.h"

namespace rnnc {

/// "lstm.rnn:14:7": file, line and column, from 1. Of what stands in the prelude, the place of the
/// equation that calls it. Empty if there is no such place.
std::string place_of(const Graph& graph, SourceLocation location);

/// The text there, blanks and line ends as single blanks, cut with `…` to so many bytes. Empty if
/// there is none.
std::string text_at(const Graph& graph, SourceLocation location, size_t most = 40);

/// Names of values. One Graph, which outlives this and stays as it is.
class ValueNames {
 public:
  explicit ValueNames(const Graph& graph);

  /// "x[t]", "h[t-1]"; the name of an equation whose value it is: "i", "LSTM.0.h[t]"; of a part of one
  /// "`W_i @ x[t]` in i"; without a text "%7 tanh".
  std::string of(NodeId id) const;

 private:
  const Graph& graph_;
  std::vector<NodeId> values_;  // of each equation
};

}  // namespace rnnc
