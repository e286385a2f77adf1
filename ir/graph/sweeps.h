/// How values run over a sequence: forward or in reverse, and how often a Graph has to go over it,
/// because a value that is computed runs in reverse: the sweep of each value.
#pragma once

#include <optional>
#include <vector>

#include "ir/graph/graph.h"

namespace rnnc {

enum class Direction : uint8_t {
  Invariant,  // depends on params, constants and totals alone; runs with either
  Forward,
  Reversed,
  Mixed,  // of an op that takes both, and of what depends on it: no valid graph has it
};

/// The direction of each node. A Reverse of an invariant is that invariant.
std::vector<Direction> find_directions(const Graph& graph);

/// Of what each node comes after.
enum class After : uint8_t {
  Nothing,  // a value of a step, or an invariant
  Steps,    // all steps: made of totals
  Batch,    // all steps, and of each row of the batch: made of states' last values
};
std::vector<After> find_after(const Graph& graph);

/// Whether each node runs in reverse; invariants run both ways and count as forward.
/// Nothing if some op mixes directions.
std::optional<std::vector<bool>> find_reversed(const Graph& graph);

/// The first sweep in which each node can be computed: that of its operands, one more behind a
/// `Reverse` of anything but an invariant or an input itself (whose steps are all there). A read of
/// a state is in the sweep of the state's `next`. Nothing if a recurrence passes through a Reverse,
/// which no order of steps can compute.
std::optional<std::vector<uint32_t>> find_sweeps(const Graph& graph);

}  // namespace rnnc
