/// Params from files: --weights, --weight-map and --weight-prefix.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "runtime/array.h"
#include "runtime/weight_map.h"

namespace rnnc::tools {

struct WeightFiles {
  std::string tensors;  // the safetensors file; empty: none
  std::string map;      // empty: tensors have the params' names
  std::string prefix;   // of the tensors' names
};

void add_weight_files(CLI::App& command, WeightFiles& files);

/// The map, if one is given.
Result<std::optional<WeightMap>> read_weight_map(const WeightFiles& files);

/// The tensors under the prefix, not yet mapped.
Result<std::vector<NamedArray>> read_tensors(const WeightFiles& files);

}  // namespace rnnc::tools
