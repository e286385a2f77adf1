/// Params from files: --weights, --weight-map and --weight-prefix.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "ir/graph/graph.h"
#include "runtime/arrays/array_file.h"
#include "runtime/program/run.h"
#include "runtime/weights/weight_map.h"

namespace rnnc::tools {

struct WeightFiles {
  std::string tensors;  // the safetensors or .npz file; empty: none
  std::string map;      // a file, "torch", or a shipped map; empty: tensors have the params' names
  std::string prefix;   // of the tensors' names
};

void add_weight_files(CLI::App& command, WeightFiles& files);

/// The map, if one is asked for; `torch` is the shipped one that fits the graph.
Result<std::optional<WeightMap>> read_weight_map(const WeightFiles& files, const Graph& graph);

/// A weights file of which names and shapes are known, and what makes params of it.
struct Weights {
  ArrayFile file;
  std::string prefix;
  std::vector<NamedArray> tensors;  // those under the prefix, without data
  std::optional<WeightMap> map;     // none: they are the params
};

/// Tensors of PyTorch's names get the shipped map that fits the graph even if none is asked for,
/// which a note says.
Result<Weights> open_weights(const WeightFiles& files, const Graph& graph);

/// Makes `args.params` the params without data. An error lists all that are missing, unknown or,
/// beside the other arrays that are given, of a wrong shape. A graph without inputs takes none.
Status take_shapes(const Weights& weights, const Graph& graph, const DimBindings& dims,
                   RunArgs& args);
/// The params.
Result<std::vector<NamedArray>> read_params(const Weights& weights, const Graph& graph,
                                            const DimBindings& dims);

}  // namespace rnnc::tools
