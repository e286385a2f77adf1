/// Why the backward half has each value of a forward step as it has: for people, who see it by
/// `rnnc explain --backward`.
#pragma once

#include <cstdint>
#include <vector>

#include "passes/gradient/residuals.h"

namespace rnnc {

enum class ResidualReason : uint8_t {
  NotNeeded,  // not had: no gradient asks for it
  Given,      // read again: an input or output of the call, or a mask
  Followed,   // saved: it is also a state's earlier value, a step later
  Follows,    // read again: that
  State,      // saved: a state's earlier value, so that the recurrence is not run again
  Reversed,   // saved: a sequence that was reversed here
  AskedFor,   // saved: all that is asked for is (ResidualChoice::All)
  Dearer,     // saved: computing it anew costs as much, or more
  Cheaper,    // computed anew
};

struct ResidualDecision {
  NodeId value = kNoNode;
  ResidualReason reason = ResidualReason::NotNeeded;
  /// Whether a gradient asks for it; else only what is computed anew from it.
  bool asked = false;
  /// Of a step of one sequence, as bytes that are moved in that time. Dearer: of all that would be
  /// computed anew without it; Cheaper: of its op alone.
  double save_bytes = 0;
  double anew_bytes = 0;
  int products = 0;  // Dearer: among what `anew_bytes` counts; Cheaper: between it and `from`
  /// What it is, or would be, computed anew from: values that are saved or read again.
  std::vector<NodeId> from = {};
  /// Dearer: values that would have to be saved in its stead, because they are never computed anew.
  std::vector<NodeId> instead = {};

  /// Saved: the first value of the array that it is saved in, or itself (residual_arrays.h).
  NodeId array = kNoNode;

  bool is_saved() const;
};

/// Of all nodes that vary over steps, in their order. `given`: as ResidualPrices have it; `asked` by
/// a gradient; `used`: what the backward half has; `saved` of that.
std::vector<ResidualDecision> explain_residuals(const Graph& graph, const std::vector<bool>& varies,
                                                const std::vector<bool>& given,
                                                const std::vector<bool>& asked,
                                                const std::vector<bool>& used,
                                                const std::vector<bool>& saved,
                                                ResidualChoice choice, const ResidualCosts& costs);

}  // namespace rnnc
