// Resident recurrences whose blocks share the k of products, on the emulated GPU: two and four of
// them, of every engine, with elements that their clusters do not divide, in several phases, groups,
// laps and sides, with reductions, gathers and streamed weights.
#include "tests/emulator/tests/emulated_tiles.h"

namespace rnnc::test {
namespace {

Kind shared_by(int64_t blocks) {
  return [blocks](const RecurrenceTile& tile) { return tile.k_blocks == blocks; };
}

class EmulatedSplitK : public EmulatedTiles {
 protected:
  static CompileOptions shared(DType dtype, int multiprocessors) {
    CompileOptions some = options(dtype, multiprocessors);
    some.strategy = Strategy::SplitK;
    return some;
  }
  static void check_shared(const Graph& graph, const CompileOptions& options,
                           const Sequences& sequences, const Kind& kind) {
    check(graph, with_tile(graph, options, sequences, kind), sequences, kind);
  }
};

TEST_F(EmulatedSplitK, OfEveryEngine) {
  for (const Sized& sized : {Sized{"LSTM", 33, 1, DType::bf16}, Sized{"LSTM", 130, 7, DType::f16},
                             Sized{"LSTM", 100, 3, DType::f32}, Sized{"GRU", 33, 17, DType::f32},
                             Sized{"GRUResetBefore", 72, 3, DType::bf16},
                             Sized{"LEM", 33, 9, DType::f16}, Sized{"LSTM", 300, 1, DType::f32}}) {
    const Graph graph = graph_of(sized);
    const Sequences sequences =
        random_sequences(7, sized.batch, {.lengths = true, .resets = true}, true, 5);
    check_shared(graph, shared(sized.dtype, 24), sequences, shared_by(2));
  }
}

// So few multiprocessors that one cluster of four is among the best tiles. (In bf16: WithReductions.)
TEST_F(EmulatedSplitK, ByFourBlocks) {
  for (const Sized& sized :
       {Sized{"LSTM", 200, 1, DType::f32}, Sized{"GRUResetBefore", 220, 2, DType::f32},
        Sized{"GRU", 190, 9, DType::f32}}) {
    const Sequences sequences = random_sequences(5, sized.batch, {.lengths = true}, true, 5);
    check_shared(graph_of(sized), shared(sized.dtype, 5), sequences, shared_by(4));
  }
}

TEST_F(EmulatedSplitK, OfProductsInTf32AndOfSplitOnes) {
  const Graph graph = graph_of({"LSTM", 52, 9, DType::f32});
  CompileOptions tf32 = shared(DType::f32, 24);
  tf32.allow_tf32 = true;
  const Sequences sequences = {.steps = 5, .batch = 9};
  // TF32 has ten bits, as f16 has.
  Program program = prepare(graph, with_tile(graph, tf32, sequences, shared_by(2)), sequences);
  EXPECT_EQ(tile_of(program, sequences).k_blocks, 2);
  const InterpreterArgs args = rounded(arguments_for(graph, 5, 9, true), DType::f32);
  const DeviceArguments arguments(program, args, false, sequences);
  ASSERT_TRUE(program.forward(arguments.on(nullptr)));
  EXPECT_LE(error_of_results(arguments.results(), interpret_sequences(graph, args, {}, {})), 5e-3);

  check_shared(graph, shared(DType::f32, 24), sequences,
               [](const RecurrenceTile& tile) { return tile.k_blocks == 2 && tile.split; });
}

TEST_F(EmulatedSplitK, InTwoLapsAndInMany) {
  for (const auto& [batch, laps] : {std::pair<int64_t, int64_t>{20, 2}, {40, 3}}) {
    const Graph graph = graph_of({"LSTM", 250, batch, DType::bf16});
    const Sequences sequences = random_sequences(5, batch, {.lengths = true}, true, 3);
    check_shared(graph, shared(DType::bf16, 4), sequences, [&](const RecurrenceTile& tile) {
      return tile.k_blocks > 1 && laps_of(tile, batch) == laps;
    });
  }
}

// Of the last group the last lap has no rows: its blocks do not wait for each other then.
TEST_F(EmulatedSplitK, InLapsWithoutRows) {
  const Graph graph = graph_of({"GRU", 290, 17, DType::bf16});
  const Sequences sequences = {.steps = 9, .batch = 17};
  check_shared(graph, shared(DType::bf16, 8), sequences, [](const RecurrenceTile& tile) {
    return tile.k_blocks > 1 && tile.groups == 2 && laps_of(tile, 17) == 2;
  });
}

// The last group has fewer rows.
TEST_F(EmulatedSplitK, InGroupsOfUnequalRows) {
  const Graph graph = graph_of({"GRU", 290, 19, DType::bf16});
  const Sequences sequences = {.steps = 6, .batch = 19};
  check_shared(graph, shared(DType::bf16, 32), sequences,
               [](const RecurrenceTile& tile) { return tile.k_blocks > 1 && tile.groups == 2; });
}

TEST_F(EmulatedSplitK, WithReductions) {
  const Graph graph = graph_of({"LayerNormLSTM", 64, 5, DType::f32});
  const Sequences sequences = random_sequences(6, 5, {.resets = true}, true, 3);
  check_shared(graph, shared(DType::f32, 24), sequences, shared_by(2));
  check_shared(graph_of({"LayerNormLSTM", 128, 5, DType::bf16}), shared(DType::bf16, 5), sequences,
               shared_by(4));
}

TEST_F(EmulatedSplitK, WithGathers) {
  const Graph graph = cell_of("Gathering", R"(cell Gathering[H](x: [H]) -> h {
  state h: [H]
  param R: [H, H]
  param e: [H]
  h[t] = tanh(x[t] + R @ h[t-1] + h[t-1][0] * dot(e, h[t-1]))
}
)",
                              {{"H", 48}});
  check_shared(graph, shared(DType::bf16, 16), {.steps = 6, .batch = 5}, shared_by(2));
}

// Of a block-diagonal weight, whose blocks are no multiple of a cluster's elements.
TEST_F(EmulatedSplitK, OfSegments) {
  Result<Graph> graph = parse_graph(R"(graph Heads(H) {
    input x: [H]
    param R: [3, 20, 20]
    state h: [H]
    %0 = input x : [H]
    %1 = param R : [3, 20, 20]
    %2 = state h @ 1 : [H]
    %3 = matmul %1, %2 : [H]
    %4 = add %0, %3 : [H]
    %5 = tanh %4 : [H]
    %6 = const 0 : []
    init h = %6
    next h = %5
    output h = %5
  })");
  ASSERT_TRUE(graph) << graph.error().message;
  graph->bind({{"H", 60}});
  for (const int64_t batch : {1, 7}) {
    check_shared(*graph, shared(DType::f32, 32), {.steps = 5, .batch = batch}, shared_by(2));
  }
}

TEST_F(EmulatedSplitK, OfStackedLayers) {
  const Graph graph = network("Stack", 112);
  CompileOptions stacked = options(DType::f32, 6);
  stacked.strategy = Strategy::Stacked;
  const Sequences sequences = {.steps = 7, .batch = 3};
  check_shared(graph, stacked, sequences, [](const RecurrenceTile& tile) {
    return tile.k_blocks == 2 && tile.sides.size() > 1;
  });
}

}  // namespace
}  // namespace rnnc::test
