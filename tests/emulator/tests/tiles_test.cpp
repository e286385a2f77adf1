// Resident recurrences on tiles of every kind, on the emulated GPU: with weights that find no room
// on the chip, of units that are no powers of two, with more laps of rows than are unrolled.
#include "tests/emulator/tests/emulated_tiles.h"

namespace rnnc::test {
namespace {

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
  CompileOptions streamed = options(DType::f32, 12);
  streamed.strategy = Strategy::Hybrid;
  check(graph, with_tile(graph, streamed, sequences, wanted), sequences, wanted);
}

TEST_F(EmulatedTiles, StreamWeightsOfSeveralRecurrences) {
  check(network("Stack", 352), options(DType::f32, 6), {.steps = 8, .batch = 1}, is_streamed);
}

// ---- Products of different lengths ----

/// Two states of different lengths, each made of both.
Graph coupled(int64_t first, int64_t second) {
  return cell_of("Coupled", R"(cell Coupled[G, H](x: [H]) -> h {
  state g: [G]
  state h: [H]
  param A: [G, G]
  param B: [G, H]
  param C: [H, G]
  param D: [H, H]
  g[t] = tanh(A @ g[t-1] + B @ h[t-1])
  h[t] = tanh(x[t] + C @ g[t-1] + D @ h[t-1])
}
)",
                 {{"G", first}, {"H", second}});
}

// Exact ones have left operands in shared memory, each warp its own, one product after the other.
TEST_F(EmulatedTiles, ExactProductsOfDifferentLengths) {
  for (const auto& [first, second] : {std::pair(20, 600), std::pair(600, 20)}) {
    for (const int64_t batch : {1, 5}) {
      CompileOptions exact = options(DType::f32, 16);
      exact.passes = exact.passes.without(Pass::Split);
      check(coupled(first, second), exact, {.steps = batch == 1 ? 5 : 40, .batch = batch},
            [](const RecurrenceTile& tile) { return tile.warps > 1; });
    }
  }
}

// ---- Many rows at once ----

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
  return cell_of("Reducing", text, {{"H", hidden}});
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

// ---- Units that are no powers of two, and many laps ----

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

TEST_F(EmulatedTiles, ManyLapsCarryInSharedMemory) {
  for (const Sized& sized :
       {Sized{"LSTM", 33, 40, DType::f32}, Sized{"GRU", 7, 40, DType::bf16},
        Sized{"GRUResetBefore", 96, 25, DType::f32}, Sized{"LEM", 33, 40, DType::f32},
        Sized{"LEM", 7, 40, DType::f16}, Sized{"LayerNormLSTM", 33, 17, DType::f32}}) {
    const Graph graph = graph_of(sized);
    const auto has_many_laps = [&](const RecurrenceTile& tile) {
      return laps_of(tile, sized.batch) > 2;
    };
    const Sequences sequences = {.steps = 4, .batch = sized.batch};
    for (const PassSet passes : {PassSet::all(), PassSet::all().without(Pass::Split)}) {
      // Of what is reduced, two blocks have the 33 elements of a row. Launches would be faster.
      const bool reduces = sized.cell == "LayerNormLSTM";
      CompileOptions some = options(sized.dtype, reduces ? 2 : 1);
      some.strategy = reduces ? Strategy::Grid : Strategy::Block;
      if (passes != some.passes && sized.dtype != DType::f32) continue;
      some.passes = passes;
      check(graph, with_tile(graph, some, sequences, has_many_laps), sequences, has_many_laps);
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
    return tile.clusters && laps_of(tile, 40) > 1;
  };
  check(graph, with_tile(graph, options(DType::f32, 4), sequences, wanted), sequences, wanted);
}

// A state two steps ago, in lengths and with resets.
TEST_F(EmulatedTiles, DelaysAndSequencesOfManyLaps) {
  for (const SequenceFeatures features :
       {SequenceFeatures{}, SequenceFeatures{.lengths = true, .resets = true}}) {
    const Graph graph = graph_of({"Qrnn", 33, 40, DType::f32});
    const Sequences sequences = random_sequences(7, 40, features, true, 1);
    const auto wanted = [&](const RecurrenceTile& tile) {
      return laps_of(tile, sequences.batch) > 2 && has_threads_left(tile);
    };
    check(graph, with_tile(graph, options(DType::f32, 1), sequences, wanted), sequences, wanted);
  }
}

}  // namespace
}  // namespace rnnc::test
