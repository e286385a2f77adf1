#include "runtime/weights/weight_layout.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "runtime/arrays/match_arrays.h"
#include "runtime/base/describe.h"

namespace rnnc {
namespace {

/// Of the tensor with a piece that makes the param; nothing if it is beyond any memory.
std::optional<std::vector<int64_t>> tensor_shape(const WeightTerm& term, const ArrayInfo& param) {
  std::vector<int64_t> shape = param.shape;
  if (term.pieces > 1) {
    if (shape.empty()) shape.push_back(1);
    if (__builtin_mul_overflow(shape[0], term.pieces, &shape[0])) return std::nullopt;
  }
  if (term.transposed) std::swap(shape[0], shape[1]);
  if (!count_elements(shape)) return std::nullopt;
  return shape;
}

}  // namespace

Result<WeightLayout> lay_out_weights(const WeightMap& map, const Signature& signature) {
  WeightLayout layout;
  layout.params = signature.params;
  std::vector<std::string> names;
  for (const ArrayInfo& param : signature.params) names.push_back(param.name);
  Result<std::vector<WeightSource>> sources = map.resolve(signature.name, names);
  if (!sources) return tl::unexpected(sources.error());
  layout.sources = *std::move(sources);

  std::vector<std::string> problems;
  for (size_t i = 0; i < layout.params.size(); ++i) {
    const ArrayInfo& param = layout.params[i];
    const std::string taker =
        fmt::format("param {} {}", quote(param.name), shape_text(param.shape));
    for (const WeightTerm& term : layout.sources[i].sum) {
      const std::string made = fmt::format("{} cannot be {}", taker, quote(to_string(term)));
      if (term.transposed && param.shape.size() != 2) {
        problems.push_back(made + ": it is not a matrix");
        continue;
      }
      std::optional<std::vector<int64_t>> shape = tensor_shape(term, param);
      if (!shape) {
        problems.push_back(made + ": the tensor would be too large");
        continue;
      }
      const auto known = std::ranges::find(layout.tensors, term.tensor, &WeightTensor::name);
      if (known == layout.tensors.end()) {
        layout.tensors.push_back({term.tensor, *std::move(shape)});
      } else if (known->shape != *shape) {
        problems.push_back(fmt::format("{}: the tensor would be {}, and is {} for other params",
                                       made, shape_text(*shape), shape_text(known->shape)));
      }
    }
  }
  if (problems.empty()) return layout;
  return tl::unexpected(Error{list_problems(signature.name, problems)});
}

std::string to_json(const WeightLayout& layout) {
  using Json = nlohmann::ordered_json;
  Json params = Json::array();
  for (size_t i = 0; i < layout.params.size(); ++i) {
    Json sum = Json::array();
    for (const WeightTerm& term : layout.sources[i].sum) {
      sum.push_back({{"tensor", term.tensor},
                     {"transposed", term.transposed},
                     {"piece", term.piece},
                     {"pieces", term.pieces}});
    }
    params.push_back({{"name", layout.params[i].name},
                      {"shape", layout.params[i].shape},
                      {"sum", std::move(sum)},
                      {"or_zeros", layout.sources[i].or_zeros}});
  }
  Json tensors = Json::array();
  for (const WeightTensor& tensor : layout.tensors) {
    tensors.push_back({{"name", tensor.name}, {"shape", tensor.shape}});
  }
  const Json json = {{"params", std::move(params)}, {"tensors", std::move(tensors)}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace rnnc
