// Resident recurrences on tiles of every kind, on the emulated GPU: with weights that find no room
// on the chip, with f32 products in parts for tensor cores, of units that are no powers of two,
// with more passes over rows than are unrolled. Each test asks for a kind and sees that it has it.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <utility>

#include "frontend/unit.h"
#include "ir/text.h"
#include "runtime/backend.h"
#include "runtime/planner.h"
#include "tests/emulator/emulator.h"
#include "tests/gpu/device_arguments.h"
#include "tests/gpu/graphs.h"
#include "tests/support/deterministic.h"
#include "tests/support/golden_cases.h"
#include "tests/support/networks.h"
#include "tests/support/sequence_cases.h"
#include "tests/support/sequence_graphs.h"
#include "tests/support/sequence_oracle.h"

namespace rnnc::test {
namespace {

using Kind = std::function<bool(const RecurrenceTile&)>;

int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

bool is_streamed(const RecurrenceTile& tile) {
  return tile.streamed_words > 0;
}
bool is_split(const RecurrenceTile& tile) {
  return tile.split;
}
/// Units that are no power of two leave threads over: pairs of them do not divide a block's.
bool has_threads_left(const RecurrenceTile& tile) {
  return std::ranges::any_of(
      tile.units, [&](int64_t units) { return units > 1 && 32 * tile.warps % (units / 2) != 0; });
}
int64_t passes_of(const RecurrenceTile& tile, int64_t batch) {
  return ceil_div(ceil_div(batch, tile.groups), tile.rows);
}

double tolerance(DType dtype) {
  if (dtype == DType::f32) return 2e-5;
  return dtype == DType::bf16 ? 2e-2 : 5e-3;
}

/// A shipped cell, on 3 inputs.
Graph shipped(const std::string& cell, int64_t hidden) {
  GoldenCase sized;
  sized.cell = cell;
  sized.size.dims = {{"I", 3}, {"H", hidden}};
  Result<Graph> graph = golden_graph(sized);
  RNNC_CHECK(graph.has_value(), "{}", graph.error().message);
  return *std::move(graph);
}

/// h[t] = R @ h[t-1] + W * x[t].
Graph linear(int64_t hidden) {
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
      const Result<Plan> plan = planner->plan(shape, program->backend().machine(),
                                              {options.passes, options.tile_rank, 0});
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

Graph graph_of(const Sized& sized) {
  if (sized.cell == "LSTM") return lstm_graph(3, sized.hidden);
  if (sized.cell == "Qrnn") return sequence_graph("Qrnn", {{"I", 3}, {"H", sized.hidden}});
  return shipped(sized.cell, sized.hidden);
}

// ---- Weights off the chip ----

TEST_F(EmulatedTiles, StreamExactWeightsOfOneRow) {
  check(lstm_graph(3, 352), options(DType::f32, 6), {.steps = 5, .batch = 1},
        [](const RecurrenceTile& tile) { return is_streamed(tile) && !is_split(tile); });
}

TEST_F(EmulatedTiles, StreamExactWeightsOfTwoRows) {
  CompileOptions exact = options(DType::f32, 6);
  exact.passes = exact.passes.without(Pass::Split);
  check(lstm_graph(3, 352), exact, {.steps = 4, .batch = 2}, is_streamed);
}

// In registers, in shared memory and in memory.
TEST_F(EmulatedTiles, StreamWeightsThatAreSplit) {
  const Graph graph = lstm_graph(3, 352);
  const Sequences sequences = {.steps = 4, .batch = 9};
  const Kind wanted = [](const RecurrenceTile& tile) {
    return is_streamed(tile) && is_split(tile) && tile.weight_registers > 0;
  };
  check(graph, with_tile(graph, options(DType::f32, 9), sequences, wanted), sequences, wanted);
  // Where the best tile is such a one.
  check(graph, options(DType::f32, 6), sequences,
        [](const RecurrenceTile& tile) { return is_streamed(tile) && is_split(tile); });
}

TEST_F(EmulatedTiles, StreamWeightsOfHalves) {
  check(lstm_graph(3, 700), options(DType::bf16, 11), {.steps = 4, .batch = 3}, is_streamed);
}

TEST_F(EmulatedTiles, StreamWeightsForManyRowsAtOnce) {
  const Graph graph = linear(1280);
  const Sequences sequences = {.steps = 3, .batch = 16};
  const Kind wanted = [](const RecurrenceTile& tile) { return is_streamed(tile) && tile.rows > 8; };
  check(graph, with_tile(graph, options(DType::f32, 20), sequences, wanted), sequences, wanted);
}

TEST_F(EmulatedTiles, StreamWeightsOfSeveralProducts) {
  constexpr int64_t kHidden = 832;
  // More words than the second phase's product of one member has: a part of the first's as well.
  const auto wanted = [](const RecurrenceTile& tile) {
    const int64_t pieces = ceil_div(ceil_div(kHidden * 4, 64), tile.warps);
    return tile.streamed_words > 8 * pieces * ceil_div(tile.units[1], 16);
  };
  check(graph_of({"GRUResetBefore", kHidden, 1, DType::f32}), options(DType::f32, 13),
        {.steps = 3, .batch = 1}, wanted);
}

TEST_F(EmulatedTiles, StreamWeightsWhoseResultsAreReduced) {
  check(graph_of({"LayerNormLSTM", 704, 3, DType::f32}), options(DType::f32, 22),
        {.steps = 3, .batch = 3}, is_streamed);
}

TEST_F(EmulatedTiles, StreamWeightsOfSeveralGroups) {
  const Graph graph = lstm_graph(3, 352);
  const Sequences sequences = random_sequences(7, 2, {.lengths = true, .resets = true}, true, 3);
  const Kind wanted = [](const RecurrenceTile& tile) {
    return is_streamed(tile) && tile.groups > 1;
  };
  check(graph, with_tile(graph, options(DType::f32, 12), sequences, wanted), sequences, wanted);
}

TEST_F(EmulatedTiles, StreamWeightsOfSeveralRecurrences) {
  check(network("Stack", 352), options(DType::f32, 6), {.steps = 8, .batch = 1}, is_streamed);
}

// ---- Many rows at once ----

// With most weights in shared memory, which the last pieces of a long product have by a loop; a
// second pass has fewer rows.
TEST_F(EmulatedTiles, SplitFourTilesOfRows) {
  constexpr int64_t kHidden = 640;
  const Graph graph = linear(kHidden);
  const Sequences sequences = random_sequences(3, 61, {.lengths = true}, true, 3);
  const Kind wanted = [](const RecurrenceTile& tile) {
    const int64_t pieces = ceil_div(kHidden * 4 / 64, tile.k_warps);
    const int64_t across = ceil_div(ceil_div(tile.units[0], 16), tile.warps / tile.k_warps);
    const int64_t held = ceil_div(tile.weight_registers / 8, across);
    return tile.split && !is_streamed(tile) && tile.rows == 32 && held + 2 <= pieces && pieces > 6;
  };
  check(graph, with_tile(graph, options(DType::f32, 10), sequences, wanted), sequences, wanted);
}

TEST_F(EmulatedTiles, ThreeTilesOfRows) {
  struct Case {
    DType dtype;
    int64_t hidden;
    int multiprocessors;
  };
  const Kind wanted = [](const RecurrenceTile& tile) { return tile.rows == 24; };
  for (const auto [dtype, hidden, multiprocessors] :
       {Case{DType::f32, 100, 4}, Case{DType::f32, 333, 12}, Case{DType::bf16, 333, 7}}) {
    const Graph graph = lstm_graph(3, hidden);
    for (const int64_t batch : {21, 53}) {
      const Sequences sequences = {.steps = 4, .batch = batch};
      check(graph, with_tile(graph, options(dtype, multiprocessors), sequences, wanted), sequences,
            wanted);
    }
  }
}

// ---- Reductions ----

/// A layer norm of each of so many products, and others of one of them.
Graph reducing(int64_t norms, std::string_view others, int64_t hidden) {
  std::string params;
  std::string sum;
  for (int64_t i = 0; i < norms; ++i) {
    params += fmt::format("{}R_{}", i == 0 ? "" : ", ", i);
    sum += fmt::format(" + layernorm(R_{0} @ h[t-1], gain, bias)", i);
  }
  const std::string text = fmt::format(R"(cell Reducing[H](x: [H]) -> h {{
  state h: [H]
  param {}: [H, H]
  param gain, bias: [H]
  a = R_0 @ h[t-1]
  h[t] = tanh(x[t]{}{})
}}
)",
                                       params, sum, others);
  Unit unit("reducing.rnn", text);
  std::optional<Graph> graph = unit.lower("Reducing", {{"H", hidden}});
  RNNC_CHECK(graph.has_value(), "{}", unit.render());
  graph->bind({{"H", hidden}});
  return *std::move(graph);
}

// Of one to eight products, some with extrema beside moments: of blocks that are as large or not,
// of few and of many, and more rows than warps join at once.
TEST_F(EmulatedTiles, JoinReductions) {
  struct Joined {
    int64_t norms;
    std::string_view others;
    int64_t hidden, batch;
    int multiprocessors;
    DType dtype;
  };
  const Kind several = [](const RecurrenceTile& tile) { return tile.blocks > 1; };
  for (const Joined& joined :
       {Joined{1, "", 256, 3, 8, DType::f32}, Joined{2, "", 256, 12, 8, DType::bf16},
        Joined{3, "", 96, 2, 6, DType::f32}, Joined{3, "", 192, 5, 12, DType::f16},
        Joined{4, "", 256, 23, 16, DType::bf16}, Joined{4, "", 300, 4, 20, DType::bf16},
        Joined{8, "", 128, 3, 16, DType::f32},
        Joined{1, " + max(a) - min(a)", 256, 3, 8, DType::f32},
        Joined{2, " + max(a) * mean(a)", 100, 7, 16, DType::bf16}}) {
    SCOPED_TRACE(fmt::format("{} norms{}, H {}, batch {}", joined.norms, joined.others,
                             joined.hidden, joined.batch));
    const Graph graph = reducing(joined.norms, joined.others, joined.hidden);
    const Sequences sequences = {.steps = 4, .batch = joined.batch};
    for (const int64_t rank : {0, 4, 9}) {
      CompileOptions chosen = options(joined.dtype, joined.multiprocessors);
      chosen.tile_rank = rank;
      check(graph, with_tile(graph, chosen, sequences, several), sequences, several);
    }
  }
}

// ---- f32 products in parts ----

/// Numbers of either sign from 2^-13 to 2^12.
std::vector<double> wide_values(std::string_view name, int64_t count) {
  std::vector<double> values = deterministic_values(name, count, 1, DType::f32);
  for (int64_t i = 0; i < count; ++i) {
    const auto exponent = static_cast<int>(deterministic_bits("exponents", i) % 25) - 12;
    values[i] = std::ldexp(values[i], exponent);
  }
  return values;
}

/// Of h[t] = R @ h[t-1] + W * x[t], all in float64: its largest error in units of the sum of
/// products' magnitudes.
double worst_error(const InterpreterArgs& args, const std::vector<double>& outputs,
                   int64_t hidden) {
  double worst = 0;
  for (int64_t row = 0; row < args.steps * args.batch; ++row) {
    const double* const before = row < args.batch ? args.initial_states[0].data() + row * hidden
                                                  : outputs.data() + (row - args.batch) * hidden;
    for (int64_t i = 0; i < hidden; ++i) {
      double sum = args.params[0][i] * args.inputs[0][row * hidden + i];
      double magnitude = std::fabs(sum);
      for (int64_t k = 0; k < hidden; ++k) {
        const double product = args.params[1][i * hidden + k] * before[k];
        sum += product;
        magnitude += std::fabs(product);
      }
      worst = std::max(worst, std::fabs(outputs[row * hidden + i] - sum) / magnitude);
    }
  }
  return worst;
}

// Each step from what the step before it gave, so that errors do not add up.
TEST_F(EmulatedTiles, SplitProductsAreAsAccurateAsTheySay) {
  constexpr int64_t kHidden = 1000;
  const Graph graph = linear(kHidden);
  const Sequences sequences = {.steps = 2, .batch = 16};
  const CompileOptions split = with_tile(graph, options(DType::f32, 16), sequences, is_split);
  Program program = prepare(graph, split, sequences);
  const RecurrenceTile tile = tile_of(program, sequences);
  SCOPED_TRACE(to_string(tile));
  ASSERT_TRUE(tile.split);
  const int64_t rows = sequences.steps * sequences.batch;
  const InterpreterArgs args = {
      .steps = sequences.steps,
      .batch = sequences.batch,
      .inputs = {wide_values("x", rows * kHidden)},
      .params = {wide_values("W", kHidden), wide_values("R", kHidden * kHidden)},
      .initial_states = {wide_values("h0", sequences.batch * kHidden)}};
  const DeviceArguments arguments(program, args);
  const Status ran = program.forward(arguments.on(nullptr));
  ASSERT_TRUE(ran.has_value()) << ran.error().message;
  // What is left out of products, and the emulator's own sums of 8 of them; then sums of a warp, of
  // all warps, and what is added besides.
  const double products = std::ldexp(1, -21) + 8 * std::ldexp(1, -24);
  const int64_t sums = ceil_div(ceil_div(kHidden, 16), tile.k_warps) * 2 + tile.k_warps + 3;
  EXPECT_LE(worst_error(args, arguments.results().outputs[0], kHidden),
            products + static_cast<double>(sums) * std::ldexp(1, -23));
}

TEST_F(EmulatedTiles, AreNotSplitWithoutThePass) {
  const Graph graph = linear(64);
  const Sequences sequences = {.steps = 4, .batch = 16};
  CompileOptions split = with_tile(graph, options(DType::f32, 4), sequences, is_split);
  split.passes = split.passes.without(Pass::Split);
  for (split.tile_rank = 0; split.tile_rank < 3; ++split.tile_rank) {
    EXPECT_FALSE(tile_of(prepare(graph, split, sequences), sequences).split);
  }
}

/// A NaN that is all ones, with which memory for exchanges is filled, among them.
std::vector<double> nonfinite_values() {
  using Limits = std::numeric_limits<double>;
  return {Limits::infinity(), -Limits::infinity(), Limits::quiet_NaN(),
          std::bit_cast<double>(~uint64_t{0}), std::bit_cast<double>(~uint64_t{0} >> 1)};
}

TEST_F(EmulatedTiles, NanAndInfinityFlowThroughSplitProducts) {
  constexpr int64_t kHidden = 40;
  const Graph graph = linear(kHidden);
  const Sequences sequences = {.steps = 3, .batch = 16};
  const CompileOptions split = with_tile(graph, options(DType::f32, 4), sequences, is_split);
  Program program = prepare(graph, split, sequences);
  ASSERT_TRUE(tile_of(program, sequences).split);
  for (const bool one_sign : {false, true}) {
    InterpreterArgs args = arguments_for(graph, sequences.steps, sequences.batch, true);
    if (one_sign) {  // an infinity meets none of the other sign, and stays one
      for (double& weight : args.params[1]) weight = std::fabs(weight);
    }
    DeviceArguments arguments(program, args);
    for (std::vector<double>* values :
         {&args.initial_states[0], &args.inputs[0], &args.params[0], &args.params[1]}) {
      for (const double value : nonfinite_values()) {
        SCOPED_TRACE(
            fmt::format("{} in an array of {}, one sign: {}", value, values->size(), one_sign));
        double& changed = (*values)[(3 * kHidden + 7) % values->size()];
        const double before = std::exchange(changed, value);
        arguments.upload(args);
        const Status ran = program.forward(arguments.on(nullptr));
        ASSERT_TRUE(ran.has_value()) << ran.error().message;
        // Infinities differ from all but themselves.
        EXPECT_LE(error_of_results(arguments.results(), interpret(graph, args)), 2e-5);
        changed = before;
      }
    }
  }
}

// ---- Units that are no powers of two, and many passes ----

TEST_F(EmulatedTiles, UnitsThatAreNoPowersOfTwo) {
  for (const Sized& sized : {Sized{"LSTM", 7, 1, DType::f32}, Sized{"LSTM", 33, 17, DType::f32},
                             Sized{"LSTM", 130, 3, DType::bf16}, Sized{"GRU", 33, 3, DType::f32},
                             Sized{"GRU", 72, 17, DType::f16}, Sized{"GRU", 130, 1, DType::f32},
                             Sized{"GRUResetBefore", 72, 3, DType::bf16}}) {
    const Graph graph = graph_of(sized);
    const Sequences sequences = {.steps = 4, .batch = sized.batch};
    check(graph, with_tile(graph, options(sized.dtype, 8), sequences, has_threads_left), sequences,
          has_threads_left);
  }
}

// Whatever the rank: tiles differ in units, warps, rows and groups.
TEST_F(EmulatedTiles, OfSeveralRanksAndOddSizes) {
  constexpr DType kDTypes[] = {DType::f32, DType::bf16, DType::f32, DType::f16, DType::f32};
  size_t i = 0;
  for (const char* cell : {"LSTM", "GRU", "LayerNormLSTM"}) {
    for (const int64_t hidden : {7, 33, 72, 130}) {
      for (const int64_t batch : {1, 3, 17, 40}) {
        CompileOptions ranked = options(kDTypes[i % 5], i % 2 == 0 ? 6 : 12);
        ranked.tile_rank = static_cast<int64_t>(i * 2 % 9);
        ++i;
        check(graph_of({cell, hidden, batch, ranked.dtype}), ranked, {.steps = 4, .batch = batch},
              [](const RecurrenceTile&) { return true; });
      }
    }
  }
}

TEST_F(EmulatedTiles, ManyPassesCarryInSharedMemory) {
  for (const Sized& sized :
       {Sized{"LSTM", 33, 40, DType::f32}, Sized{"GRU", 7, 40, DType::bf16},
        Sized{"GRUResetBefore", 96, 25, DType::f32}, Sized{"LEM", 33, 40, DType::f32},
        Sized{"LEM", 7, 40, DType::f16}, Sized{"LayerNormLSTM", 33, 17, DType::f32}}) {
    const Graph graph = graph_of(sized);
    const auto has_many_passes = [&](const RecurrenceTile& tile) {
      return passes_of(tile, sized.batch) > 2;
    };
    const Sequences sequences = {.steps = 4, .batch = sized.batch};
    for (const PassSet passes : {PassSet::all(), PassSet::all().without(Pass::Split)}) {
      // Of what is reduced, two blocks have the 33 elements of a row.
      CompileOptions some = options(sized.dtype, sized.cell == "LayerNormLSTM" ? 2 : 1);
      if (passes != some.passes && sized.dtype != DType::f32) continue;
      some.passes = passes;
      check(graph, with_tile(graph, some, sequences, has_many_passes), sequences, has_many_passes);
    }
  }
}

// ---- Sums in their warps ----

bool owns_sums(const RecurrenceTile& tile) {
  return tile.own_sums;
}

/// c[t] = sigmoid(F @ h[t-1]) * c[t-1] + W * x[t], h[t] = tanh(c[t] + R @ h[t-1] / 16), in 3 heads.
Graph heads() {
  Result<Graph> graph = parse_graph(R"(graph Heads(H) {
    input x: [H]
    param W: [H]
    param F: [3, 64, 64]
    param R: [3, 64, 64]
    state h: [H]
    state c: [H]
    %0 = param W : [H]
    %1 = input x : [H]
    %2 = mul %0, %1 : [H]
    %3 = state h @ 1 : [H]
    %4 = param F : [3, 64, 64]
    %5 = matmul %4, %3 : [H]
    %6 = sigmoid %5 : [H]
    %7 = state c @ 1 : [H]
    %8 = mul %6, %7 : [H]
    %9 = add %8, %2 : [H]
    %10 = param R : [3, 64, 64]
    %11 = matmul %10, %3 : [H]
    %12 = const 0.0625 : []
    %13 = mul %11, %12 : [H]
    %14 = add %9, %13 : [H]
    %15 = tanh %14 : [H]
    %16 = const 0 : []
    init h = %16
    init c = %16
    next h = %15
    next c = %9
    output h = %15
  })");
  RNNC_CHECK(graph.has_value(), "{}", graph.error().message);
  graph->bind({{"H", 192}});
  return *std::move(graph);
}

// Blocks that wait for no other.
TEST_F(EmulatedTiles, WarpsKeepTheirSums) {
  const Graph graph = heads();
  for (const DType dtype : {DType::bf16, DType::f16, DType::f32}) {
    for (const int64_t batch : {1, 3, 7, 33}) {
      const Sequences sequences = random_sequences(5, batch, {}, true, 4);
      check(graph, with_tile(graph, options(dtype, 12), sequences, owns_sums), sequences,
            owns_sums);
    }
  }
}

TEST_F(EmulatedTiles, WarpsThatKeepTheirSumsTakeRowsOfEveryNumber) {
  const Graph graph = graph_of({"GRU", 64, 0, DType::bf16});
  for (const int64_t rows : {1, 4, 5, 11, 16, 25}) {
    const Sequences sequences = {.steps = 5, .batch = rows};
    const Kind wanted = [](const RecurrenceTile& tile) {
      return tile.own_sums && tile.groups == 1;
    };
    check(graph, with_tile(graph, options(DType::bf16, 1), sequences, wanted), sequences, wanted);
  }
}

// Of elements that are no multiple of a warp's, in one phase and in two.
TEST_F(EmulatedTiles, WarpsThatKeepTheirSumsWaitForOtherBlocks) {
  for (const char* cell : {"LSTM", "GRUResetBefore", "LEM"}) {
    for (const int64_t batch : {3, 17}) {
      const Graph graph = graph_of({cell, 150, batch, DType::bf16});
      const Sequences sequences = random_sequences(5, batch, {.lengths = true}, true, 4);
      const Kind wanted = [](const RecurrenceTile& tile) {
        return tile.own_sums && tile.blocks > 1;
      };
      check(graph, with_tile(graph, options(DType::bf16, 6), sequences, wanted), sequences, wanted);
    }
  }
}

// ---- Clusters ----

bool is_in_clusters(const RecurrenceTile& tile) {
  return tile.clusters;
}

TEST_F(EmulatedTiles, ExchangeInClusters) {
  for (const Sized& sized :
       {Sized{"LSTM", 33, 1, DType::bf16}, Sized{"LSTM", 130, 7, DType::f16},
        Sized{"LSTM", 300, 3, DType::f32}, Sized{"GRU", 33, 17, DType::f32},
        Sized{"GRUResetBefore", 72, 3, DType::bf16}, Sized{"GRUResetBefore", 96, 25, DType::f32},
        Sized{"LEM", 33, 9, DType::f16}, Sized{"MGU", 64, 1, DType::f32}}) {
    const Graph graph = graph_of(sized);
    for (const PassSet passes : {PassSet::all(), PassSet::all().without(Pass::Split)}) {
      CompileOptions some = options(sized.dtype, 32);
      if (passes != some.passes && sized.dtype != DType::f32) continue;
      some.passes = passes;
      const Sequences sequences = random_sequences(7, sized.batch, {.lengths = true}, true, 5);
      check(graph, with_tile(graph, some, sequences, is_in_clusters), sequences, is_in_clusters);
    }
  }
}

// Shorter than there are places for steps, and of one step.
TEST_F(EmulatedTiles, ExchangeFewStepsInClusters) {
  const Graph graph = graph_of({"LSTM", 33, 3, DType::bf16});
  for (const int64_t steps : {1, 2, 3, 4, 9}) {
    const Sequences sequences = {.steps = steps, .batch = 3};
    CompileOptions some = options(DType::bf16, 32);
    some.chunk = 16;
    check(graph, with_tile(graph, some, sequences, is_in_clusters), sequences, is_in_clusters);
  }
}

TEST_F(EmulatedTiles, WarpsOfClustersKeepTheirSums) {
  const Graph graph = graph_of({"LSTM", 200, 5, DType::bf16});
  const Sequences sequences = random_sequences(9, 5, {.lengths = true, .resets = true}, true, 7);
  const Kind wanted = [](const RecurrenceTile& tile) { return tile.clusters && tile.own_sums; };
  check(graph, with_tile(graph, options(DType::bf16, 4), sequences, wanted), sequences, wanted);
}

// A state two steps ago, and more rows than are multiplied at once.
TEST_F(EmulatedTiles, DelaysInClusters) {
  const Graph graph = graph_of({"Qrnn", 64, 40, DType::f32});
  const Sequences sequences = random_sequences(13, 40, {.resets = true}, true, 11);
  const Kind wanted = [](const RecurrenceTile& tile) {
    return tile.clusters && passes_of(tile, 40) > 1;
  };
  check(graph, with_tile(graph, options(DType::f32, 4), sequences, wanted), sequences, wanted);
}

// A state two steps ago, in lengths and with resets.
TEST_F(EmulatedTiles, DelaysAndSequencesOfManyPasses) {
  for (const SequenceFeatures features :
       {SequenceFeatures{}, SequenceFeatures{.lengths = true, .resets = true}}) {
    const Graph graph = graph_of({"Qrnn", 33, 40, DType::f32});
    const Sequences sequences = random_sequences(7, 40, features, true, 1);
    const auto wanted = [&](const RecurrenceTile& tile) {
      return passes_of(tile, sequences.batch) > 2 && has_threads_left(tile);
    };
    check(graph, with_tile(graph, options(DType::f32, 1), sequences, wanted), sequences, wanted);
  }
}

}  // namespace
}  // namespace rnnc::test
