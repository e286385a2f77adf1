#include "runtime/match_arrays.h"
#include "runtime/planner.h"
#include "runtime/random_arrays.h"
#include "runtime/run.h"
#include "runtime/safetensors.h"
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

/// Whether `tensors` are the params, under their own names.
Status check_params(const Graph& graph, const DimBindings& dims, std::vector<NamedArray> tensors) {
  Graph params_only;
  params_only.name = graph.name;
  params_only.dims = graph.dims;
  params_only.params = graph.params;
  RunArgs args;
  args.params = std::move(tensors);
  const Result<DimBindings> bindings = infer_dims(params_only, dims, args);
  if (!bindings) return tl::unexpected(bindings.error());
  std::vector<ExpectedArray> expected;  // of any sizes, which fit by now
  for (const ParamDecl& param : graph.params) {
    expected.push_back({.name = param.name,
                        .shape = std::vector<std::optional<int64_t>>(param.type.rank()),
                        .shape_text = to_string(param.type.shape)});
  }
  const ArrayMatch match = match_arrays("param", graph.name, expected, args.params, true);
  if (match.name_problems.empty()) return {};
  return tl::unexpected(Error{list_problems(graph.name, match.name_problems)});
}

/// Whether the file holds the params, once mapped.
Status check_tensors(const Options& options, const Graph& graph,
                     const std::optional<WeightMap>& map) {
  Result<std::vector<NamedArray>> tensors = read_tensors(options.files);
  if (!tensors) return tl::unexpected(tensors.error());
  if (!map) return check_params(graph, options.source.dims, std::move(*tensors));
  const auto params = map_weights(*map, graph, options.source.dims, *tensors);
  return params ? Status() : tl::unexpected(params.error());
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
  const Result<std::optional<WeightMap>> map = read_weight_map(options.files);
  if (!map) return tl::unexpected(map.error());
  if (!options.files.tensors.empty()) {
    if (Status status = check_tensors(options, graph, *map); !status) {
      return tl::unexpected(status.error());
    }
  }
  const Result<Graph> bound = bind_known(graph, options.source.dims);
  if (!bound) return tl::unexpected(bound.error());
  return list_params(*bound, *map);
}

/// A safetensors file of random params.
Result<std::string> make_random(const Options& options, const Graph& graph) {
  const Result<Graph> bound = bind_all(graph, options.source.dims);
  if (!bound) return tl::unexpected(bound.error());
  const Result<Planner> planner = Planner::make(*bound, {});
  if (!planner) return tl::unexpected(planner.error());
  const auto weights = random_weights(planner->signature().params, options.seed);
  if (!weights) return tl::unexpected(weights.error());
  return format_safetensors(*weights);
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
  const Result<std::string> bytes =
      options.random ? make_random(options, *graph) : describe_weights(options, *graph);
  if (!bytes) return report(bytes.error());
  const Status status = write_output(options.output, *bytes);
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
      "each param is made. With --random it writes a safetensors file.\n\n"
      "Examples:\n"
      "  rnnc weights examples/cells/lstm.rnn --dim I=80 --dim H=512\n"
      "  rnnc weights examples/cells/lstm.rnn --weight-map examples/torch/lstm.map --weights "
      "torch.safetensors\n"
      "  rnnc weights examples/cells/lstm.rnn --dim I=80 --dim H=512 --random -o w.safetensors");
  command->callback(
      [command, options, &exit_code] { exit_code = run_weights(*command, *options); });
}

}  // namespace rnnc::tools
