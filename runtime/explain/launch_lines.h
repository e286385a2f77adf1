/// Which lines of the text a launch computes.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph/graph.h"
#include "ir/plan/plan.h"
#include "ir/plan/plan_touches.h"

namespace rnnc::explain {

class LaunchLines {
 public:
  /// `graph`, which outlives this, is the one that the plan is made of; its buffers have the names
  /// that they got there (before `name_as_text`).
  LaunchLines(const Graph& graph, const Plan& plan);

  /// "lstm.rnn:15", in the order of the text: those of all values on the way from what a launch
  /// reads of this step to what it writes. `weights` are the names of its products' weights, "W" or
  /// "R[2]".
  std::vector<std::string> of(const std::vector<Touch>& touches,
                              const std::vector<std::string>& weights) const;

 private:
  /// The values whose names the buffer has.
  std::vector<NodeId> values_in(BufferId id) const;
  /// Of the products of a left operand, those of these weights.
  void add_products(std::string_view left, const std::vector<std::string>& weights,
                    std::vector<NodeId>& values) const;

  const Graph& graph_;
  /// Each line once.
  std::vector<std::string> lines_of(const std::vector<NodeId>& values) const;

  std::vector<std::string> names_;  // of the plan's buffers
  std::multimap<std::string, NodeId, std::less<>> values_;
};

}  // namespace rnnc::explain
