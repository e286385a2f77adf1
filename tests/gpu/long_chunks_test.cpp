// Resident recurrences over more steps than inputs lie in shared memory for
// (ir/persistent/recurrence_inputs.h): the places of steps that have passed are taken again and
// again. Against the interpreter, with arrays that are aligned and such that are not, and the same
// bits from every call.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/gpu/device_arguments.h"
#include "tests/gpu/graphs.h"
#include "tests/support/cells/golden_cases.h"
#include "tests/support/cells/sequence_graphs.h"
#include "tests/support/reference/sequence_oracle.h"

namespace rnnc::test {
namespace {

constexpr int64_t kChunk = 29;
constexpr int64_t kSteps = 75;

struct Sized {
  std::string cell;
  DimBindings dims;
  int64_t batch;
  DType dtype;
  double tolerance;

  std::string name() const {
    return fmt::format("{}_H{}_B{}_{}", cell, dims.at("H"), batch, to_string(dtype));
  }
};
void PrintTo(const Sized& sized, std::ostream* out) {
  *out << sized.name();
}

class GpuLongChunks : public testing::TestWithParam<Sized> {
 protected:
  static Graph graph() {
    if (GetParam().cell == "Blocks") return sequence_graph("Blocks", GetParam().dims);
    GoldenCase sized;
    sized.cell = GetParam().cell;
    sized.size.dims = GetParam().dims;
    Result<Graph> graph = golden_graph(sized);
    RNNC_CHECK(graph.has_value(), "{}", graph.error().message);
    return *std::move(graph);
  }

  /// With weights of blocks that are as small as those of matrices: others are chaotic.
  static InterpreterArgs arguments(const Graph& graph, int64_t batch, DType dtype) {
    InterpreterArgs args = arguments_for(graph, kSteps, batch);
    for (size_t i = 0; i < args.params.size(); ++i) {
      const Shape& shape = graph.params[i].type.shape;
      if (shape.size() != 3) continue;
      const double scale = 1 / std::sqrt(static_cast<double>(*shape.back().constant()));
      for (double& value : args.params[i]) value *= scale;
    }
    return rounded(args, dtype);
  }

  void check(bool misaligned) const {
    const auto& [cell, dims, batch, dtype, tolerance] = GetParam();
    const Graph graph = this->graph();
    auto program = Program::compile(graph, {.dtype = dtype,
                                            .device = {.kind = Device::Kind::cuda, .index = 0},
                                            .chunk = kChunk,
                                            .passes = PassSet::all()});
    ASSERT_TRUE(program.has_value()) << program.error().message;
    const Status prepared = program->prepare(batch, kSteps);
    ASSERT_TRUE(prepared.has_value()) << prepared.error().message;
    const InterpreterArgs args = arguments(graph, batch, dtype);
    const InterpreterResult expected = interpret_sequences(graph, args, {}, {});
    const DeviceArguments on_device(*program, args, misaligned);
    std::vector<std::vector<std::byte>> bits;
    for (int turn = 0; turn < 3; ++turn) {
      const Status ran = program->forward(on_device.on(nullptr));
      ASSERT_TRUE(ran.has_value()) << ran.error().message;
      EXPECT_LE(error_of_results(on_device.results(), expected), tolerance);
      if (turn == 0) bits = on_device.result_bits();
      EXPECT_EQ(on_device.result_bits(), bits);
    }
  }
};

TEST_P(GpuLongChunks, OfAlignedArrays) {
  check(false);
}
TEST_P(GpuLongChunks, OfArraysAtOddAddresses) {
  check(true);
}

INSTANTIATE_TEST_SUITE_P(
    Cells, GpuLongChunks,
    testing::Values(Sized{"LSTM", {{"I", 3}, {"H", 37}}, 1, DType::f32, 2e-5},
                    Sized{"LSTM", {{"I", 5}, {"H", 64}}, 2, DType::bf16, 2e-2},
                    Sized{"LSTM", {{"I", 24}, {"H", 96}}, 4, DType::f16, 5e-3},
                    Sized{"LSTM", {{"I", 64}, {"H", 256}}, 16, DType::bf16, 2e-2},
                    Sized{"LSTM", {{"I", 24}, {"H", 300}}, 9, DType::f32, 2e-5},
                    Sized{"GRU", {{"I", 24}, {"H", 200}}, 16, DType::f16, 5e-3},
                    Sized{"GRUResetBefore", {{"I", 7}, {"H", 96}}, 7, DType::bf16, 2e-2},
                    Sized{"LayerNormLSTM", {{"I", 24}, {"H", 128}}, 9, DType::f32, 1e-4},
                    Sized{"sLSTM", {{"I", 24}, {"H", 128}, {"N", 2}}, 3, DType::bf16, 2e-2},
                    Sized{"Blocks", {{"I", 24}, {"H", 128}, {"N", 2}}, 3, DType::bf16, 2e-2},
                    Sized{"Blocks", {{"I", 24}, {"H", 74}, {"N", 2}}, 2, DType::f16, 5e-3},
                    Sized{"LEM", {{"I", 24}, {"H", 65}}, 5, DType::f32, 2e-5}),
    [](const auto& test) { return test.param.name(); });

}  // namespace
}  // namespace rnnc::test
