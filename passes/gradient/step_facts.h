/// What is known of a Graph before it is differentiated, and which of its states' earlier values
/// the backward half reads from later ones.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ir/graph/graph.h"
#include "ir/graph/sweeps.h"
#include "passes/gradient/differentiate.h"

namespace rnnc {

struct StepFacts {
  StepFacts(const Graph& graph, const DifferentiateOptions& options);

  std::vector<Direction> directions;  // per node
  std::vector<bool> varies;           // over steps
  std::vector<bool> active;           // has an adjoint
  std::vector<bool> active_states;
  bool lengths = false;
  /// Per state: the output that is its value at the step before, zero before the first, and that
  /// the backward half is given.
  std::vector<std::optional<uint32_t>> outputs;
  /// Per state: whether it is read from its next value, which is saved, at the step before.
  std::vector<bool> follows;

  bool reversed(NodeId id) const { return directions[id] == Direction::Reversed; }

  /// Of the states that could follow their next values, those do that the backward half reads as
  /// well as these, if totals of products take these as they are: such arrays lie in memory anyway,
  /// and saved they take no pass that computes them anew. `needed`: what the backward half has;
  /// `multiplied`: what totals take.
  void let_follow(const Graph& graph, const std::vector<bool>& needed,
                  const std::vector<bool>& multiplied);
  /// Values that states follow.
  std::vector<bool> followed(const Graph& graph) const;
  /// States that are read from an output or from what they follow.
  std::vector<bool> read_later(const Graph& graph) const;

 private:
  bool begins_with_zero(const Graph& graph, uint32_t state) const;
  void find_active(const Graph& graph, const DifferentiateOptions& options);

  std::vector<bool> may_follow_;  // per state
};

}  // namespace rnnc
