#include "tests/support/cells/golden_cases.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <regex>

#include "passes/graph/delays.h"
#include "runtime/program/read_unit.h"
#include "tests/support/kept_kernels.h"
#include "tests/support/reference/deterministic.h"

namespace rnnc::test {
namespace {

namespace fs = std::filesystem;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Of each file in examples/cells and examples/networks, by the name of its last definition.
std::map<std::string, std::string> find_sources() {
  static const std::regex kDefinition("(^|\n)(cell|network) +(\\w+)");
  std::map<std::string, std::string> sources;
  for (const fs::path folder : {"examples/cells", "examples/networks"}) {
    for (const auto& entry : fs::directory_iterator(data_root() / folder)) {
      if (entry.path().extension() != ".rnn") continue;
      const std::string file = (folder / entry.path().filename()).string();
      const std::string text = read_data(file);
      std::string last;
      for (std::sregex_iterator it(text.begin(), text.end(), kDefinition), end; it != end; ++it) {
        last = (*it)[3];
      }
      sources[last] = file;
    }
  }
  return sources;
}

std::vector<int64_t> numbers(const Type& type) {
  std::vector<int64_t> shape;
  for (const Dim& dim : type.shape) shape.push_back(dim.constant().value());
  return shape;
}

/// The array called CELL.NAME, with uniform values within `scale` of `around`.
NamedArray make_array(const GoldenCase& golden_case, const std::string& name,
                      std::vector<int64_t> shape, double scale, DType rounding, double around) {
  int64_t count = 1;
  for (int64_t extent : shape) count *= extent;
  const auto values =
      deterministic_values(golden_case.cell + "." + name, count, scale, rounding, around);
  return {name, Array::from_doubles(values, std::move(shape), DType::f64)};
}

/// 1 / sqrt(fan in) for matrices, 0.5 for vectors and scalars.
double param_scale(const std::vector<int64_t>& shape) {
  return shape.size() >= 2 ? 1 / std::sqrt(static_cast<double>(shape.back())) : 0.5;
}

}  // namespace

std::string GoldenCase::name() const {
  return fmt::format("{}_{}", size.name, to_string(rounding));
}

const std::vector<std::string>& golden_cells() {
  static const std::vector<std::string> kCells = [] {
    std::vector<std::string> cells;
    for (const auto& entry : fs::directory_iterator(data_root() / "tests/goldens")) {
      if (GoldenFile::is_one(entry.path())) cells.push_back(entry.path().stem().string());
    }
    std::ranges::sort(cells);
    return cells;
  }();
  return kCells;
}

const GoldenFile& golden_file(const std::string& cell) {
  static std::map<std::string, GoldenFile> opened;
  auto file = opened.find(cell);
  if (file == opened.end()) {
    auto read = GoldenFile::read(cell);
    RNNC_CHECK(read.has_value(), "{}", read.error().message);
    file = opened.emplace(cell, *std::move(read)).first;
  }
  return file->second;
}

Result<std::string> golden_source(const std::string& cell) {
  static const std::map<std::string, std::string> kSources = find_sources();
  const auto file = kSources.find(cell);
  if (file == kSources.end()) return fail("no file in examples/ ends with the cell {}", cell);
  return file->second;
}

std::vector<GoldenCase> golden_cases(const std::string& cell, const std::vector<DType>& roundings) {
  std::vector<GoldenCase> cases;
  for (const GoldenSize& size : golden_file(cell).sizes()) {
    for (DType rounding : roundings) {
      cases.push_back({.cell = cell, .size = size, .rounding = rounding});
    }
  }
  return cases;
}

Result<Graph> golden_graph(const GoldenCase& golden_case) {
  const Result<std::string> file = golden_source(golden_case.cell);
  if (!file) return tl::unexpected(file.error());
  Result<Unit> unit = read_unit(data_root() / *file);
  if (!unit) return tl::unexpected(unit.error());
  std::optional<Graph> graph = unit->lower(golden_case.cell, golden_case.size.dims);
  if (!graph) return fail("{}", unit->render());
  const Result<DimBindings> dims = complete_bindings(*graph, golden_case.size.dims);
  if (!dims) return tl::unexpected(dims.error());
  graph->bind(*dims);
  run_delays(*graph);
  return *std::move(graph);
}

RunArgs golden_arguments(const Graph& graph, const GoldenCase& golden_case) {
  const GoldenFile& file = golden_file(golden_case.cell);
  const GoldenSize& size = golden_case.size;
  RunArgs args;
  for (const InputDecl& input : graph.inputs) {
    std::vector<int64_t> shape = numbers(input.type);
    shape.insert(shape.begin(), {size.steps, size.batch});
    args.inputs.push_back(make_array(golden_case, input.name, std::move(shape), 1,
                                     golden_case.rounding, file.around(input.name)));
  }
  for (const ParamDecl& param : graph.params) {
    const std::vector<int64_t> shape = numbers(param.type);
    args.params.push_back(make_array(golden_case, param.name, shape, param_scale(shape),
                                     golden_case.rounding, file.around(param.name)));
  }
  if (!size.given_states) return args;
  for (const StateDecl& state : graph.states) {
    std::vector<int64_t> shape = numbers(state.type);
    shape.insert(shape.begin(), size.batch);
    args.initial_states.push_back(make_array(golden_case, state.name, std::move(shape), 1,
                                             DType::f32, file.around(state.name)));
  }
  return args;
}

double golden_error(const GoldenCase& golden_case, const RunResult& result) {
  Summaries actual;
  for (const NamedArray& output : result.outputs) {
    actual[output.name] = summarise(output.array.to_doubles());
  }
  for (const NamedArray& state : result.final_states) {
    actual["final." + state.name] = summarise(state.array.to_doubles());
  }
  const Summaries expected = golden_file(golden_case.cell).of_case(golden_case.name());
  if (expected.empty() || actual.size() != expected.size()) return kInfinity;
  double error = 0;
  for (const auto& [name, summary] : expected)
    error = std::max(error, error_of(actual[name], summary));
  return error;
}

double golden_tolerance(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return 1e-12;
    case DType::f32:
      return 2e-5;
    default:
      return 2e-2;
  }
}

Result<GoldenReport> run_golden_cases(const std::vector<GoldenCase>& cases,
                                      const CompileOptions& options) {
  GoldenReport report;
  std::optional<Graph> graph;
  std::optional<Program> program;
  DimBindings dims;
  int64_t longest = 0;
  for (const GoldenCase& golden_case : cases) longest = std::max(longest, golden_case.size.steps);
  for (const GoldenCase& golden_case : cases) {
    if (!program || golden_case.size.dims != dims) {
      dims = golden_case.size.dims;
      auto lowered = golden_graph(golden_case);
      if (!lowered) return tl::unexpected(lowered.error());
      graph = *std::move(lowered);
      auto compiled = Program::compile(*graph, with_kept_kernels(options));
      if (!compiled) return tl::unexpected(compiled.error());
      program.emplace(*std::move(compiled));
    }
    if (auto status = program->prepare(golden_case.size.batch, longest); !status) {
      return tl::unexpected(status.error());
    }
    auto result = Runner(*program).run(golden_arguments(*graph, golden_case));
    if (!result) return tl::unexpected(result.error());
    const double error = golden_error(golden_case, *result);
    if (error >= report.error) {
      report.error = error;
      report.worst = golden_case.name();
    }
    ++report.cases;
  }
  return report;
}

}  // namespace rnnc::test
