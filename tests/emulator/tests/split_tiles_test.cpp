// Resident recurrences whose f32 products are in parts for tensor cores, on the emulated GPU.
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "tests/emulator/tests/emulated_tiles.h"
#include "tests/support/reference/deterministic.h"

namespace rnnc::test {
namespace {

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

}  // namespace
}  // namespace rnnc::test
