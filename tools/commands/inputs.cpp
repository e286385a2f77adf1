#include <algorithm>

#include "runtime/arrays/npy.h"
#include "runtime/arrays/random_arrays.h"
#include "runtime/base/describe.h"
#include "runtime/base/files.h"
#include "runtime/base/host_memory.h"
#include "tools/command.h"

namespace rnnc::tools {
namespace {

struct Options {
  Source source;
  bool random = false;
  std::vector<NamedFile> outputs;
  std::string lengths;
  uint64_t seed = 0;
  int64_t batch = 1;
  int64_t steps = 100;
};

/// Its dims that no input has may be anything, and need no value. `with_tables`: but for how many
/// rows the tables have that integers name; each is a param of the integers' name.
Graph inputs_alone(const Graph& graph, bool with_tables) {
  Graph alone;
  alone.name = graph.name;
  alone.dims = graph.dims;
  alone.inputs = graph.inputs;
  for (uint32_t i = 0; with_tables && i < graph.inputs.size(); ++i) {
    for (const NodeId table : tables_of(graph, i)) {
      alone.params.push_back({graph.inputs[i].name, {{graph[table].type.shape[0]}}, {}});
    }
  }
  for (DimDecl& dim : alone.dims) {
    const auto has_dim = [&](const auto& decl) {
      return std::ranges::any_of(decl.type.shape, [&](const Dim& size) {
        return std::ranges::count(size.symbols(), dim.name) > 0;
      });
    };
    const bool used =
        std::ranges::any_of(alone.inputs, has_dim) || std::ranges::any_of(alone.params, has_dim);
    if (!used && !dim.default_value) dim.default_value = 1;
  }
  return alone;
}

/// A line for each input: its name and shape.
Result<std::string> list_inputs(const Options& options, const Graph& graph) {
  const Result<Graph> bound = bind_known(graph, options.source.dims);
  if (!bound) return tl::unexpected(bound.error());
  std::string text;
  for (const InputDecl& input : bound->inputs) {
    std::string sizes = "T, B";
    for (const Dim& dim : input.type.shape) sizes += ", " + dim.to_string();
    text += fmt::format("{} [{}]{}\n", input.name, sizes, input.integer ? " int" : "");
  }
  return text;
}

/// [T, B, ...]
Result<Array> random_input(const Options& options, const Graph& bound, const InputDecl& input) {
  const DType dtype = input.integer ? DType::i32 : DType::f32;
  ArrayInfo info{input.name, {options.steps, options.batch}, dtype};
  for (const ParamDecl& table : bound.params) {
    const int64_t rows = table.type.shape[0].constant().value();
    const bool fewer = info.table_rows == 0 || rows < info.table_rows;
    if (table.name == input.name && fewer) info.table_rows = rows;
  }
  for (const Dim& dim : input.type.shape) info.shape.push_back(dim.constant().value());
  // What cannot be counted is too much, too.
  constexpr int64_t kMost = int64_t{1} << 60;
  const int64_t elements = std::min(count_elements(info.shape).value_or(kMost), kMost);
  const Status status =
      check_host_memory("the random inputs take", static_cast<double>(elements) * 4);
  if (!status) return tl::unexpected(status.error());
  return random_array(info, 1, options.seed);
}

/// All files or none.
Status write_random(const Options& options, const Graph& graph) {
  const Result<Graph> bound = bind_all(graph, options.source.dims);
  if (!bound) return tl::unexpected(bound.error());
  std::vector<OutputFile> files;
  std::vector<std::string> names;
  for (const InputDecl& input : bound->inputs) names.push_back(input.name);
  for (const NamedFile& named : options.outputs) {
    const auto input = std::ranges::find(bound->inputs, named.name, &InputDecl::name);
    if (input == bound->inputs.end()) {
      return fail("{} has no input {}; it has {}", quote(graph.name), quote(named.name),
                  names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", ")));
    }
    const Result<Array> array = random_input(options, *bound, *input);
    if (!array) return tl::unexpected(array.error());
    files.push_back({named.file, format_npy(*array)});
  }
  if (!options.lengths.empty()) {
    const IntegerArray lengths{{options.batch},
                               random_lengths(options.batch, options.steps, options.seed)};
    files.push_back({options.lengths, format_npy_integers(lengths)});
  }
  return write_outputs(files);
}

/// What is wrong with the options together, or "".
std::string check_usage(const Options& options) {
  std::vector<std::filesystem::path> written;
  for (const NamedFile& named : options.outputs) written.push_back(named.file);
  if (!options.lengths.empty()) written.emplace_back(options.lengths);
  if (options.random && written.empty()) return "--random: say what to write with -o NAME=FILE";
  return check_dashes({}, written);
}

int run_inputs(const CLI::App& command, const Options& options) {
  if (const std::string problem = check_usage(options); !problem.empty()) {
    return report_usage(command, problem);
  }
  std::optional<Definition> definition = load_definition(options.source);
  if (!definition) return kError;
  const std::optional<Graph> graph = lower_definition(*definition, options.source.dims);
  if (!graph) return kError;
  const Graph alone = inputs_alone(*graph, options.random);
  if (options.random) {
    const Status status = write_random(options, alone);
    return status ? kOk : report(status.error());
  }
  const Result<std::string> text = list_inputs(options, alone);
  if (!text) return report(text.error());
  const Status status = print(*text);
  return status ? kOk : report(status.error());
}

}  // namespace

void add_inputs(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("inputs", "List the arrays that a run takes, or make random ones");
  add_source(*command, options->source);
  CLI::Option* random = command->add_flag(
      "--random", options->random, "Write random inputs, uniform in [-1, 1], or rows of tables");
  add_named_files(*command, "-o,--output", options->outputs,
                  "With --random: where to write an input; may be repeated");
  command->get_option("--output")->needs(random);
  command
      ->add_option("--lengths", options->lengths,
                   "With --random: where to write lengths from 1 to T, for `rnnc run --lengths`")
      ->type_name("FILE")
      ->needs(random);
  add_size(*command, "--batch", options->batch, "With --random: sequences, B");
  add_size(*command, "--steps", options->steps, "With --random: steps, T");
  add_seed(*command, options->seed)->needs(random);
  command->footer(
      "Examples:\n"
      "  rnnc inputs examples/cells/lstm.rnn --dim I=80\n"
      "  rnnc inputs examples/cells/lstm.rnn --dim I=80 --batch 4 --random -o x=x.npy");
  command->callback([command, options, &exit_code] { exit_code = run_inputs(*command, *options); });
}

}  // namespace rnnc::tools
