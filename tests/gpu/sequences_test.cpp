// Lengths, resets, reversed layers, runs in pieces and the rest of the language on the GPU.
#include <gtest/gtest.h>

#include <filesystem>
#include <tuple>

#include "ir/graph/text.h"
#include "tests/support/cells/sequence_cases.h"
#include "tests/support/cells/sequence_graphs.h"

namespace rnnc::test {
namespace {

/// Step by step; recurrences with resident weights have their own tests. Kernels are kept for the
/// whole program: those of many shapes are the same.
CompileOptions on_gpu(DType dtype) {
  return {.dtype = dtype,
          .device = {.kind = Device::Kind::cuda, .index = 0},
          .cache_directory = std::filesystem::path(testing::TempDir()) / "rnnc-gpu-sequences",
          .chunk = 4,
          .passes = PassSet::all().without(Pass::Resident)};
}

/// Several times what rounding to the type alone costs these graphs.
double tolerance(DType dtype) {
  if (dtype == DType::f32) return 1e-5;
  return dtype == DType::bf16 ? 1e-2 : 2e-3;
}

const auto kDTypes = testing::Values(DType::f32, DType::bf16, DType::f16);

/// By name, in each type.
class GpuSequences : public testing::TestWithParam<std::tuple<std::string, DType>> {
 protected:
  const Graph graph_ = sequence_graph(std::get<0>(GetParam()));
  const CompileOptions options_ = on_gpu(std::get<1>(GetParam()));
  const double tolerance_ = tolerance(std::get<1>(GetParam()));
};

/// Of those that run forward throughout.
class GpuStreams : public GpuSequences {};

TEST_P(GpuSequences, MeanWhatEachSegmentByItselfDoes) {
  check_segments(graph_, options_, tolerance_);
}

TEST_P(GpuSequences, PaddingChangesNothing) {
  check_padding(graph_, options_);
}

TEST_P(GpuStreams, PiecesOfChunksGiveTheBitsOfOneRun) {
  check_pieces(graph_, options_, tolerance_);
}

TEST_P(GpuStreams, AnotherProgramGoesOnFromFinalStates) {
  check_continuation(graph_, options_);
}

TEST_P(GpuStreams, ReversedReadEachSequenceFromItsEnd) {
  check_reversal(graph_, options_, tolerance_);
}

TEST_P(GpuStreams, ReversedBeginAnewAfterEachReset) {
  check_resets_in_reverse(graph_, options_, tolerance_);
}

std::string case_name(const testing::TestParamInfo<std::tuple<std::string, DType>>& test) {
  const auto& [name, dtype] = test.param;
  return fmt::format("{}_{}", name, to_string(dtype));
}
INSTANTIATE_TEST_SUITE_P(Graphs, GpuSequences,
                         testing::Combine(testing::ValuesIn(sequence_graphs()), kDTypes),
                         case_name);
INSTANTIATE_TEST_SUITE_P(Graphs, GpuStreams,
                         testing::Combine(testing::ValuesIn(streaming_graphs()), kDTypes),
                         case_name);

/// Products of step_product.h and of cuBLASLt, with runs of one and of four elements along k.
void check_blocks(const CompileOptions& options, double tolerance) {
  struct Size {
    int64_t hidden, blocks;
  };
  for (const Size size : {Size{7, 1}, Size{15, 5}, Size{32, 4}, Size{64, 2}, Size{129, 3}}) {
    const Graph graph = sequence_graph("Blocks", {{"H", size.hidden}, {"N", size.blocks}});
    for (const int64_t batch : {1, 4, 16, 33}) {
      SCOPED_TRACE(fmt::format("H {}, N {}", size.hidden, size.blocks));
      check_run(graph, options, {.steps = 11, .batch = batch}, tolerance);
    }
  }
}

class GpuBlocks : public testing::TestWithParam<DType> {};

TEST_P(GpuBlocks, OfEverySizeAndBatch) {
  check_blocks(on_gpu(GetParam()), tolerance(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(All, GpuBlocks, kDTypes,
                         [](const auto& dtype) { return std::string(to_string(dtype.param)); });

TEST(GpuTf32, BlocksOfEverySizeAndBatch) {
  CompileOptions options = on_gpu(DType::f32);
  options.allow_tf32 = true;
  check_blocks(options, 1e-2);
}

// Long sequences: reversals and masks by many thread blocks, and a reversal by more elements than
// its grid has threads.
TEST(GpuReversal, OfLongSequences) {
  const Result<Graph> graph = parse_graph(R"(graph Decay() {
  input x: [200]
  state s: [200] reversed
  %0 = const 0.5 : []
  %1 = input x : [200]
  %2 = tanh %1 : [200]
  %3 = reverse %2 : [200]
  %4 = state s @ 1 : [200]
  %5 = mul %0, %4 : [200]
  %6 = add %5, %3 : [200]
  %7 = reverse %6 : [200]
  init s = %0
  next s = %6
  output y = %7
}
)");
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  for (const DType dtype : {DType::f32, DType::bf16}) {
    CompileOptions options = on_gpu(dtype);
    options.chunk = 64;
    const Sequences sequences = random_sequences(100, 100, {.lengths = true, .resets = true},
                                                 /*given_states=*/true, 3);
    check_run(*graph, options, sequences, tolerance(dtype));
  }
}

}  // namespace
}  // namespace rnnc::test
