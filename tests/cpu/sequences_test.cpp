// Lengths, resets, reversed layers and runs in pieces, on the CPU.
#include <gtest/gtest.h>

#include "tests/cpu/program_run.h"
#include "tests/support/cells/sequence_cases.h"
#include "tests/support/cells/sequence_graphs.h"
#include "tests/support/reference/sequence_oracle.h"

namespace rnnc::test {
namespace {

constexpr double kF32 = 2e-5;
constexpr double kF64 = 1e-12;

/// By name.
class CpuSequences : public testing::TestWithParam<std::string> {
 protected:
  const Graph graph_ = sequence_graph(GetParam());
};

/// Of those that run forward throughout.
class CpuStreams : public CpuSequences {};

TEST_P(CpuSequences, MeanWhatEachSegmentByItselfDoes) {
  check_segments(graph_, {.dtype = DType::f32, .threads = 2, .chunk = 4}, kF32);
  check_segments(graph_, {.dtype = DType::f64, .threads = 1}, kF64);
}

TEST_P(CpuSequences, PaddingChangesNothing) {
  check_padding(graph_, {});
}

TEST_P(CpuStreams, PiecesOfChunksGiveTheBitsOfOneRun) {
  check_pieces(graph_, {.threads = 2}, kF32);
}

TEST_P(CpuStreams, AnotherProgramGoesOnFromFinalStates) {
  check_continuation(graph_, {});
}

TEST_P(CpuStreams, ReversedReadEachSequenceFromItsEnd) {
  check_reversal(graph_, {.dtype = DType::f64}, kF64);
}

TEST_P(CpuStreams, ReversedBeginAnewAfterEachReset) {
  check_resets_in_reverse(graph_, {.dtype = DType::f64}, kF64);
}

TEST_P(CpuSequences, AllocateNothingInACall) {
  const SequenceFeatures features = {.lengths = true, .resets = true};
  const Sequences sequences = random_sequences(9, 4, features, /*given_states=*/true, 5);
  const InterpreterArgs args = sequence_arguments(graph_, sequences, 5);
  CpuProgram program(graph_, {.threads = 2, .chunk = 4}, 4, 9, features);
  const CallSequences given = {{sequences.lengths.begin(), sequences.lengths.end()},
                               sequences.resets};
  const InterpreterResult got = program.run(args, false, given);
  EXPECT_EQ(program.allocations_in_last_run(), 0);
  EXPECT_LE(
      error_of_results(got, interpret_sequences(graph_, args, sequences.lengths, sequences.resets)),
      kF32);
}

INSTANTIATE_TEST_SUITE_P(Graphs, CpuSequences, testing::ValuesIn(sequence_graphs()),
                         [](const auto& graph) { return graph.param; });
INSTANTIATE_TEST_SUITE_P(Graphs, CpuStreams, testing::ValuesIn(streaming_graphs()),
                         [](const auto& graph) { return graph.param; });

// Odd and even sizes of blocks, one block, and more sequences than a tile has rows.
TEST(CpuBlocks, OfEverySize) {
  for (const auto& [hidden, blocks] : {std::pair<int64_t, int64_t>(7, 1), {15, 5}, {64, 2}}) {
    const Graph graph = sequence_graph("Blocks", {{"H", hidden}, {"N", blocks}});
    for (const int64_t batch : {1, 33}) {
      SCOPED_TRACE(fmt::format("H {}, N {}", hidden, blocks));
      check_run(graph, {.chunk = 4}, {.steps = 9, .batch = batch}, kF32);
    }
  }
}

}  // namespace
}  // namespace rnnc::test
