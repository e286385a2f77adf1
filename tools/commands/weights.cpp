#include "runtime/arrays/array_file.h"
#include "runtime/arrays/random_arrays.h"
#include "runtime/arrays/safetensors.h"
#include "runtime/program/planner.h"
#include "tools/command.h"
#include "tools/weight_files.h"

namespace rnnc::tools {
namespace {

struct Options {
  Source source;
  WeightFiles files;
  bool random = false;
  uint64_t seed = 0;
  std::string output;
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

/// Random params, to the file that is asked for.
Status write_random(const Options& options, const Graph& graph) {
  const Result<Graph> bound = bind_all(graph, options.source.dims);
  if (!bound) return tl::unexpected(bound.error());
  const Result<Planner> planner = Planner::make(*bound, {});
  if (!planner) return tl::unexpected(planner.error());
  const auto weights = random_weights(planner->signature().params, options.seed);
  if (!weights) return tl::unexpected(weights.error());
  if (!is_dash(options.output)) return write_arrays(options.output, *weights);
  const Result<std::string> bytes = format_safetensors(*weights);
  return bytes ? print(*bytes) : tl::unexpected(bytes.error());
}

int run_weights(const CLI::App& command, const Options& options) {
  if (options.random && options.output.empty()) {
    return report_usage(command, "--random: its bytes are not text: give -o FILE");
  }
  const std::string problem =
      check_dashes({options.source.file, options.files.tensors, options.files.map}, {});
  if (!problem.empty()) return report_usage(command, problem);
  if (Status status = check_output(options.output); !status) return report(status.error());
  std::optional<Definition> definition = load_definition(options.source);
  if (!definition) return kError;
  const std::optional<Graph> graph = lower_definition(*definition, options.source.dims);
  if (!graph) return kError;
  if (options.random) {
    const Status status = write_random(options, *graph);
    return status ? kOk : report(status.error());
  }
  const Result<std::string> text = describe_weights(options, *graph);
  if (!text) return report(text.error());
  const Status status = write_output(options.output, *text);
  return status ? kOk : report(status.error());
}

}  // namespace

void add_weights(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("weights", "List the tensors that a weights file must hold, with shapes");
  add_source(*command, options->source);
  add_weight_files(*command, options->files);
  CLI::Option* random = command->add_flag("--random", options->random,
                                          "Write random params, as `rnnc run --seed` takes them");
  random->excludes("--weights")->excludes("--weight-map");
  add_seed(*command, options->seed)->needs(random);
  add_output(*command, options->output);
  command->footer(
      "With --weights the file is checked, too; with --weight-map the list says of which tensors\n"
      "each param is made. With --random it writes a file of them, .npz if its name ends so.\n\n"
      "Examples:\n"
      "  rnnc weights examples/cells/lstm.rnn --dim I=80 --dim H=512\n"
      "  rnnc weights examples/cells/lstm.rnn --weights torch.safetensors --weight-map torch\n"
      "  rnnc weights encoder.rnn --weights model.npz --weight-map encoder.map\n"
      "  rnnc weights examples/cells/lstm.rnn --dim I=80 --dim H=512 --random -o w.safetensors");
  command->callback(
      [command, options, &exit_code] { exit_code = run_weights(*command, *options); });
}

}  // namespace rnnc::tools
