#include "tools/run_files.h"

#include <algorithm>

#include "passes/dead_code.h"
#include "passes/delays.h"
#include "runtime/describe.h"
#include "runtime/files.h"
#include "runtime/match_arrays.h"
#include "runtime/npy.h"
#include "runtime/npz.h"

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
  for (const auto* list : {&files.inputs, &files.initial_states}) {
    for (const NamedFile& named : *list) read.push_back(named.file);
  }
  return read;
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
    const fs::path place = fs::weakly_canonical(fs::absolute(file), ignored);
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
  if (problems.empty()) return {};
  return fail("{}", fmt::join(problems, "\n  "));
}

Result<RunData> read_run_data(const RunFiles& files) {
  RunData data;
  Status status = store(read_arrays(files.inputs), data.args.inputs);
  if (status) status = store(read_arrays(files.initial_states), data.args.initial_states);
  if (status && !files.lengths.empty()) {
    status = store(read_lengths(files.lengths), data.args.lengths);
  }
  if (status && !files.reset.empty()) {
    status = store(read_input(files.reset, read_npy_mask, parse_npy_mask), data.args.reset);
  }
  if (status && !files.carry_in.empty()) {
    status = store(read_input(files.carry_in, read_npz, parse_npz), data.carried);
  }
  if (status && !files.weights.tensors.empty()) {
    status = store(read_tensors(files.weights), data.args.params);
  }
  if (status) status = store(read_weight_map(files.weights), data.map);
  if (!status) return tl::unexpected(status.error());
  return data;
}

Result<std::vector<NamedArray>> take_carried(const RunFiles& files, const Signature& signature,
                                             std::vector<NamedArray> carried,
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
  const ArrayMatch match = match_arrays("state", signature.name, expected, carried, true);
  std::vector<std::string> problems = match.name_problems;
  problems.insert(problems.end(), match.shape_problems.begin(), match.shape_problems.end());
  if (problems.empty()) return carried;
  return fail("{} does not go on with a run of {}:{}{}", quote(files.carry_in),
              quote(signature.name), problems.size() == 1 ? " " : "\n  ",
              fmt::join(problems, "\n  "));
}

Status write_results(const RunFiles& files, const RunResult& result) {
  std::vector<OutputFile> written;
  const auto add = [&](const std::vector<NamedFile>& wanted,
                       const std::vector<NamedArray>& arrays) {
    for (const NamedFile& named : wanted) {
      const auto found = std::ranges::find(arrays, named.name, &NamedArray::name);
      RNNC_CHECK(found != arrays.end(), "{}", named.name);
      written.push_back({named.file, format_npy(found->array)});
    }
  };
  add(files.outputs, result.outputs);
  add(files.final_states, result.final_states);
  if (!files.carry_out.empty()) {
    Result<std::string> bytes = format_npz(result.final_states);
    if (!bytes) return tl::unexpected(bytes.error());
    written.push_back({files.carry_out, std::move(*bytes)});
  }
  return write_outputs(written);
}

}  // namespace rnnc::tools
