#include "runtime/weights/weight_map.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <optional>
#include <set>

#include "frontend/syntax/diagnostics.h"
#include "runtime/arrays/infer_dims.h"
#include "runtime/arrays/match_arrays.h"
#include "runtime/base/call.h"
#include "runtime/base/describe.h"
#include "runtime/base/host_memory.h"

namespace rnnc {
namespace {

/// A matrix with its axes exchanged.
Array transpose(const Array& matrix) {
  const size_t element = size_of(matrix.dtype);
  const auto rows = static_cast<size_t>(matrix.shape[0]);
  const auto columns = static_cast<size_t>(matrix.shape[1]);
  Array result{matrix.dtype, {matrix.shape[1], matrix.shape[0]}, {}};
  if (matrix.data.empty()) return result;  // only its shape is there
  result.data.resize(matrix.data.size());
  for (size_t row = 0; row < rows; ++row) {
    for (size_t column = 0; column < columns; ++column) {
      std::memcpy(result.data.data() + (column * rows + row) * element,
                  matrix.data.data() + (row * columns + column) * element, element);
    }
  }
  return result;
}

/// Rows of one piece, which lie side by side in memory.
Array cut(const Array& array, int64_t piece, int64_t pieces) {
  if (pieces == 1) return array;
  Array result{.dtype = array.dtype, .shape = array.shape, .data = {}};
  result.shape[0] /= pieces;
  const size_t bytes = array.data.size() / static_cast<size_t>(pieces);
  const auto begin = array.data.begin() + static_cast<ptrdiff_t>(bytes) * piece;
  result.data.assign(begin, begin + static_cast<ptrdiff_t>(bytes));
  return result;
}

/// In float64, so that sums of weights are as good as those of the framework that made them.
Array sum(const Array& left, const Array& right) {
  std::vector<double> values = left.to_doubles();
  const std::vector<double> others = right.to_doubles();
  std::ranges::transform(values, others, values.begin(), std::plus<>());
  return Array::from_doubles(values, left.shape, DType::f64);
}

/// What a map makes of a file's tensors, zeros left out.
struct Mapped {
  std::vector<NamedArray> arrays;
  std::vector<std::string> zeros;
};

/// Fetches the tensors of sources, and lists what does not fit.
class TensorMapper {
 public:
  TensorMapper(std::string_view owner, const std::vector<NamedArray>& tensors, Compared compared)
      : owner_(owner), tensors_(tensors) {
    for (const NamedArray& tensor : tensors) {
      if (!by_name_.emplace(tensor.name, &tensor.array).second) {
        problems_.push_back(fmt::format("tensor {} is given twice", quote(tensor.name)));
      } else if (compared == Compared::shapes) {
        continue;
      } else if (const Status whole = tensor.array.check(); !whole) {
        problems_.push_back(fmt::format("tensor {} {}", quote(tensor.name), whole.error().message));
      }
    }
  }

  Result<Mapped> run(const std::vector<WeightSource>& sources);

 private:
  const Array* find(const WeightTerm& term) {
    const auto found = by_name_.find(term.tensor);
    if (found == by_name_.end()) return nullptr;
    used_.insert(term.tensor);
    return found->second;
  }
  void report(std::string problem) {
    if (reported_.insert(problem).second) problems_.push_back(std::move(problem));
  }
  std::optional<Array> make(const WeightTerm& term);
  void add(const WeightSource& source);
  void list_missing();
  void list_unused();

  std::string_view owner_;
  const std::vector<NamedArray>& tensors_;
  std::map<std::string_view, const Array*> by_name_;
  std::set<std::string> used_;
  /// Tensors that are not there, with the params that need them, in order.
  std::vector<std::pair<std::string, std::vector<std::string>>> missing_;
  std::set<std::string> reported_;
  std::vector<std::string> problems_;
  Mapped mapped_;
};

/// The term's values, if its tensor is there and has them.
std::optional<Array> TensorMapper::make(const WeightTerm& term) {
  const Array* tensor = find(term);
  if (tensor == nullptr) return std::nullopt;
  const std::string what =
      fmt::format("tensor {} {}", quote(term.tensor), shape_text(tensor->shape));
  if (term.transposed && tensor->shape.size() != 2) {
    report(what + " cannot be transposed: it is not a matrix");
    return std::nullopt;
  }
  const size_t first = term.transposed ? 1 : 0;
  if (term.pieces > 1 && (tensor->shape.empty() || tensor->shape[first] % term.pieces != 0)) {
    const bool exchanged = tensor->shape.size() == 2 && tensor->shape[1 - first] % term.pieces == 0;
    report(fmt::format("{}{} does not split into {} equal pieces{}", what,
                       term.transposed ? ", transposed," : "", term.pieces,
                       exchanged ? ": it looks transposed" : ""));
    return std::nullopt;
  }
  if (term.transposed) return cut(transpose(*tensor), term.piece, term.pieces);
  return cut(*tensor, term.piece, term.pieces);
}

void TensorMapper::add(const WeightSource& source) {
  const auto is_there = [this](const WeightTerm& term) { return by_name_.contains(term.tensor); };
  if (source.or_zeros && std::ranges::none_of(source.sum, is_there)) {
    mapped_.zeros.push_back(source.param);
    return;
  }
  std::optional<Array> total;
  const WeightTerm* first = nullptr;
  for (const WeightTerm& term : source.sum) {
    if (!is_there(term)) {
      auto entry = std::ranges::find(missing_, term.tensor, &decltype(missing_)::value_type::first);
      if (entry == missing_.end()) entry = missing_.insert(entry, {term.tensor, {}});
      entry->second.push_back(source.param);
      continue;
    }
    std::optional<Array> array = make(term);
    if (!array) continue;
    if (!total) {
      total = std::move(*array);
      first = &term;
    } else if (total->shape != array->shape) {
      report(fmt::format("param {} is a sum of {} {} and {} {}, whose shapes differ",
                         quote(source.param), quote(to_string(*first)), shape_text(total->shape),
                         quote(to_string(term)), shape_text(array->shape)));
    } else {
      total = sum(*total, *array);
    }
  }
  if (total) mapped_.arrays.push_back({source.param, std::move(*total)});
}

void TensorMapper::list_missing() {
  std::vector<std::string> unused;
  for (const NamedArray& tensor : tensors_) {
    if (!used_.contains(tensor.name)) unused.push_back(tensor.name);
  }
  for (const auto& [tensor, params] : missing_) {
    const std::string more =
        params.size() == 1 ? "" : fmt::format(" and {} more", params.size() - 1);
    const bool shown = problems_.size() < kMostProblems;
    report(fmt::format("tensor {}, for param {}{}, is missing{}", quote(tensor),
                       quote(params.front()), more, shown ? did_you_mean(tensor, unused) : ""));
  }
}

void TensorMapper::list_unused() {
  for (const NamedArray& tensor : tensors_) {
    if (used_.contains(tensor.name)) continue;
    report(fmt::format("tensor {} {} is not used by the map", quote(tensor.name),
                       shape_text(tensor.array.shape)));
  }
}

Result<Mapped> TensorMapper::run(const std::vector<WeightSource>& sources) {
  for (const WeightSource& source : sources) add(source);
  list_missing();
  list_unused();
  if (!problems_.empty()) return tl::unexpected(Error{list_problems(owner_, problems_)});
  return std::move(mapped_);
}

/// The graph with these params and nothing else.
Graph only_params(const Graph& graph, const std::vector<NamedArray>& arrays) {
  Graph result;
  result.name = graph.name;
  result.dims = graph.dims;
  for (const ParamDecl& param : graph.params) {
    if (std::ranges::find(arrays, param.name, &NamedArray::name) != arrays.end()) {
      result.params.push_back(param);
    }
  }
  return result;
}

/// The shape of a graph's param, whose dims `bindings` and defaults give.
Result<std::vector<int64_t>> shape_of_zeros(const Graph& graph, const std::string& name,
                                            const DimBindings& bindings) {
  const auto param = std::ranges::find(graph.params, name, &ParamDecl::name);
  DimBindings known = bindings;
  for (const DimDecl& dim : graph.dims) {
    if (dim.default_value) known.emplace(dim.name, *dim.default_value);
  }
  std::vector<int64_t> shape;
  for (const Dim& dim : param->type.shape) {
    const Result<int64_t> size = dim.evaluate(known);
    if (!size) {
      return fail("param {} {} is zeros, and its size does not follow from the tensors: {}",
                  quote(name), to_string(param->type.shape), size.error().message);
    }
    shape.push_back(*size);
  }
  return shape;
}

/// Appends the params that are zeros, in `graph`'s shapes; an error if memory cannot hold them.
Status add_zeros(std::vector<NamedArray>& params, const std::vector<std::string>& names,
                 const Graph& graph, const DimBindings& bindings, Compared compared) {
  constexpr DType kType = DType::f32;
  double bytes = 0;  // which may be beyond what an integer holds
  for (const std::string& name : names) {
    Result<std::vector<int64_t>> shape = shape_of_zeros(graph, name, bindings);
    if (!shape) return tl::unexpected(shape.error());
    bytes += std::accumulate(shape->begin(), shape->end(), static_cast<double>(size_of(kType)),
                             std::multiplies<>());
    const std::string what =
        fmt::format("with param {} {}, those that are zeros take", quote(name), shape_text(*shape));
    Status fits = check_host_memory(what, bytes);
    if (!fits) return fits;
    params.push_back({name, Array{kType, std::move(*shape), {}}});
    if (compared == Compared::shapes) continue;
    params.back().array = Array::zeros(kType, std::move(params.back().array.shape));
    if (Status whole = params.back().array.check(); !whole) {
      return fail("not enough memory: {} {}", what, whole.error().message);
    }
  }
  return {};
}

template <typename Declared>
std::vector<std::string> names_of(const std::vector<Declared>& declared) {
  std::vector<std::string> names;
  for (const Declared& entry : declared) names.push_back(entry.name);
  return names;
}

Result<Mapped> map_tensors(const WeightMap& map, std::string_view owner,
                           const std::vector<std::string>& params,
                           const std::vector<NamedArray>& tensors, Compared compared) {
  const Result<std::vector<WeightSource>> sources = map.resolve(owner, params);
  if (!sources) return tl::unexpected(sources.error());
  return TensorMapper(owner, tensors, compared).run(*sources);
}

Result<std::vector<NamedArray>> make_params(const WeightMap& map, const Graph& graph,
                                            const DimBindings& dims,
                                            const std::vector<NamedArray>& tensors,
                                            Compared compared) {
  Result<Mapped> mapped = map_tensors(map, graph.name, names_of(graph.params), tensors, compared);
  if (!mapped) return tl::unexpected(mapped.error());
  RunArgs args;
  args.params = std::move(mapped->arrays);
  const Result<DimBindings> bindings = infer_dims(only_params(graph, args.params), dims, args);
  if (!bindings) return tl::unexpected(bindings.error());
  if (Status status = add_zeros(args.params, mapped->zeros, graph, *bindings, compared); !status) {
    return tl::unexpected(status.error());
  }
  return std::move(args.params);
}

/// The one tensor with which transposed everything fits, if there is one.
const NamedArray* find_transposed(const WeightMap& map, const Graph& graph, const DimBindings& dims,
                                  const std::vector<NamedArray>& tensors) {
  constexpr size_t kMostTried = 100;  // each time everything is mapped
  std::vector<NamedArray> shapes;
  for (const NamedArray& tensor : tensors) {
    shapes.push_back({tensor.name, {tensor.array.dtype, tensor.array.shape, {}}});
  }
  for (size_t i = 0; i < std::min(shapes.size(), kMostTried); ++i) {
    std::vector<int64_t>& shape = shapes[i].array.shape;
    if (shape.size() != 2 || shape[0] == shape[1]) continue;
    std::swap(shape[0], shape[1]);
    if (make_params(map, graph, dims, shapes, Compared::shapes)) return &tensors[i];
    std::swap(shape[0], shape[1]);
  }
  return nullptr;
}

}  // namespace

std::string to_string(const WeightTerm& term) {
  const std::string tensor =
      term.transposed ? fmt::format("transpose({})", term.tensor) : term.tensor;
  return term.pieces == 1 ? tensor : fmt::format("{}[{} of {}]", tensor, term.piece, term.pieces);
}

std::string WeightMap::Pattern::at(int64_t value) const {
  std::string name = texts.front();
  for (size_t i = 0; i < indices.size(); ++i) {
    name += std::to_string(indices[i].scale * value + indices[i].offset);
    name += texts[i + 1];
  }
  return name;
}

Result<std::vector<WeightSource>> WeightMap::resolve(std::string_view owner,
                                                     const std::vector<std::string>& params) const {
  std::vector<WeightSource> sources(params.size());
  std::vector<std::string> problems;
  // The sources of one rule for one value of its index; false if it names no param.
  const auto resolve_at = [&](const Rule& rule, int64_t value) {
    std::vector<size_t> places;
    std::vector<std::string> unknown;
    for (const Pattern& pattern : rule.params) {
      const std::string name = pattern.at(value);
      const auto found = std::ranges::find(params, name);
      places.push_back(static_cast<size_t>(found - params.begin()));
      if (found == params.end()) unknown.push_back(name);
    }
    const bool none = unknown.size() == places.size();
    if (none && value > 0) return false;
    for (const std::string& name : unknown) {
      const bool shown = problems.size() < kMostProblems;
      problems.push_back(fmt::format("line {}: {} has no param {}{}", rule.line, quote(owner),
                                     quote(name), shown ? did_you_mean(name, params) : ""));
    }
    const auto count = static_cast<int64_t>(places.size());
    for (size_t i = 0; i < places.size(); ++i) {
      if (places[i] == params.size()) continue;
      WeightSource& source = sources[places[i]];
      if (source.line != 0) {
        problems.push_back(fmt::format("line {}: line {} gives the param {} already", rule.line,
                                       source.line, quote(params[places[i]])));
        continue;
      }
      source = {params[places[i]], {}, rule.or_zeros, rule.line};
      for (const Term& term : rule.sum) {
        source.sum.push_back({term.tensor.at(value), term.transposed,
                              term.piece * count + static_cast<int64_t>(i), term.pieces * count});
      }
    }
    return !none;
  };
  for (const Rule& rule : rules_) {
    for (int64_t value = 0; resolve_at(rule, value) && rule.repeats;) ++value;
  }
  for (size_t i = 0; i < params.size(); ++i) {
    if (sources[i].line == 0) {
      problems.push_back(fmt::format("no line gives the param {}", quote(params[i])));
    }
  }
  if (problems.empty()) return sources;
  return fail("the map {} does not fit {}:{}{}", quote(name_), quote(owner),
              problems.size() == 1 ? " " : "\n  ", join_problems(problems));
}

Result<std::vector<NamedArray>> map_weights(const WeightMap& map, const Graph& graph,
                                            const DimBindings& dims,
                                            const std::vector<NamedArray>& tensors,
                                            Compared compared) {
  Result<std::vector<NamedArray>> params = without_exceptions(
      "load", graph.name, [&] { return make_params(map, graph, dims, tensors, compared); });
  if (params) return params;
  const NamedArray* transposed = find_transposed(map, graph, dims, tensors);
  if (transposed == nullptr) return params;
  const std::vector<int64_t>& shape = transposed->array.shape;
  return fail("tensor {} {} looks transposed: as {} it fits", quote(transposed->name),
              shape_text(shape), shape_text({shape[1], shape[0]}));
}

Result<std::vector<NamedArray>> map_weights(const WeightMap& map, const Signature& signature,
                                            const std::vector<NamedArray>& tensors) {
  Graph graph;
  graph.name = signature.name;
  for (const ArrayInfo& param : signature.params) {
    graph.params.push_back({param.name, {Shape(param.shape.begin(), param.shape.end())}, {}});
  }
  return map_weights(map, graph, {}, tensors);
}

}  // namespace rnnc
