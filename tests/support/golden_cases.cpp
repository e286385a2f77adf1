#include "tests/support/golden_cases.h"

#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <optional>

#include "frontend/unit.h"
#include "tests/support/deterministic.h"
#include "tests/support/golden.h"

namespace rnnc::test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int64_t kSteps[] = {1, 7, kGoldenSteps};
constexpr int64_t kBatches[] = {1, 3, 16};
/// Hidden sizes with the input size that goes with each.
constexpr struct {
  int64_t hidden, input;
} kSizes[] = {{1, 3}, {7, 1}, {64, 33}, {300, 7}};

const std::map<std::string, std::string>& files() {
  static const std::map<std::string, std::string> kFiles = {
      {"Elman", "elman.rnn"},
      {"LSTM", "lstm.rnn"},
      {"PeepholeLSTM", "peephole_lstm.rnn"},
      {"ProjectedLSTM", "projected_lstm.rnn"},
      {"LayerNormLSTM", "layernorm_lstm.rnn"},
      {"GRU", "gru.rnn"},
      {"GRUResetBefore", "gru_reset_before.rnn"},
      {"MinGRU", "mingru.rnn"},
      {"MinLSTM", "minlstm.rnn"},
      {"IndRNN", "indrnn.rnn"},
      {"StackedLSTM", "stacked_lstm.rnn"},
  };
  return kFiles;
}

std::vector<int64_t> numbers(const Type& type) {
  std::vector<int64_t> shape;
  for (const Dim& dim : type.shape) shape.push_back(dim.constant().value());
  return shape;
}

/// The array called CELL.NAME, with uniform values in [-scale, scale).
NamedArray make_array(const GoldenCase& golden_case, const std::string& name,
                      std::vector<int64_t> shape, double scale, DType rounding) {
  int64_t count = 1;
  for (int64_t extent : shape) count *= extent;
  const auto values = deterministic_values(golden_case.cell + "." + name, count, scale, rounding);
  return {name, Array::from_doubles(values, std::move(shape), DType::f64)};
}

/// 1 / sqrt(fan in) for matrices, 0.5 for vectors and scalars.
double param_scale(const std::vector<int64_t>& shape) {
  return shape.size() >= 2 ? 1 / std::sqrt(static_cast<double>(shape.back())) : 0.5;
}

}  // namespace

std::string GoldenCase::name() const {
  return fmt::format("T{}_B{}_H{}_{}", steps, batch, hidden, to_string(rounding));
}

DimBindings GoldenCase::dims() const {
  int64_t input = 0;
  for (const auto& size : kSizes) {
    if (size.hidden == hidden) input = size.input;
  }
  if (cell == "StackedLSTM") return {{"F", input}, {"H", hidden}, {"L", 2}};
  DimBindings dims = {{"I", input}, {"H", hidden}};
  if (cell == "ProjectedLSTM") dims["P"] = std::max<int64_t>(1, hidden / 2);
  return dims;
}

const std::vector<std::string>& golden_cells() {
  static const std::vector<std::string> kCells = [] {
    std::vector<std::string> cells;
    for (const auto& [cell, file] : files()) cells.push_back(cell);
    return cells;
  }();
  return kCells;
}

std::vector<GoldenCase> golden_cases(const std::string& cell, const std::vector<DType>& roundings) {
  std::vector<GoldenCase> cases;
  for (size_t h = 0; h < std::size(kSizes); ++h) {
    for (size_t b = 0; b < std::size(kBatches); ++b) {
      for (size_t t = 0; t < std::size(kSteps); ++t) {
        for (DType rounding : roundings) {
          cases.push_back({.cell = cell,
                           .steps = kSteps[t],
                           .batch = kBatches[b],
                           .hidden = kSizes[h].hidden,
                           .rounding = rounding,
                           .given_states = (h + b + t) % 2 == 1});
        }
      }
    }
  }
  return cases;
}

Graph golden_graph(const GoldenCase& golden_case) {
  const std::string file = "examples/" + files().at(golden_case.cell);
  Unit unit(file, read_data(file));
  const DimBindings dims = golden_case.dims();
  std::optional<Graph> graph = unit.lower(golden_case.cell, dims);
  RNNC_CHECK(graph.has_value(), "{}", unit.render());
  graph->bind(dims);
  return *std::move(graph);
}

RunArgs golden_arguments(const Graph& graph, const GoldenCase& golden_case) {
  RunArgs args;
  for (const InputDecl& input : graph.inputs) {
    std::vector<int64_t> shape = numbers(input.type);
    shape.insert(shape.begin(), {golden_case.steps, golden_case.batch});
    args.inputs.push_back(
        make_array(golden_case, input.name, std::move(shape), 1, golden_case.rounding));
  }
  for (const ParamDecl& param : graph.params) {
    const std::vector<int64_t> shape = numbers(param.type);
    args.params.push_back(
        make_array(golden_case, param.name, shape, param_scale(shape), golden_case.rounding));
  }
  if (!golden_case.given_states) return args;
  for (const StateDecl& state : graph.states) {
    std::vector<int64_t> shape = numbers(state.type);
    shape.insert(shape.begin(), golden_case.batch);
    args.initial_states.push_back(
        make_array(golden_case, state.name, std::move(shape), 1, DType::f32));
  }
  return args;
}

double golden_error(const GoldenCase& golden_case, const RunResult& result) {
  static std::map<std::string, GoldenFile> opened;
  auto file = opened.find(golden_case.cell);
  if (file == opened.end()) {
    auto read = GoldenFile::read(golden_case.cell);
    RNNC_CHECK(read.has_value(), "{}", read.error().message);
    file = opened.emplace(golden_case.cell, *std::move(read)).first;
  }
  Summaries actual;
  for (const NamedArray& output : result.outputs) {
    actual[output.name] = summarise(output.array.to_doubles());
  }
  for (const NamedArray& state : result.final_states) {
    actual["final." + state.name] = summarise(state.array.to_doubles());
  }
  const Summaries expected = file->second.of_case(golden_case.name());
  if (expected.empty() || actual.size() != expected.size()) return kInfinity;
  double error = 0;
  for (const auto& [name, summary] : expected)
    error = std::max(error, error_of(actual[name], summary));
  return error;
}

Result<GoldenReport> run_golden_cases(const std::string& cell, const std::vector<DType>& roundings,
                                      const CompileOptions& options) {
  GoldenReport report;
  std::optional<Graph> graph;
  std::optional<Program> program;
  int64_t hidden = 0;
  for (const GoldenCase& golden_case : golden_cases(cell, roundings)) {
    if (golden_case.hidden != hidden) {
      hidden = golden_case.hidden;
      graph = golden_graph(golden_case);
      auto compiled = Program::compile(*graph, options);
      if (!compiled) return tl::unexpected(compiled.error());
      program.emplace(*std::move(compiled));
    }
    if (auto status = program->prepare(golden_case.batch, kGoldenSteps); !status) {
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
