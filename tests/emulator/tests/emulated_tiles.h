/// Tests of resident recurrences on the emulated GPU that ask for a kind of tile and see that they
/// have it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <optional>

#include "frontend/unit.h"
#include "ir/base/arithmetic.h"
#include "ir/graph/text.h"
#include "runtime/backend/backend.h"
#include "runtime/program/planner.h"
#include "tests/emulator/emulator.h"
#include "tests/gpu/device_arguments.h"
#include "tests/gpu/graphs.h"
#include "tests/support/cells/golden_cases.h"
#include "tests/support/cells/networks.h"
#include "tests/support/cells/sequence_cases.h"
#include "tests/support/cells/sequence_graphs.h"
#include "tests/support/reference/sequence_oracle.h"

namespace rnnc::test {

using Kind = std::function<bool(const RecurrenceTile&)>;

inline bool is_streamed(const RecurrenceTile& tile) {
  return tile.streamed_words > 0;
}
inline bool is_split(const RecurrenceTile& tile) {
  return tile.split;
}
/// Units that are no power of two leave threads over: pairs of them do not divide a block's.
inline bool has_threads_left(const RecurrenceTile& tile) {
  return std::ranges::any_of(
      tile.units, [&](int64_t units) { return units > 1 && 32 * tile.warps % (units / 2) != 0; });
}
inline int64_t laps_of(const RecurrenceTile& tile, int64_t batch) {
  return ceil_div(ceil_div(batch, tile.groups), tile.rows);
}

inline double tolerance(DType dtype) {
  if (dtype == DType::f32) return 2e-5;
  return dtype == DType::bf16 ? 2e-2 : 5e-3;
}

/// A shipped cell, on 3 inputs.
inline Graph shipped(const std::string& cell, int64_t hidden) {
  GoldenCase sized;
  sized.cell = cell;
  sized.size.dims = {{"I", 3}, {"H", hidden}};
  Result<Graph> graph = golden_graph(sized);
  RNNC_CHECK(graph.has_value(), "{}", graph.error().message);
  return *std::move(graph);
}

/// The cell of a text, with numbers for its dims.
inline Graph cell_of(const std::string& name, const std::string& text, const DimBindings& dims) {
  Unit unit("cell.rnn", text);
  std::optional<Graph> graph = unit.lower(name, dims);
  RNNC_CHECK(graph.has_value(), "{}", unit.render());
  graph->bind(dims);
  return *std::move(graph);
}

/// h[t] = R @ h[t-1] + W * x[t].
inline Graph linear(int64_t hidden) {
  Result<Graph> graph = parse_graph(R"(graph Linear(H) {
    input x: [H]
    param W: [H]
    param R: [H, H]
    state h: [H]
    %0 = param W : [H]
    %1 = input x : [H]
    %2 = mul %0, %1 : [H]
    %3 = param R : [H, H]
    %4 = state h @ 1 : [H]
    %5 = matmul %3, %4 : [H]
    %6 = add %2, %5 : [H]
    %7 = const 0 : []
    init h = %7
    next h = %6
    output h = %6
  })");
  RNNC_CHECK(graph.has_value(), "{}", graph.error().message);
  graph->bind({{"H", hidden}});
  return *std::move(graph);
}

class EmulatedTiles : public testing::Test {
 protected:
  ~EmulatedTiles() override { emulator::settings() = settings_; }

  /// For a GPU of so many multiprocessors.
  static CompileOptions options(DType dtype, int multiprocessors) {
    emulator::settings().multiprocessors = multiprocessors;
    return {.dtype = dtype,
            .device = {.kind = Device::Kind::cuda, .index = 0},
            .chunk = 3,
            .passes = PassSet::all()};
  }

  /// Of the plan's only recurrence with products; none where it is not resident.
  static std::optional<RecurrenceTile> tile_of(const Plan& plan) {
    for (const Stage& stage : plan.stages) {
      if (is_resident(stage)) return std::get<RecurrenceLaunch>(stage.launches[0]).tile;
      if (stage.recurrence >= RecurrenceClass::Block) ADD_FAILURE() << stage.reason;
    }
    return {};
  }

  /// Options with the first rank from theirs on whose tile is of the kind.
  static CompileOptions with_tile(const Graph& graph, CompileOptions options,
                                  const Sequences& sequences, const Kind& kind) {
    constexpr int64_t kMostRank = 99;
    Result<Program> program = Program::compile(graph, options);
    RNNC_CHECK(program.has_value(), "{}", program.error().message);
    const Result<Planner> planner = Planner::make(graph, options);
    RNNC_CHECK(planner.has_value(), "{}", planner.error().message);
    for (; options.tile_rank < kMostRank; ++options.tile_rank) {
      const PlanShape shape = {sequences.batch, sequences.steps, sequences.features()};
      PlanChoice choice = planner->choice();
      choice.tile_rank = options.tile_rank;
      const Result<Plan> plan = planner->plan(shape, program->backend().machine(), choice);
      RNNC_CHECK(plan.has_value(), "{}", plan.error().message);
      const std::optional<RecurrenceTile> tile = tile_of(*plan);
      if (!tile) break;
      if (kind(*tile)) return options;
    }
    ADD_FAILURE() << "no tile of the kind";
    return options;
  }

  static Program prepare(const Graph& graph, const CompileOptions& options,
                         const Sequences& sequences) {
    Result<Program> program = Program::compile(graph, options);
    RNNC_CHECK(program.has_value(), "{}", program.error().message);
    const Status prepared =
        program->prepare(sequences.batch, sequences.steps, sequences.features());
    RNNC_CHECK(prepared.has_value(), "{}", prepared.error().message);
    EXPECT_EQ(program->notes(), std::vector<std::string>{});
    return *std::move(program);
  }
  static RecurrenceTile tile_of(const Program& program, const Sequences& sequences) {
    const Plan* const plan =
        program.prepared(sequences.batch, sequences.steps, sequences.features())->plan;
    return tile_of(*plan).value_or(RecurrenceTile{});
  }

  /// A program with a tile of the kind computes what the interpreter does, and the same bits again.
  static void check(const Graph& graph, const CompileOptions& options, const Sequences& sequences,
                    const Kind& kind) {
    Program program = prepare(graph, options, sequences);
    const RecurrenceTile tile = tile_of(program, sequences);
    SCOPED_TRACE(fmt::format("{} {}, batch {}, rank {}: {}", to_string(options.dtype), graph.name,
                             sequences.batch, options.tile_rank, to_string(tile)));
    EXPECT_TRUE(kind(tile));
    const InterpreterArgs args =
        rounded(arguments_for(graph, sequences.steps, sequences.batch, true), options.dtype);
    const DeviceArguments arguments(program, args, false, sequences);
    const InterpreterResult expected =
        interpret_sequences(graph, args, sequences.lengths, sequences.resets);
    std::vector<std::vector<std::byte>> bits;
    for (int turn = 0; turn < 2; ++turn) {
      const Status ran = program.forward(arguments.on(nullptr));
      ASSERT_TRUE(ran.has_value()) << ran.error().message;
      EXPECT_LE(error_of_results(arguments.results(), expected), tolerance(options.dtype));
      if (turn == 0) bits = arguments.result_bits();
    }
    EXPECT_EQ(arguments.result_bits(), bits);
  }

  const emulator::Settings settings_ = emulator::settings();
};

struct Sized {
  std::string cell;
  int64_t hidden, batch;
  DType dtype;
};

inline Graph graph_of(const Sized& sized) {
  if (sized.cell == "LSTM") return lstm_graph(3, sized.hidden);
  if (sized.cell == "Qrnn") return sequence_graph("Qrnn", {{"I", 3}, {"H", sized.hidden}});
  return shipped(sized.cell, sized.hidden);
}

}  // namespace rnnc::test
