#include "tools/run_files.h"

#include <algorithm>

#include "passes/graph/dead_code.h"
#include "passes/graph/delays.h"
#include "runtime/arrays/histories.h"
#include "runtime/arrays/match_arrays.h"
#include "runtime/arrays/npy.h"
#include "runtime/arrays/npz.h"
#include "runtime/arrays/safetensors.h"
#include "runtime/base/describe.h"
#include "runtime/base/files.h"

namespace rnnc::tools {
namespace {

namespace fs = std::filesystem;

/// Without the carried states.
std::vector<fs::path> files_kept(const RunFiles& files) {
  std::vector<fs::path> read;
  for (const std::string* file :
       {&files.source, &files.weights.tensors, &files.weights.map, &files.lengths, &files.reset}) {
    if (!file->empty()) read.emplace_back(*file);
  }
  for (const auto* list :
       {&files.inputs, &files.initial_states, &files.output_gradients, &files.final_gradients}) {
    for (const NamedFile& named : *list) read.push_back(named.file);
  }
  return read;
}

/// Dims follow from the arrays' shapes.
Result<Graph> bind_to_files(const RunFiles& files, const Graph& graph, const DimBindings& given,
                            RunData& data) {
  if (Status status = check_result_names(files, graph); !status) {
    return tl::unexpected(status.error());
  }
  std::optional<Weights> weights;
  if (!files.weights.tensors.empty()) {
    Result<Weights> opened = open_weights(files.weights, graph);
    if (!opened) return tl::unexpected(opened.error());
    weights = std::move(*opened);
    Status status = take_shapes(*weights, graph, given, data.args);
    if (!status) return tl::unexpected(status.error());
  }
  const Result<DimBindings> dims = infer_dims(graph, given, data.args);
  if (!dims) return tl::unexpected(dims.error());
  Result<Graph> bound = bind_all(graph, *dims);
  if (!bound || !weights) return bound;
  Result<std::vector<NamedArray>> params = read_params(*weights, graph, given);
  if (!params) return tl::unexpected(params.error());
  data.args.params = std::move(*params);
  return bound;
}

}  // namespace

std::vector<fs::path> files_read(const RunFiles& files) {
  std::vector<fs::path> read = files_kept(files);
  if (!files.carry_in.empty()) read.emplace_back(files.carry_in);
  return read;
}

std::vector<fs::path> files_written(const RunFiles& files) {
  std::vector<fs::path> written;
  for (const auto* list : {&files.outputs, &files.final_states}) {
    for (const NamedFile& named : *list) written.push_back(named.file);
  }
  if (!files.carry_out.empty()) written.emplace_back(files.carry_out);
  if (!files.gradients.empty()) written.emplace_back(files.gradients);
  return written;
}

namespace {

Result<std::vector<NamedArray>> read_arrays(const std::vector<NamedFile>& files) {
  std::vector<NamedArray> arrays;
  for (const NamedFile& named : files) {
    Result<Array> array = read_input(named.file, read_npy, parse_npy);
    if (!array) return tl::unexpected(array.error());
    arrays.push_back({named.name, std::move(*array)});
  }
  return arrays;
}

/// Those of integers from files of them, of any width.
Result<std::vector<NamedArray>> read_inputs(const std::vector<NamedFile>& files,
                                            const std::vector<std::string>& integer_inputs) {
  std::vector<NamedArray> arrays;
  for (const NamedFile& named : files) {
    if (std::ranges::find(integer_inputs, named.name) == integer_inputs.end()) {
      Result<std::vector<NamedArray>> real = read_arrays({named});
      if (!real) return real;
      arrays.push_back(std::move(real->front()));
      continue;
    }
    const Result<IntegerArray> integers =
        read_input(named.file, read_npy_integers, parse_npy_integers);
    if (!integers) return tl::unexpected(integers.error());
    const std::vector<double> values(integers->values.begin(), integers->values.end());
    arrays.push_back({named.name, Array::from_doubles(values, integers->shape, DType::f64)});
  }
  return arrays;
}

Result<std::vector<int64_t>> read_lengths(const fs::path& file) {
  Result<IntegerArray> lengths = read_input(file, read_npy_integers, parse_npy_integers);
  if (!lengths) return tl::unexpected(lengths.error());
  if (lengths->shape.size() != 1) {
    return fail("lengths {} are {}, expected [B]: one for each sequence", quote(file.string()),
                shape_text(lengths->shape));
  }
  return std::move(lengths->values);
}

template <typename T, typename U>
Status store(Result<T> value, U& target) {
  if (!value) return tl::unexpected(value.error());
  target = std::move(*value);
  return {};
}

}  // namespace

Status check_outputs(const RunFiles& files) {
  const std::vector<fs::path> kept = files_kept(files);
  std::vector<fs::path> written;
  std::error_code ignored;
  for (const fs::path& file : files_written(files)) {
    if (is_dash(file)) continue;
    if (Status status = check_writable(file); !status) return status;
    for (const fs::path& input : kept) {
      if (!fs::equivalent(input, file, ignored)) continue;
      return fail("cannot write {}: it is an input of this run", quote(file.string()));
    }
    const fs::path place = fs::weakly_canonical(fs::absolute(file, ignored), ignored);
    const bool regular = !fs::exists(place, ignored) || fs::is_regular_file(place, ignored);
    if (regular && std::ranges::find(written, place) != written.end()) {
      return fail("two results would be written to {}", quote(file.string()));
    }
    written.push_back(place);
  }
  return {};
}

Status check_result_names(const RunFiles& files, const Graph& graph) {
  Graph explicit_states = graph;  // as those that a program has
  run_dead_code(explicit_states);
  run_delays(explicit_states);
  std::vector<std::string> outputs;
  std::vector<std::string> states;
  for (const OutputDecl& output : graph.outputs) outputs.push_back(output.name);
  for (const StateDecl& state : explicit_states.states) states.push_back(state.name);
  std::vector<std::string> problems;
  const auto check = [&](const char* kind, const std::vector<NamedFile>& wanted,
                         const std::vector<std::string>& names) {
    for (const NamedFile& named : wanted) {
      if (std::ranges::find(names, named.name) != names.end()) continue;
      const std::string nearest = nearest_name(named.name, names);
      const std::string hint = !nearest.empty() ? fmt::format(" (did you mean `{}`?)", nearest)
                               : names.empty()  ? "; it has none"
                                               : fmt::format("; it has {}", fmt::join(names, ", "));
      problems.push_back(
          fmt::format("{} has no {} {}{}", quote(graph.name), kind, quote(named.name), hint));
    }
  };
  check("output", files.outputs, outputs);
  check("state", files.final_states, states);
  check("output", files.output_gradients, outputs);
  check("state", files.final_gradients, states);
  if (problems.empty()) return {};
  return fail("{}", fmt::join(problems, "\n  "));
}

Result<RunData> read_run_data(const RunFiles& files,
                              const std::vector<std::string>& integer_inputs) {
  RunData data;
  Status status = store(read_inputs(files.inputs, integer_inputs), data.args.inputs);
  if (status) status = store(read_arrays(files.initial_states), data.args.initial_states);
  if (status) status = store(read_arrays(files.output_gradients), data.loss.outputs);
  if (status) status = store(read_arrays(files.final_gradients), data.loss.final_states);
  if (status && !files.lengths.empty()) {
    status = store(read_lengths(files.lengths), data.args.lengths);
  }
  if (status && !files.reset.empty()) {
    status = store(read_input(files.reset, read_npy_mask, parse_npy_mask), data.args.reset);
  }
  if (status && !files.carry_in.empty()) {
    status = store(read_input(files.carry_in, ArrayFile::open, ArrayFile::parse), data.carried);
  }
  if (!status) return tl::unexpected(status.error());
  if (!files.batch_first) return data;
  for (auto* arrays : {&data.args.inputs, &data.loss.outputs}) {
    for (NamedArray& one : *arrays) one.array = exchange_leading_axes(std::move(one.array));
  }
  if (data.args.reset) data.args.reset = exchange_leading_axes(std::move(*data.args.reset));
  return data;
}

Array exchange_leading_axes(Array array) {
  if (array.shape.size() < 2) return array;  // which is of no use here, as others will say
  const auto rows = static_cast<size_t>(array.shape[0]);
  const auto columns = static_cast<size_t>(array.shape[1]);
  std::swap(array.shape[0], array.shape[1]);
  if (array.data.empty()) return array;
  std::vector<std::byte> data(array.data.size());
  const size_t bytes = data.size() / (rows * columns);
  for (size_t row = 0; row < rows; ++row) {
    for (size_t column = 0; column < columns; ++column) {
      std::copy_n(array.data.begin() + static_cast<ptrdiff_t>((row * columns + column) * bytes),
                  bytes, data.begin() + static_cast<ptrdiff_t>((column * rows + row) * bytes));
    }
  }
  array.data = std::move(data);
  return array;
}

std::string doubt_leading_axes(const RunFiles& files, const RunData& data) {
  const RunArgs& args = data.args;
  if (args.inputs.empty() || args.inputs.front().array.shape.size() < 2) return "";
  const NamedArray& input = args.inputs.front();
  const int64_t steps = input.array.shape[0];
  const int64_t batch = input.array.shape[1];
  if (steps == batch) return "";
  std::vector<int64_t> shape = input.array.shape;
  if (files.batch_first) std::swap(shape[0], shape[1]);
  const std::string taken = fmt::format(
      "input {} {} is taken as {} of {} sequences", quote(input.name), shape_text(shape),
      steps == 1 ? "one step" : fmt::format("{} steps", steps), batch);
  const std::string other = files.batch_first ? "without --batch-first it is [T, B, ...]"
                                              : "if it is [B, T, ...], give --batch-first";

  // What else says how many sequences there are.
  std::vector<std::pair<std::string, int64_t>> says;
  if (args.lengths) {
    const int64_t count = std::ssize(*args.lengths);
    says.emplace_back(fmt::format("there are {} lengths", count), count);
  }
  for (const NamedArray& state : args.initial_states) {
    if (state.array.shape.empty()) continue;
    const int64_t count = state.array.shape[0];
    says.emplace_back(fmt::format("initial state {} is of {}", quote(state.name), count), count);
  }
  if (data.carried) {
    for (const NamedArray& state : data.carried->headers().value_or(std::vector<NamedArray>{})) {
      if (state.array.shape.empty()) continue;
      const int64_t count = state.array.shape[0];
      says.emplace_back(fmt::format("carried state {} is of {}", quote(state.name), count), count);
    }
  }
  const bool all = std::ranges::all_of(says, [&](const auto& one) { return one.second == steps; });
  if (!says.empty()) {
    return all ? fmt::format("{}, but {}: {}", taken, says.front().first, other) : "";
  }
  const bool alone = !args.reset && files.carry_in.empty() && files.carry_out.empty();
  if (!files.batch_first && alone && steps == 1) return fmt::format("{}: {}", taken, other);
  return "";
}

Result<std::vector<NamedArray>> take_carried(const RunFiles& files, const Signature& signature,
                                             const ArrayFile& carried,
                                             const std::vector<NamedArray>& inputs) {
  std::optional<int64_t> batch;
  if (!inputs.empty() && inputs.front().array.shape.size() >= 2) {
    batch = inputs.front().array.shape[1];
  }
  std::vector<ExpectedArray> expected;
  for (const ArrayInfo& state : signature.states) {
    ExpectedArray entry{.name = state.name, .shape = {batch}, .shape_text = {}};
    std::string sizes = batch ? std::to_string(*batch) : "B";
    for (const int64_t size : state.shape) {
      entry.shape.push_back(size);
      sizes += fmt::format(", {}", size);
    }
    entry.shape_text = fmt::format("[{}]", sizes);
    expected.push_back(std::move(entry));
  }
  Result<std::vector<NamedArray>> headers = carried.headers();
  if (!headers) return headers;
  const ArrayMatch match =
      match_arrays("state", signature.name, expected,
                   join_histories(signature.states, *std::move(headers)), true, Compared::shapes);
  std::vector<std::string> problems = match.name_problems;
  problems.insert(problems.end(), match.shape_problems.begin(), match.shape_problems.end());
  if (problems.empty()) {
    return carried.read().map([&](std::vector<NamedArray> states) {
      return join_histories(signature.states, std::move(states));
    });
  }
  return fail("{} does not go on with a run of {}:{}{}", quote(files.carry_in),
              quote(signature.name), problems.size() == 1 ? " " : "\n  ", join_problems(problems));
}

namespace {

/// By their arrays' own names, which differ.
Result<std::string> format_gradients(const RunFiles& files, const RunGradients& gradients) {
  std::vector<NamedArray> all = gradients.params;
  for (const NamedArray& input : gradients.inputs) {
    all.push_back(
        {input.name, files.batch_first ? exchange_leading_axes(input.array) : input.array});
  }
  all.insert(all.end(), gradients.initial_states.begin(), gradients.initial_states.end());
  const bool npz = fs::path(files.gradients).extension() == ".npz";
  return npz ? format_npz(all) : format_safetensors(all);
}

}  // namespace

Status write_results(const RunFiles& files, const RunResult& result,
                     const RunGradients* gradients) {
  std::vector<OutputFile> written;
  const auto add = [&](const std::vector<NamedFile>& wanted,
                       const std::vector<NamedArray>& arrays) {
    for (const NamedFile& named : wanted) {
      const auto found = std::ranges::find(arrays, named.name, &NamedArray::name);
      RNNC_CHECK(found != arrays.end(), "{}", named.name);
      const bool exchanged = files.batch_first && &wanted == &files.outputs;
      written.push_back(
          {named.file, format_npy(exchanged ? exchange_leading_axes(found->array) : found->array)});
    }
  };
  add(files.outputs, result.outputs);
  add(files.final_states, result.final_states);
  if (!files.carry_out.empty()) {
    Result<std::string> bytes = format_npz(result.final_states);
    if (!bytes) return tl::unexpected(bytes.error());
    written.push_back({files.carry_out, std::move(*bytes)});
  }
  if (gradients != nullptr) {
    Result<std::string> bytes = format_gradients(files, *gradients);
    if (!bytes) return tl::unexpected(bytes.error());
    written.push_back({files.gradients, std::move(*bytes)});
  }
  return write_outputs(written);
}

std::optional<Graph> load_run_graph(const RunFiles& files, const DimBindings& dims,
                                    Definition& definition, RunData& data) {
  const std::optional<Graph> graph = lower_definition(definition, dims);
  if (!graph) return std::nullopt;
  Result<Graph> bound = bind_to_files(files, *graph, dims, data);
  if (!bound) {
    report(bound.error());
    return std::nullopt;
  }
  return std::move(*bound);
}

}  // namespace rnnc::tools
