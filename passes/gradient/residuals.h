/// What of a forward step is saved for the backward half, and what that computes anew.
///
/// Once the states of all steps are known, everything else of a step can be computed for a whole
/// chunk at once, so computing anew never runs through the recurrence again.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "ir/graph/graph.h"

namespace rnnc {

enum class ResidualChoice : uint8_t {
  All,    // every value that the backward half asks for
  Least,  // the fewest elements
  Auto,   // what takes the least time: moving bytes, or arithmetic
};
std::string_view to_string(ResidualChoice choice);
std::optional<ResidualChoice> parse_residual_choice(std::string_view name);

/// What moving bytes costs on a machine, and what arithmetic does.
struct ResidualCosts {
  double element_bytes = 4;  // of what is saved
  /// Of products, that it does in the time in which a byte comes from memory: GPUs (H100, H200) 40
  /// to 300, processors 10 to 50.
  double operations_per_byte = 150;
  double product_bytes = 4;  // of an element of a product's result
};

/// What a byte costs that is moved to or from memory.
inline constexpr int64_t kPriceOfByte = 1000;

/// What it costs a step of one sequence to have a value in the backward half. Shapes are numbers.
class ResidualPrices {
 public:
  /// `given`: whether a call gives the backward half a node's value.
  ResidualPrices(const Graph& graph, const std::vector<bool>& given, ResidualChoice choice,
                 const ResidualCosts& costs);

  /// Whether the backward half has it for nothing: an input of the call, a mask, or given.
  bool is_free(NodeId id) const;
  /// Written by the forward half, read by the backward one.
  int64_t saving(NodeId id) const;
  /// Computed anew from its operands; none: never, since it is a state's earlier value or a
  /// reversed sequence.
  std::optional<int64_t> anew(NodeId id) const;

 private:
  int64_t elements(NodeId id) const;

  const Graph& graph_;
  const std::vector<bool>& given_;
  const ResidualChoice choice_;
  const int64_t saved_element_;
  const double product_operation_;
  const int64_t product_element_;
};

/// Whether each node is saved, so that all `needed` ones can be had from what is saved, from
/// inputs, params, masks and what is `given`. `varies`: whether a node varies over steps; only such
/// are saved.
std::vector<bool> choose_residuals(const Graph& graph, const std::vector<bool>& varies,
                                   const std::vector<bool>& given, const std::vector<bool>& needed,
                                   ResidualChoice choice, const ResidualCosts& costs = {});

}  // namespace rnnc
