#include <algorithm>
#include <array>
#include <optional>

#include "frontend/unit.h"
#include "tools/command.h"
#include "tools/commands/bench.h"
#include "tools/progress.h"

namespace rnnc::tools {
namespace {

/// As examples/cells/mingru.rnn without its products, and what moves as many bytes without a
/// recurrence.
constexpr std::string_view kCells = R"(
cell MinGRU[H](p: [H], n: [H]) -> h {
  state h: [H]
  z = sigmoid(p[t])
  h[t] = (1 - z) * h[t-1] + z * n[t]
}
cell Sum[H](p: [H], n: [H]) -> h {
  h = p[t] + n[t]
}
)";

struct Options {
  BenchOptions bench;
  int64_t most_steps = 1 << 20;
};

/// Channels.
constexpr std::array<std::pair<int64_t, int64_t>, 5> kBatchesAndSizes = {
    {{1, 1}, {1, 16}, {1, 64}, {4, 256}, {8, 1536}}};
/// Of an array; longer sequences of so many channels are left out.
constexpr int64_t kMostElements = int64_t{1} << 26;
constexpr int64_t kStepsFactor = 32;  // 1 to 2^20 in five

/// Seconds of a call.
struct ScanRow {
  BenchShape shape;
  int64_t hidden = 0;
  bool scans = false;  // by itself
  double chosen = 0, loop = 0, scan = 0, sum = 0;
};

Graph cell(const std::string& name, int64_t hidden) {
  const DimBindings dims = {{"H", hidden}};
  Unit unit("scan.rnn", std::string(kCells));
  std::optional<Graph> graph = unit.lower(name, dims);
  RNNC_CHECK(graph, "{}", unit.render());
  graph->bind(dims);
  return std::move(*graph);
}

bool has_scan(const Plan& plan) {
  return std::ranges::any_of(plan.stages, [](const Stage& stage) {
    return stage.launches.size() == 1 && std::holds_alternative<ScanLaunch>(stage.launches[0]);
  });
}

/// Seconds of a call, into `seconds`, and whether it is a scan.
Result<bool> time_call(const std::string& name, Strategy strategy, const ScanRow& row,
                       const Options& options, double& seconds) {
  CompileOptions compile = compile_options(options.bench);
  compile.strategy = strategy;
  Result<BenchProgram> bench = compile_bench(cell(name, row.hidden), compile, row.shape);
  if (!bench) return tl::unexpected(bench.error());
  const bool replays = compile.device.kind == Device::Kind::cuda;
  Runner runner(bench->program);
  const Result<Measurement> measured =
      measure(bench->program, runner, row.shape, options.bench, replays);
  if (!measured) return tl::unexpected(measured.error());
  const Timing timing = measured->replayed.value_or(measured->plain);
  seconds = timing.seconds_per_step * static_cast<double>(row.shape.steps);
  return has_scan(bench->plan);
}

Result<ScanRow> time_row(const BenchShape& shape, int64_t hidden, const Options& options) {
  ScanRow row = {.shape = shape, .hidden = hidden};
  const Result<bool> chosen = time_call("MinGRU", Strategy::Any, row, options, row.chosen);
  if (!chosen) return tl::unexpected(chosen.error());
  row.scans = *chosen;
  for (const auto& [name, strategy, seconds] : {std::tuple{"MinGRU", Strategy::Loop, &row.loop},
                                                {"MinGRU", Strategy::Scan, &row.scan},
                                                {"Sum", Strategy::Any, &row.sum}}) {
    const Result<bool> timed = time_call(name, strategy, row, options, *seconds);
    if (!timed) return tl::unexpected(timed.error());
  }
  return row;
}

std::string line_of(const ScanRow& row) {
  return fmt::format("{}\t{}\t{}\t{}\t{:.3f}\t{:.3f}\t{:.3f}\t{:.3f}\t{:.3f}\t{:.2f}\n",
                     row.shape.batch, row.hidden, row.shape.steps, row.scans ? "scan" : "loop",
                     row.chosen * 1e6, row.loop * 1e6, row.scan * 1e6, row.sum * 1e6,
                     row.sum / row.chosen, row.loop / row.chosen);
}

nlohmann::json json_of(const std::vector<ScanRow>& rows, const Options& options) {
  nlohmann::json list = nlohmann::json::array();
  for (const ScanRow& row : rows) {
    list.push_back({{"batch", row.shape.batch},
                    {"hidden", row.hidden},
                    {"steps", row.shape.steps},
                    {"choice", row.scans ? "scan" : "loop"},
                    {"microseconds", row.chosen * 1e6},
                    {"loop_microseconds", row.loop * 1e6},
                    {"scan_microseconds", row.scan * 1e6},
                    {"sum_microseconds", row.sum * 1e6}});
  }
  return {{"device", options.bench.device},
          {"dtype", options.bench.dtype},
          {"threads", options.bench.threads},
          {"shapes", list}};
}

Status bench_scans(const Options& options) {
  const bool table = !is_dash(options.bench.json);
  std::vector<ScanRow> rows;
  if (table) {
    const Status status =
        print("batch\thidden\tsteps\tchoice\tus\tloop us\tscan us\tsum us\tshare\tspeedup\n");
    if (!status) return status;
  }
  for (const auto& [batch, hidden] : kBatchesAndSizes) {
    for (int64_t steps = 1; steps <= options.most_steps; steps *= kStepsFactor) {
      if (batch * hidden * steps > kMostElements) break;
      const Result<ScanRow> row = time_row({.batch = batch, .steps = steps}, hidden, options);
      if (!row) return tl::unexpected(row.error());
      rows.push_back(*row);
      if (!table) continue;
      if (Status status = print(line_of(*row)); !status) return status;
    }
  }
  return options.bench.json.empty() ? Status() : write_json(options.bench, json_of(rows, options));
}

int run_scan(const CLI::App& command, const Options& options) {
  const std::string problem = check_usage(options.bench);
  if (!problem.empty()) return report_usage(command, problem);
  if (Status status = check_json(options.bench); !status) return report(status.error());
  const Status status = bench_scans(options);
  return status ? kOk : report(status.error());
}

}  // namespace

void add_scan(CLI::App& bench, int& exit_code) {
  auto options = std::make_shared<Options>();
  CLI::App* command = bench.add_subcommand(
      "scan", "A linear recurrence step by step and as a scan, of few steps to a million");
  options->bench.seconds = 0.2;
  add_bench_options(*command, options->bench);
  add_size(*command, "--most-steps", options->most_steps, "Steps of the longest sequences");
  command->footer(
      "MinGRU from its gates' pre-activations: the time of a call as rnnc chooses, of both "
      "strategies and\n"
      "of a sum that moves the same bytes; its share of the sum's rate, and its speedup over the "
      "loop.\n"
      "Columns are separated by tabs.\n\n"
      "Examples:\n"
      "  rnnc bench scan --threads 2 --json scan.json\n"
      "  rnnc bench scan --device cuda --dtype bf16");
  command->callback([command, options, &exit_code] { exit_code = run_scan(*command, *options); });
}

}  // namespace rnnc::tools
