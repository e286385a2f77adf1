/// The weight maps of examples/torch, keras and flax, which rnnc carries with it.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph/graph.h"
#include "runtime/weights/weight_map.h"

namespace rnnc {

struct ShippedMap {
  std::string_view name;  // "torch/lstm.map"
  std::string_view text;
};

const std::vector<ShippedMap>& shipped_maps();

/// The one of a name such as "torch/lstm"; an error if there is none.
Result<WeightMap> shipped_map(std::string_view name);

/// The one of torch/ that makes this graph's params, of a module with as many directions; nothing if
/// none does.
std::optional<WeightMap> find_shipped_map(const Graph& graph);

/// The tensors that the map makes `graph`'s params of; none if it makes others.
std::set<std::string, std::less<>> tensors_of(const WeightMap& map, const Graph& graph);

}  // namespace rnnc
