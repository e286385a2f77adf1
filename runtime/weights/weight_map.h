/// Weights under other names and in other layouts, such as those of PyTorch's modules, as a cell's
/// or network's params. A map is text, one line for one or several params:
///
///     # nn.LSTM stores its gates' weights as one tensor, in this order.
///     LSTM.{l}.[W_i, W_f, W_g, W_o] = weight_ih_l{l}
///     LSTM.{l}.[b_i, b_f, b_g, b_o] = bias_ih_l{l} + bias_hh_l{l} or zeros
///     Dense.0.W = transpose(kernel)
///     GRU.0.b_n = bias[2 of 3]
///
/// docs/weight_maps.md is the reference.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/base/status.h"
#include "ir/graph/graph.h"
#include "runtime/arrays/array.h"
#include "runtime/arrays/match_arrays.h"
#include "runtime/arrays/signature.h"

namespace rnnc {

/// A piece of a tensor of the file: one of `pieces` equal ones along its first axis.
struct WeightTerm {
  std::string tensor;
  bool transposed = false;  // before it is cut
  int64_t piece = 0;
  int64_t pieces = 1;
};

/// "transpose(kernel)[2 of 4]".
std::string to_string(const WeightTerm& term);

/// How one param is made.
struct WeightSource {
  std::string param;
  std::vector<WeightTerm> sum;
  bool or_zeros = false;
  uint32_t line = 0;  // of the map, counted from 1
};

/// An immutable value.
class WeightMap {
 public:
  /// Reads the text of a map. The error lists everything wrong with it, each with its place;
  /// `name` is the file's name there.
  static Result<WeightMap> parse(std::string_view text, std::string_view name);

  /// The file's name, as `parse` got it.
  const std::string& name() const { return name_; }

  /// How each of `params` is made, in this order. The error lists params without a line, params
  /// with two, and lines that fit no param; `owner` is the cell's or network's name.
  Result<std::vector<WeightSource>> resolve(std::string_view owner,
                                            const std::vector<std::string>& params) const;

  /// `{2*l+1}`, or a number if `scale` is 0.
  struct Index {
    int64_t scale = 0;
    int64_t offset = 0;
  };
  /// A name with numbers in it: texts[0] indices[0] texts[1] …
  struct Pattern {
    std::vector<std::string> texts;
    std::vector<Index> indices;
    std::string at(int64_t value) const;
  };
  struct Term {
    Pattern tensor;
    bool transposed = false;
    int64_t piece = 0;
    int64_t pieces = 1;
  };
  struct Rule {
    std::vector<Pattern> params;
    std::vector<Term> sum;
    bool or_zeros = false;
    bool repeats = false;  // has an index
    uint32_t line = 0;
  };

 private:
  WeightMap(std::string name, std::vector<Rule> rules)
      : name_(std::move(name)), rules_(std::move(rules)) {}

  std::string name_;
  std::vector<Rule> rules_;
};

/// The params of a graph or a program, made from the tensors of a file. One error lists params
/// whose tensors are missing, tensors that are not used, and shapes that do not fit. Sums are
/// float64. Dims that the graph leaves open follow from the tensors, as far as zeros need them.
/// Where only shapes are compared, neither tensors nor params have data.
Result<std::vector<NamedArray>> map_weights(const WeightMap& map, const Graph& graph,
                                            const DimBindings& dims,
                                            const std::vector<NamedArray>& tensors,
                                            Compared compared = Compared::shapes_and_data);
Result<std::vector<NamedArray>> map_weights(const WeightMap& map, const Signature& signature,
                                            const std::vector<NamedArray>& tensors);

}  // namespace rnnc
