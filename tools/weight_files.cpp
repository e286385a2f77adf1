#include "tools/weight_files.h"

#include <algorithm>
#include <set>

#include "runtime/arrays/match_arrays.h"
#include "runtime/base/describe.h"
#include "runtime/base/files.h"
#include "runtime/program/run.h"
#include "runtime/weights/shipped_maps.h"
#include "tools/command.h"
#include "tools/standard_streams.h"

namespace rnnc::tools {
namespace {

constexpr std::string_view kTorch = "torch";
constexpr int64_t kLongestMap = 1 << 20;  // bytes

/// Whether the params, which need no data, are the graph's under their own names.
Status check_params(const Graph& graph, const DimBindings& dims, const RunArgs& args) {
  const Result<DimBindings> bindings = infer_dims(graph, dims, args);
  if (!bindings) return tl::unexpected(bindings.error());
  std::vector<ExpectedArray> expected;  // of any sizes, which fit by now
  for (const ParamDecl& param : graph.params) {
    expected.push_back({.name = param.name,
                        .shape = std::vector<std::optional<int64_t>>(param.type.rank()),
                        .shape_text = to_string(param.type.shape)});
  }
  const ArrayMatch match =
      match_arrays("param", graph.name, expected, args.params, true, Compared::shapes);
  if (match.name_problems.empty()) return {};
  return tl::unexpected(Error{list_problems(graph.name, match.name_problems)});
}

bool has_param(const Graph& graph, std::string_view name) {
  return std::ranges::find(graph.params, name, &ParamDecl::name) != graph.params.end();
}

/// The prefixes under which a file has tensors that a map takes.
std::set<std::string> prefixes_of(const std::vector<NamedArray>& tensors,
                                  const std::set<std::string, std::less<>>& wanted) {
  std::set<std::string> prefixes;
  for (const NamedArray& tensor : tensors) {
    for (const std::string& name : wanted) {
      if (!tensor.name.ends_with(name)) continue;
      const std::string prefix = tensor.name.substr(0, tensor.name.size() - name.size());
      if (prefix.empty() || prefix.back() == '.') prefixes.insert(prefix);
    }
  }
  return prefixes;
}

/// Takes the shipped map if the tensors have the names that it is for. Where only some tensors have
/// them the error says which prefix chooses these.
Status find_map(Weights& weights, const WeightFiles& files, const Graph& graph) {
  const auto is_param = [&](const NamedArray& tensor) { return has_param(graph, tensor.name); };
  if (std::ranges::any_of(weights.tensors, is_param)) return {};
  std::optional<WeightMap> map = find_shipped_map(graph);
  if (!map) return {};
  const std::set<std::string> prefixes = prefixes_of(weights.tensors, tensors_of(*map, graph));
  if (prefixes.empty()) return {};
  const std::string& prefix = *prefixes.begin();
  const bool all = std::ranges::all_of(
      weights.tensors, [&](const NamedArray& tensor) { return tensor.name.starts_with(prefix); });
  if (prefixes.size() > 1 || !all) {
    constexpr size_t kMostShown = 4;
    std::vector<std::string> options;
    for (const std::string& one : prefixes) {
      if (options.size() < kMostShown) options.push_back(quote(files.prefix + one));
    }
    return fail(
        "{} has tensors of PyTorch's names beside others: choose them with --weight-prefix {}{}",
        quote(files.tensors), fmt::join(options, " or "),
        prefixes.size() > kMostShown ? " and so on" : "");
  }
  weights.prefix += prefix;
  Result<std::vector<NamedArray>> tensors = weights.file.headers(weights.prefix);
  if (!tensors) return tl::unexpected(tensors.error());
  weights.tensors = std::move(*tensors);
  weights.map = std::move(map);
  report_note(
      fmt::format("the tensors of {} have PyTorch's names, and are mapped as by {}"
                  "--weight-map torch ({})",
                  quote(files.tensors),
                  prefix.empty() ? "" : fmt::format("--weight-prefix {} ", weights.prefix),
                  weights.map->name()));
  return {};
}

}  // namespace

void add_weight_files(CLI::App& command, WeightFiles& files) {
  CLI::Option* weights = command.add_option("--weights", files.tensors,
                                            "A safetensors or .npz file with the params; `rnnc "
                                            "weights` lists them");
  weights->type_name("FILE");
  command
      .add_option("--weight-map", files.map,
                  "Says which tensors make the params, where names or layouts differ "
                  "(docs/weight_maps.md); torch: the one for PyTorch's LSTM, GRU or RNN; "
                  "keras/lstm and others by name")
      ->type_name("FILE");
  command
      .add_option("--weight-prefix", files.prefix,
                  "Takes the tensors whose names start so, such as encoder.lstm., and drops it")
      ->needs(weights)
      ->type_name("TEXT");
}

Result<std::optional<WeightMap>> read_weight_map(const WeightFiles& files, const Graph& graph) {
  if (files.map.empty()) return std::nullopt;
  if (files.map == kTorch) {
    std::optional<WeightMap> map = find_shipped_map(graph);
    if (map) return map;
    return fail(
        "no map for PyTorch's modules makes the params of {}: those that there are make the params "
        "of the cells and networks called LSTM, ProjectedLSTM, GRU, Elman (nn.RNN) and ElmanReLU",
        quote(graph.name));
  }
  if (Result<WeightMap> shipped = shipped_map(files.map)) return std::move(*shipped);
  const auto read = [](const std::filesystem::path& file) -> Result<WeightMap> {
    const Result<std::string> text = read_file(file, kLongestMap);
    if (!text) return tl::unexpected(text.error());
    return WeightMap::parse(*text, file.string());
  };
  return read_input(files.map, read, WeightMap::parse);
}

Result<Weights> open_weights(const WeightFiles& files, const Graph& graph) {
  Result<ArrayFile> file = read_input(files.tensors, ArrayFile::open, ArrayFile::parse);
  if (!file) return tl::unexpected(file.error());
  Result<std::vector<NamedArray>> tensors = file->headers(files.prefix);
  if (!tensors) return tl::unexpected(tensors.error());
  Result<std::optional<WeightMap>> map = read_weight_map(files, graph);
  if (!map) return tl::unexpected(map.error());
  Weights weights{std::move(*file), files.prefix, std::move(*tensors), std::move(*map)};
  if (weights.map) return weights;
  Status found = find_map(weights, files, graph);
  if (!found) return tl::unexpected(found.error());
  return weights;
}

Status take_shapes(const Weights& weights, const Graph& graph, const DimBindings& dims,
                   RunArgs& args) {
  if (weights.map) {
    Result<std::vector<NamedArray>> params =
        map_weights(*weights.map, graph, dims, weights.tensors, Compared::shapes);
    if (!params) return tl::unexpected(params.error());
    args.params = std::move(*params);
    return {};
  }
  args.params = weights.tensors;
  Status status = check_params(graph, dims, args);
  if (status) return status;
  const bool none = std::ranges::none_of(
      weights.tensors, [&](const NamedArray& tensor) { return has_param(graph, tensor.name); });
  return fail("{}{}", status.error().message,
              none ? "\n  --weight-map says which tensors make which params" : "");
}

Result<std::vector<NamedArray>> read_params(const Weights& weights, const Graph& graph,
                                            const DimBindings& dims) {
  Result<std::vector<NamedArray>> tensors = weights.file.read(weights.prefix);
  if (!tensors || !weights.map) return tensors;
  return map_weights(*weights.map, graph, dims, *tensors);
}

}  // namespace rnnc::tools
