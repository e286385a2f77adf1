/// How a program's params and the tensors of a weight map are made of one another, for programs that
/// convert them themselves.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/weights/weight_map.h"

namespace rnnc {

struct WeightTensor {
  std::string name;
  std::vector<int64_t> shape;
};

struct WeightLayout {
  std::vector<ArrayInfo> params;
  std::vector<WeightSource> sources;  // one for each param
  std::vector<WeightTensor> tensors;  // in the order in which the params take them
};

/// Lays out a program's params. The error lists what `WeightMap::resolve` does, or tensors that two
/// params want in different shapes.
Result<WeightLayout> lay_out_weights(const WeightMap& map, const Signature& signature);

/// One object; docs/c.md lists its keys.
std::string to_json(const WeightLayout& layout);

}  // namespace rnnc
