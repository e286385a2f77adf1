#include <cmath>
#include <limits>
#include <optional>
#include <span>

#include "frontend/unit.h"
#include "runtime/base/files.h"
#include "tools/command.h"
#include "tools/commands/bench.h"
#include "tools/commands/plots.h"
#include "tools/progress.h"

namespace rnnc::tools {
namespace {

/// As examples/networks/stacked_lstm.rnn, which an installed rnnc does not have.
constexpr std::string_view kNetwork = R"(
cell LSTM[I, H](x: [I]) -> h {
  state h, c: [H]
  param W_i, W_f, W_g, W_o: [H, I]
  param R_i, R_f, R_g, R_o: [H, H]
  param b_i, b_f, b_g, b_o: [H]
  i = sigmoid(W_i @ x[t] + R_i @ h[t-1] + b_i)
  f = sigmoid(W_f @ x[t] + R_f @ h[t-1] + b_f)
  g = tanh(W_g @ x[t] + R_g @ h[t-1] + b_g)
  o = sigmoid(W_o @ x[t] + R_o @ h[t-1] + b_o)
  c[t] = f * c[t-1] + i * g
  h[t] = o * tanh(c[t])
}
network LSTMNetwork[H, L](x: [H]) -> y {
  y = x
  for l in 0..L { y = LSTM[H = H](y) }
}
)";

/// What each rung adds to the one below it.
struct Rung {
  std::string_view name;
  std::vector<Pass> passes;
  bool graphs = false;  // GPU: replayed as graphs from here on
};

std::vector<Rung> rungs() {
  return {
      {"naive", {}},
      {"clean up", {Pass::Simplify, Pass::Fold, Pass::Cse, Pass::DeadCode}},
      {"hoist", {Pass::Hoist}},
      {"merge", {Pass::Merge}},
      {"sum", {Pass::Sum}},
      {"fuse", {Pass::Fuse}},
      {"epilogue", {Pass::Epilogue}},
      {"loop", {Pass::Loop, Pass::Reroll}},
      {"graphs", {}, true},
      {"wavefront", {Pass::Wavefront}},
      {"reuse", {Pass::Reuse}},
      {"resident", {Pass::Resident}},
      {"stack", {Pass::Stack}},
      {"split", {Pass::Split}},
      {"pad", {Pass::Pad}},
  };
}

struct Network {
  Graph graph;
  DimBindings dims;  // those that were given
  std::string title;
  BenchShape shape;
};

struct Options {
  Source source;
  BenchShape shape;
  std::string network = "both";
  BenchOptions bench;
  std::string svg;
};

/// Of the table: a rung, measured.
struct Row {
  std::string name;
  PassSet passes = PassSet::none();
  bool graphs = false;
  bool same_plan = false;  // as the row before, whose numbers these are
  double microseconds = 0;
  Prediction prediction;
  double difference = 0;  // of the results from the naive plan's
};

/// What rows are compared with.
struct Reference {
  std::string machine;
  RunResult result;            // of the naive plan
  std::string last_plan = {};  // that was measured
};

struct Ladder {
  std::string title;
  std::string machine;
  DimBindings dims;
  BenchShape shape;
  double allowed_difference = 0;
  std::vector<Row> rows;

  double speedup(const Row& row) const { return rows[0].microseconds / row.microseconds; }
  double floor() const { return rows.back().prediction.floor_seconds_per_step * 1e6; }
};

/// The greatest difference of an element, relative to the greatest element of its array.
double largest_difference(const RunResult& result, const RunResult& reference) {
  double largest = 0;
  const auto compare = [&largest](std::span<const NamedArray> ours,
                                  std::span<const NamedArray> theirs) {
    for (size_t i = 0; i < ours.size(); ++i) {
      const std::vector<double> values = ours[i].array.to_doubles();
      const std::vector<double> expected = theirs[i].array.to_doubles();
      double scale = std::numeric_limits<double>::min();
      double difference = 0;
      for (size_t j = 0; j < values.size(); ++j) {
        scale = std::max(scale, std::abs(expected[j]));
        const double apart = std::abs(values[j] - expected[j]);
        difference = apart <= difference ? difference : apart;  // NaN stays
      }
      largest = difference / scale <= largest ? largest : difference / scale;
    }
  };
  compare(result.outputs, reference.outputs);
  compare(result.final_states, reference.final_states);
  return largest;
}

/// Relative differences that rounding explains: products in another order, and values stored in
/// `dtype` that then fall to the other side, carried on from step to step.
double allowed_difference(const CompileOptions& compile) {
  switch (compile.dtype) {
    case DType::f64:
      return 1e-10;
    case DType::f16:
      return 1e-2;
    case DType::bf16:
      return 1e-1;
    default:
      return compile.allow_tf32 ? 2e-2 : 1e-4;
  }
}

/// `row` is the one before, which stays as it is where nothing has changed.
Status measure_row(const Network& network, const BenchOptions& options,
                   const CompileOptions& compile, Row& row, std::optional<Reference>& reference) {
  Result<BenchProgram> bench = compile_bench(network.graph, compile, network.shape);
  if (!bench) return tl::unexpected(bench.error());
  std::string plan = to_string(bench->plan);
  row.same_plan = reference && plan == reference->last_plan && compile.graphs == row.graphs;
  row.passes = compile.passes;
  row.graphs = compile.graphs;
  if (row.same_plan) return {};
  Runner runner(bench->program);
  Result<Measurement> measured = measure(bench->program, runner, network.shape, options);
  if (!measured) return tl::unexpected(measured.error());
  row.microseconds = measured->plain.seconds_per_step * 1e6;
  row.prediction = predict(*bench, network.shape.steps);
  if (!reference) reference = {.machine = bench->machine.name, .result = measured->result};
  row.difference = largest_difference(measured->result, reference->result);
  reference->last_plan = std::move(plan);
  return {};
}

Result<Ladder> climb(const Network& network, const Options& of, Progress& progress) {
  const BenchOptions& options = of.bench;
  CompileOptions compile = compile_options(options);
  compile.passes = PassSet::none();
  compile.graphs = false;
  std::vector<Row> rows;
  std::optional<Reference> reference;
  for (const Rung& rung : rungs()) {
    if (rung.graphs && compile.device.kind == Device::Kind::cpu) continue;
    progress.phase(fmt::format("{}: {}", network.title, rung.name));
    for (const Pass pass : rung.passes) compile.passes = compile.passes.with(pass);
    compile.graphs |= rung.graphs;
    Row row = rows.empty() ? Row{} : rows.back();
    row.name = rung.name;
    if (Status status = measure_row(network, options, compile, row, reference); !status) {
      return tl::unexpected(status.error());
    }
    rows.push_back(std::move(row));
  }
  return Ladder{.title = network.title,
                .machine = reference->machine,
                .dims = network.dims,
                .shape = network.shape,
                .allowed_difference = allowed_difference(compile),
                .rows = std::move(rows)};
}

/// A rung whose results are not those of the naive plan.
Status check(const Ladder& ladder) {
  for (const Row& row : ladder.rows) {
    if (row.difference <= ladder.allowed_difference) continue;
    return fail("{}: with {} on, results differ from the naive plan's by {:.2g}, more than {:.0e}",
                ladder.title, row.name, row.difference, ladder.allowed_difference);
  }
  return {};
}

std::string subtitle(const Ladder& ladder, const BenchOptions& options) {
  return fmt::format("{}{} on {}; floor {:.1f} us per step", options.dtype,
                     options.tf32 ? " (TF32)" : "", ladder.machine, ladder.floor());
}

std::string table(const Ladder& ladder, const BenchOptions& options) {
  std::string text = fmt::format("{}\n{}\n", ladder.title, subtitle(ladder, options));
  text += fmt::format("{:10} {:>10} {:>8} {:>7} {:>9} {:>10} {:>11}\n", "rung", "us/step",
                      "speedup", "gain", "launches", "predicted", "difference");
  double before = ladder.rows[0].microseconds;
  for (const Row& row : ladder.rows) {
    if (row.same_plan) {
      text += fmt::format("{:10} {:>10}\n", row.name, "same plan");
      continue;
    }
    text +=
        fmt::format("{:10} {:10.2f} {:8.2f} {:7.2f} {:9} {:10.2f} {:11.1e}\n", row.name,
                    row.microseconds, ladder.speedup(row), before / row.microseconds,
                    row.prediction.launches, row.prediction.seconds_per_step * 1e6, row.difference);
    before = row.microseconds;
  }
  return text;
}

nlohmann::json to_json(const Ladder& ladder) {
  nlohmann::json rungs = nlohmann::json::array();
  for (const Row& row : ladder.rows) {
    rungs.push_back({{"name", row.name},
                     {"passes", row.passes.to_string()},
                     {"graphs", row.graphs},
                     {"same_plan", row.same_plan},
                     {"microseconds_per_step", row.microseconds},
                     {"speedup", ladder.speedup(row)},
                     {"launches_per_call", row.prediction.launches},
                     {"predicted_microseconds_per_step", row.prediction.seconds_per_step * 1e6},
                     {"difference", row.difference}});
  }
  return {{"title", ladder.title},
          {"dims", ladder.dims},
          {"batch", ladder.shape.batch},
          {"steps", ladder.shape.steps},
          {"floor_microseconds_per_step", ladder.floor()},
          {"allowed_difference", ladder.allowed_difference},
          {"rungs", rungs}};
}

BarChart to_chart(const Ladder& ladder, const BenchOptions& options) {
  BarChart chart{.title = ladder.title, .note = subtitle(ladder, options), .bars = {}};
  for (const Row& row : ladder.rows) {
    if (row.same_plan) continue;
    const double speedup = ladder.speedup(row);
    chart.bars.push_back({.label = row.name,
                          .length = speedup,
                          .value = fmt::format("{:.1f}x, {:.1f} us", speedup, row.microseconds)});
  }
  return chart;
}

/// The files that are asked for.
Status report_ladders(const std::vector<Ladder>& ladders, const Options& options) {
  const BenchOptions& bench = options.bench;
  std::vector<OutputFile> files;
  if (!bench.json.empty()) {
    nlohmann::json networks = nlohmann::json::array();
    for (const Ladder& ladder : ladders) networks.push_back(to_json(ladder));
    const nlohmann::json json = {{"device", bench.device},
                                 {"machine", ladders[0].machine},
                                 {"dtype", bench.dtype},
                                 {"tf32", bench.tf32},
                                 {"networks", networks}};
    files.push_back({bench.json, json.dump(2) + "\n"});
  }
  if (!options.svg.empty()) {
    std::vector<BarChart> charts;
    for (const Ladder& ladder : ladders) charts.push_back(to_chart(ladder, bench));
    files.push_back({options.svg, draw_bars(charts)});
  }
  return write_outputs(files);
}

Status run_ladders(const std::vector<Network>& networks, const Options& options) {
  std::vector<Ladder> ladders;
  for (const Network& network : networks) {
    Progress progress;
    Result<Ladder> ladder = climb(network, options, progress);
    progress.stop();
    if (!ladder) return tl::unexpected(ladder.error());
    if (!is_dash(options.bench.json) && !is_dash(options.svg)) {
      if (Status status = print(table(*ladder, options.bench)); !status) return status;
    }
    ladders.push_back(std::move(*ladder));
  }
  if (Status status = report_ladders(ladders, options); !status) return status;
  for (const Ladder& ladder : ladders) {
    if (Status status = check(ladder); !status) return status;
  }
  return {};
}

Network lstm_network(int64_t hidden, const BenchShape& shape) {
  constexpr int64_t kLayers = 4;
  return {.graph = ladder_network(kLayers, hidden),
          .dims = {{"L", kLayers}, {"H", hidden}},
          .title = fmt::format("LSTM: {} layers, H {}, B {}, T {}", kLayers, hidden, shape.batch,
                               shape.steps),
          .shape = shape};
}

/// Nothing if there is an error, which is then already printed.
std::optional<std::vector<Network>> choose_networks(const Options& options) {
  std::vector<Network> networks;
  if (options.source.file.empty()) {
    if (options.network != "small")
      networks.push_back(lstm_network(512, {.batch = 64, .steps = 100}));
    if (options.network != "large")
      networks.push_back(lstm_network(256, {.batch = 64, .steps = 50}));
    return networks;
  }
  std::optional<Graph> bound = load_bound(options.source);
  if (!bound) return std::nullopt;
  std::string title =
      fmt::format("{}: B {}, T {}", bound->name, options.shape.batch, options.shape.steps);
  networks.push_back({std::move(*bound), options.source.dims, std::move(title), options.shape});
  return networks;
}

Status check_files(const Options& options) {
  if (Status status = check_json(options.bench); !status) return status;
  return check_output(options.svg);
}

int run_ladder(const CLI::App& command, const Options& options) {
  std::string problem = check_usage(options.bench);
  if (problem.empty()) problem = check_dashes({}, {options.bench.json, options.svg});
  if (!problem.empty()) return report_usage(command, problem);
  if (Status status = check_files(options); !status) return report(status.error());
  const std::optional<std::vector<Network>> networks = choose_networks(options);
  if (!networks) return kError;
  const Status status = run_ladders(*networks, options);
  return status ? kOk : report(status.error());
}

}  // namespace

Graph ladder_network(int64_t layers, int64_t hidden) {
  const DimBindings dims = {{"H", hidden}, {"L", layers}};
  Unit unit("ladder.rnn", std::string(kNetwork));
  std::optional<Graph> graph = unit.lower("LSTMNetwork", dims);
  RNNC_CHECK(graph, "{}", unit.render());
  graph->bind(dims);
  return std::move(*graph);
}

void add_ladder(CLI::App& bench, int& exit_code) {
  auto options = std::make_shared<Options>();
  CLI::App* command = bench.add_subcommand(
      "ladder", "From the naive plan to the full one, each optimising pass switched on in turn");
  add_source(*command, options->source);
  CLI::Option* file = command->get_option("FILE")->required(false)->description(
      "A .rnn file to climb with instead of the two LSTM networks");
  command->get_option("--cell")->needs(file);
  command->get_option("--dim")->needs(file);
  add_bench_shape(*command, options->shape);
  command->get_option("--batch")->needs(file);
  command->get_option("--steps")->needs(file);
  command
      ->add_option(
          "--network", options->network,
          "Which LSTM networks of 4 layers, B 64: large (T 100, H 512), small (T 50, H 256)")
      ->type_name("NAME")
      ->check(one_of({"large", "small", "both"}))
      ->capture_default_str()
      ->excludes(file);
  add_bench_options(*command, options->bench);
  command->add_option("--svg", options->svg, "Draw the ladder as bars into this file")
      ->type_name("FILE");
  command->footer(
      "The naive plan has one product per gate and step, one kernel per operation, one stream, no\n"
      "graph, and nothing waits for the host. Speedups are over it; gains over the rung before.\n"
      "Results that differ from the naive plan's by more than rounding are an error.\n\n"
      "Examples:\n"
      "  rnnc bench ladder --device cuda --dtype bf16 --json ladder.json --svg ladder.svg\n"
      "  rnnc bench ladder examples/cells/gru.rnn --dim I=512 --dim H=512 --batch 64");
  command->callback([command, options, &exit_code] { exit_code = run_ladder(*command, *options); });
}

}  // namespace rnnc::tools
