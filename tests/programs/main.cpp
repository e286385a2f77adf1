// Writes random programs, compiles them, runs them, and compares with the interpreter.
//
// Each seed is one program with its own sizes, precision, chunk, lengths, resets and pieces, run
// with all passes and with some. Each N-th is trained, too. Stops with the first seed
// that fails.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <optional>
#include <random>
#include <string>

#include "frontend/unit.h"
#include "ir/graph/text.h"
#include "ir/graph/verify.h"
#include "passes/graph/delays.h"
#include "runtime/program/run.h"
#include "tests/programs/program_writer.h"
#include "tests/programs/setting.h"
#include "tests/programs/training_check.h"
#include "tests/support/cells/random_graph.h"
#include "tests/support/reference/interpreter_run.h"
#include "tests/support/reference/sequence_oracle.h"
#ifdef RNNC_EMULATED
#include "tests/emulator/emulator.h"
#endif

namespace rnnc::test {
namespace {

Setting choose_setting(uint64_t seed, const WrittenProgram& program, const Device& device) {
  std::mt19937_64 random(seed ^ 0x9e3779b97f4a7c15u);
  const auto below = [&random](uint64_t count) { return static_cast<int64_t>(random() % count); };
  Setting setting;
  setting.reversed = program.reversed;
  setting.steps = 1 + below(7);
  if (program.farthest > setting.steps && below(2) == 0) {
    setting.steps = 1 + below(2 * static_cast<uint64_t>(program.farthest));
  }
  // The interpreter is slow: not with long sequences, too.
  setting.batch = 1 + below(below(6) == 0 && program.farthest < 20 ? 20 : 4);
  setting.dtype = below(4) == 0 || device.kind != Device::Kind::cpu ? DType::f32 : DType::f64;
  setting.chunk = below(5);
  setting.threads = static_cast<int>(1 + below(3));
  if (!setting.reversed && below(4) == 0) setting.piece = 1 + below(3);
  setting.with_states = below(2) == 0;
  if (below(3) == 0) {
    for (int64_t b = 0; b < setting.batch; ++b) {
      setting.lengths.push_back(below(static_cast<uint64_t>(setting.steps) + 1));
    }
  }
  if (below(3) == 0) {
    const uint64_t apart = below(2) == 0 ? 4 : 4 + program.farthest;
    for (int64_t i = 0; i < setting.steps * setting.batch; ++i) {
      setting.resets.push_back(below(apart) == 0 ? 1 : 0);
    }
  }
  for (const PassInfo& info : all_passes()) {
    if (below(2) == 0) setting.passes = setting.passes.with(info.pass);
  }
  if (below(2) == 0) setting.strategy = below(4) == 0 ? Strategy::Loop : Strategy::Scan;
  return setting;
}

/// The program's graph, after checking that printing and parsing again change nothing.
Result<Graph> lower(const WrittenProgram& program) {
  Unit unit("program.rnn", program.text);
  if (!unit.check()) return fail("{}", unit.render());
  std::optional<Graph> graph = unit.lower(program.main, program.dims);
  if (!graph) return fail("{}", unit.render());
  Unit again("printed.rnn", unit.print_ast());
  std::optional<Graph> same = again.lower(program.main, program.dims);
  if (!same) return fail("the printed program: {}", again.render());
  if (again.print_ast() != unit.print_ast() || to_string(*same) != to_string(*graph)) {
    return fail("printed and parsed, the program is another one");
  }
  const Result<Graph> parsed = parse_graph(to_string(*graph));
  if (!parsed) return tl::unexpected(parsed.error());
  if (to_string(*parsed) != to_string(*graph)) return fail("the graph's text reads back otherwise");
  const Result<DimBindings> dims = complete_bindings(*graph, program.dims);
  if (!dims) return tl::unexpected(dims.error());
  graph->bind(*dims);
  if (Status status = verify(*graph); !status) return tl::unexpected(status.error());
  return std::move(*graph);
}

Result<RunResult> run_compiled(const Graph& graph, const InterpreterArgs& args,
                               const Setting& setting, const Device& device, PassSet passes,
                               Strategy strategy) {
  Result<Program> program = Program::compile(graph, {.dtype = setting.dtype,
                                                     .device = device,
                                                     .threads = setting.threads,
                                                     .chunk = setting.chunk,
                                                     .passes = passes,
                                                     .strategy = strategy});
  if (!program) return tl::unexpected(program.error());
  Runner runner(*program);
  RunArgs call = named_args(graph, args, setting.lengths, setting.resets);
  call.piece = setting.piece;
  return runner.run(call);
}

/// For each output, and for each state.
struct Tolerances {
  std::vector<double> outputs;
  std::vector<double> states;
};

void widen(std::vector<double>& tolerances, const std::vector<std::vector<double>>& moved,
           const std::vector<std::vector<double>>& exact) {
  for (size_t i = 0; i < moved.size(); ++i) {
    for (size_t j = 0; j < moved[i].size(); ++j) {
      tolerances[i] = std::max(tolerances[i], std::fabs(moved[i][j] - exact[i][j]));
    }
  }
}

/// How far rounding in the arithmetic of `dtype` may move the results: what a change of the
/// arguments by a few units in the last place does to them, with a wide margin.
Tolerances tolerances(const Graph& graph, const InterpreterArgs& args, const Setting& setting,
                      const InterpreterResult& exact) {
  const double unit = setting.dtype == DType::f64 ? 1e-15 : 1e-6;
  Tolerances result = {.outputs = std::vector<double>(exact.outputs.size(), 0),
                       .states = std::vector<double>(exact.final_states.size(), 0)};
  for (uint64_t seed = 1; seed <= 2; ++seed) {
    std::mt19937_64 random(seed);
    InterpreterArgs moved = args;
    const auto move = [&](std::vector<double>& array) {
      for (double& value : array) value *= 1 + (random() % 2 == 0 ? unit : -unit);
    };
    for (size_t i = 0; i < moved.inputs.size(); ++i) {
      if (!graph.inputs[i].integer) move(moved.inputs[i]);
    }
    std::ranges::for_each(moved.params, move);
    std::ranges::for_each(moved.initial_states, move);
    const InterpreterResult results =
        interpret_sequences(graph, moved, setting.lengths, setting.resets);
    widen(result.outputs, results.outputs, exact.outputs);
    widen(result.states, results.final_states, exact.final_states);
  }
  for (auto* tolerances : {&result.outputs, &result.states}) {
    for (double& tolerance : *tolerances) tolerance = 300 * (tolerance + 10 * unit);
  }
  return result;
}

Status compare(std::string_view what, const std::vector<double>& expected,
               const std::vector<double>& got, double tolerance) {
  if (got.size() != expected.size()) return fail("{} has {} elements", what, got.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    const bool same =
        std::isnan(expected[i]) ? std::isnan(got[i]) : std::fabs(got[i] - expected[i]) <= tolerance;
    if (!same) {
      return fail("{}[{}] is {}, the interpreter says {} (tolerance {})", what, i, got[i],
                  expected[i], tolerance);
    }
  }
  return {};
}

Status compare_results(const InterpreterResult& expected, const RunResult& got,
                       const Tolerances& tolerance) {
  for (size_t i = 0; i < expected.outputs.size(); ++i) {
    const NamedArray& output = got.outputs[i];
    if (Status status = compare(output.name, expected.outputs[i], output.array.to_doubles(),
                                tolerance.outputs[i]);
        !status) {
      return status;
    }
  }
  for (size_t i = 0; i < expected.final_states.size(); ++i) {
    const NamedArray& state = got.final_states[i];
    if (Status status = compare(state.name, expected.final_states[i], state.array.to_doubles(),
                                tolerance.states[i]);
        !status) {
      return status;
    }
  }
  return {};
}

/// With states given, some of the implied ones are, but for a sequence that cannot be run in pieces:
/// of that, nobody knows what came before.
InterpreterArgs choose_args(const Graph& graph, const Setting& setting, uint64_t seed,
                            bool reversed) {
  InterpreterArgs args =
      random_args(graph, setting.steps, setting.batch, seed, setting.with_states);
  std::mt19937_64 random(seed);
  for (size_t i = 0; i < args.initial_states.size(); ++i) {
    const StateDecl& state = graph.states[i];
    if (state.name.find('@') == std::string::npos) continue;
    const bool history = state.name.ends_with("@history") && state.delay_of;
    if (!reversed && (history || random() % 3 != 0)) continue;
    args.initial_states[i].clear();
    if (history) args.initial_states[*state.delay_of].clear();  // they are given together
  }
  return args;
}

Status check_seed(uint64_t seed, const Device& device, bool training) {
  const WrittenProgram program = write_program(seed);
  const Setting setting = choose_setting(seed, program, device);
  Result<Graph> graph = lower(program);
  if (!graph && is_too_large(graph.error())) return {};
  if (!graph) return tl::unexpected(graph.error());
  run_delays(*graph);
  const InterpreterArgs args = choose_args(*graph, setting, seed, program.reversed);
  const InterpreterResult expected =
      interpret_sequences(*graph, args, setting.lengths, setting.resets);
  const Tolerances tolerance = tolerances(*graph, args, setting, expected);
  for (const PassSet passes : {PassSet::all(), setting.passes}) {
    Result<RunResult> got = run_compiled(*graph, args, setting, device, passes, setting.strategy);
    if (!got && is_refusal(got.error())) {
      got = run_compiled(*graph, args, setting, device, passes, Strategy::Any);
    }
    const Status same =
        got ? compare_results(expected, *got, tolerance) : tl::unexpected(got.error());
    if (!same) return fail("with passes {}: {}", passes.to_string(), same.error().message);
  }
  return training ? check_training(*graph, args, setting, device, seed) : Status();
}

struct Draws {
  uint64_t from = 1;
  uint64_t count = UINT64_MAX;
  double seconds = 1e9;
  uint64_t training = 4;
};

/// What a program did wrong on the emulated GPU.
Status check_faults() {
#ifdef RNNC_EMULATED
  const std::vector<std::string> faults = emulator::take_faults();
  if (!faults.empty()) return fail("on the emulated GPU: {}", faults.front());
#endif
  return {};
}

int run(const Device& device, const Draws& draws) {
  const auto start = std::chrono::steady_clock::now();
  const auto elapsed = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  uint64_t done = 0;
  for (; done < draws.count && elapsed() < draws.seconds; ++done) {
    const uint64_t seed = draws.from + done;
    const bool training = seed % draws.training == 0;
    Status status = check_seed(seed, device, training);
    if (status) status = check_faults();
    if (!status) {
      fmt::print("seed {} failed: {}\n\n{}", seed, status.error().message,
                 write_program(seed).text);
      return 1;
    }
  }
  fmt::print("{} programs from seed {}, compiled and run, as the interpreter says ({:.0f} s)\n",
             done, draws.from, elapsed());
  return done > 0 ? 0 : 1;
}

}  // namespace
}  // namespace rnnc::test

int main(int argc, char** argv) {
  rnnc::test::Draws draws;
  std::string device_name = "cpu";
  uint64_t shown = 0;
  CLI::App app("Runs random programs, and compares with the interpreter.");
  app.add_option("--device", device_name, "cpu or cuda")->capture_default_str();
  app.add_option("--from", draws.from, "The first seed")->capture_default_str();
  app.add_option("--count", draws.count, "How many seeds");
  app.add_option("--seconds", draws.seconds, "How long at most");
  app.add_option("--training", draws.training, "One in so many is trained, too")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  CLI::Option* show = app.add_option("--show", shown, "Only print the program of this seed");
  CLI11_PARSE(app, argc, argv);
  if (show->count() > 0) {
    fmt::print("{}", rnnc::test::write_program(shown).text);
    return 0;
  }
  const rnnc::Result<rnnc::Device> device = rnnc::Device::parse(device_name);
  if (!device) {
    fmt::print(stderr, "{}\n", device.error().message);
    return 2;
  }
  return rnnc::test::run(*device, draws);
}
