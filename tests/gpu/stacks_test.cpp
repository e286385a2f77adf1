// Layers whose recurrences run as one launch, each on blocks of its own: kinds of cells and
// heights, odd sizes, types, batches in groups, chunks, lengths and resets, other tiles than the
// best.
#include <gtest/gtest.h>

#include <filesystem>
#include <tuple>

#include "tests/gpu/device_arguments.h"
#include "tests/gpu/graphs.h"
#include "tests/support/cells/networks.h"
#include "tests/support/cells/sequence_cases.h"

namespace rnnc::test {
namespace {

CompileOptions on_gpu(DType dtype, int64_t chunk, int64_t tile_rank = 0) {
  return {.dtype = dtype,
          .device = {.kind = Device::Kind::cuda, .index = 0},
          .cache_directory = std::filesystem::path(testing::TempDir()) / "rnnc-gpu-stacks",
          .chunk = chunk,
          .passes = PassSet::all(),
          .tile_rank = tile_rank};
}

double tolerance(DType dtype) {
  if (dtype == DType::f32) return 3e-5;
  return dtype == DType::bf16 ? 3e-2 : 6e-3;
}

struct Tower {
  std::string name;
  std::vector<std::string> cells;
};

std::vector<Tower> towers() {
  return {{"Two", {"Gated", "Gated"}},
          {"Four", std::vector<std::string>(4, "Gated")},
          {"Eight", std::vector<std::string>(8, "Gated")},
          {"Updates", std::vector<std::string>(3, "Update")},
          {"ResetBefore", std::vector<std::string>(3, "ResetBefore")},
          {"Projected", std::vector<std::string>(3, "Projected")},
          {"Normed", std::vector<std::string>(3, "Normed")},
          {"Dilated", {"Gated", "Dilated", "Skip", "Dilated"}},
          {"All", {"Dense", "Gated", "ResetBefore", "Normed", "Projected", "Update"}}};
}

using StackCase = std::tuple<Tower, DType>;

class GpuStacks : public testing::TestWithParam<StackCase> {
 protected:
  Graph graph(int64_t size) const { return tower(std::get<0>(GetParam()).cells, size); }

  const DType dtype_ = std::get<1>(GetParam());
};

TEST_P(GpuStacks, OfOddSizesAndBatches) {
  struct Size {
    int64_t width, batch, steps;
  };
  for (const Size size : {Size{1, 1, 5}, Size{7, 3, 9}, Size{33, 1, 12}, Size{40, 16, 12},
                          Size{24, 7, 11}, Size{18, 17, 6}}) {
    SCOPED_TRACE(fmt::format("width {}, batch {}", size.width, size.batch));
    const Sequences sequences = random_sequences(size.steps, size.batch, {}, true, 3);
    check_run(graph(size.width), on_gpu(dtype_, 4), sequences, tolerance(dtype_));
  }
}

TEST_P(GpuStacks, OfLengthsAndResets) {
  for (const uint32_t kind : {1U, 2U, 3U}) {
    const SequenceFeatures features = {.lengths = (kind & 1) != 0, .resets = (kind & 2) != 0};
    check_run(graph(20), on_gpu(dtype_, 5), random_sequences(13, 5, features, kind != 2, kind),
              tolerance(dtype_));
  }
}

TEST_P(GpuStacks, WithOtherTiles) {
  for (const int64_t rank : {1, 2, 5, 11}) {
    SCOPED_TRACE(fmt::format("rank {}", rank));
    check_run(graph(24), on_gpu(dtype_, 6, rank), random_sequences(9, 9, {}, true, 5),
              tolerance(dtype_));
  }
}

TEST_P(GpuStacks, InPieces) {
  check_pieces(graph(16), on_gpu(dtype_, 2), tolerance(dtype_));
  check_pieces(graph(16), on_gpu(dtype_, 1), tolerance(dtype_));
}

INSTANTIATE_TEST_SUITE_P(Towers, GpuStacks,
                         testing::Combine(testing::ValuesIn(towers()),
                                          testing::Values(DType::f32, DType::bf16, DType::f16)),
                         [](const auto& test) {
                           return fmt::format("{}_{}", std::get<0>(test.param).name,
                                              to_string(std::get<1>(test.param)));
                         });

// More weights than one launch packs, at places that suit wide words and at others.
TEST(GpuStacks, OfManyWeights) {
  for (const int64_t size : {7, 8}) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      SCOPED_TRACE(fmt::format("{} of {}", to_string(dtype), size));
      const Graph graph = tower(std::vector<std::string>(10, "Gated"), size);
      EXPECT_GT(graph.params.size(), 10 * 8);
      check_run(graph, on_gpu(dtype, 4), random_sequences(6, 3, {}, true, 7),
                dtype == DType::f32 ? 1e-4 : 3e-2);
    }
  }
}

TEST(GpuStacksInTf32, OfSeveralHeights) {
  for (const size_t layers : {2U, 5U}) {
    CompileOptions options = on_gpu(DType::f32, 4);
    options.allow_tf32 = true;
    const Graph graph = tower(std::vector<std::string>(layers, "Gated"), 34);
    check_run(graph, options, random_sequences(10, 9, {}, true, 7), 1e-2);
  }
}

}  // namespace
}  // namespace rnnc::test
