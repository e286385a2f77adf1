#include "tools/command.h"
#include "tools/weight_files.h"

namespace rnnc::tools {
namespace {

struct Options {
  Source source;
  WeightFiles files;
};

std::vector<std::string> names_of(const Graph& graph) {
  std::vector<std::string> names;
  for (const ParamDecl& param : graph.params) names.push_back(param.name);
  return names;
}

/// A line for each param: its name and shape, and what the map makes it of.
Result<std::string> list_params(const Graph& graph, const std::optional<WeightMap>& map) {
  std::vector<WeightSource> sources;
  if (map) {
    Result<std::vector<WeightSource>> resolved = map->resolve(graph.name, names_of(graph));
    if (!resolved) return tl::unexpected(resolved.error());
    sources = std::move(*resolved);
  }
  std::string text;
  for (size_t i = 0; i < graph.params.size(); ++i) {
    text += fmt::format("{} {}", graph.params[i].name, to_string(graph.params[i].type.shape));
    if (map) {
      std::vector<std::string> terms;
      for (const WeightTerm& term : sources[i].sum) terms.push_back(to_string(term));
      text +=
          fmt::format(" = {}{}", fmt::join(terms, " + "), sources[i].or_zeros ? " or zeros" : "");
    }
    text += '\n';
  }
  return text;
}

Result<std::string> describe_weights(const Options& options, const Graph& graph) {
  Result<std::optional<WeightMap>> map = std::nullopt;
  if (options.files.tensors.empty()) {
    map = read_weight_map(options.files, graph);
    if (!map) return tl::unexpected(map.error());
  } else {
    Result<Weights> weights = open_weights(options.files, graph);
    if (!weights) return tl::unexpected(weights.error());
    Graph params_only;
    params_only.name = graph.name;
    params_only.dims = graph.dims;
    params_only.params = graph.params;
    RunArgs args;
    Status status = take_shapes(*weights, params_only, options.source.dims, args);
    if (!status) return tl::unexpected(status.error());
    map = std::move(weights->map);
  }
  const Result<Graph> bound = bind_known(graph, options.source.dims);
  if (!bound) return tl::unexpected(bound.error());
  return list_params(*bound, *map);
}

int run_weights(const Options& options) {
  std::optional<Definition> definition = load_definition(options.source);
  if (!definition) return kError;
  const std::optional<Graph> graph = lower_definition(*definition, options.source.dims);
  if (!graph) return kError;
  const Result<std::string> text = describe_weights(options, *graph);
  if (!text) return report(text.error());
  const Status status = print(*text);
  return status ? kOk : report(status.error());
}

}  // namespace

void add_weights(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("weights", "List the tensors that a weights file must hold, with shapes");
  add_source(*command, options->source);
  add_weight_files(*command, options->files);
  command->footer(
      "With --weights the file is checked, too; with --weight-map the list says of which tensors\n"
      "each param is made.\n\n"
      "Examples:\n"
      "  rnnc weights examples/cells/lstm.rnn --dim I=80 --dim H=512\n"
      "  rnnc weights examples/cells/lstm.rnn --weights torch.safetensors --weight-map torch\n"
      "  rnnc weights encoder.rnn --weights model.npz --weight-map encoder.map");
  command->callback([options, &exit_code] { exit_code = run_weights(*options); });
}

}  // namespace rnnc::tools
