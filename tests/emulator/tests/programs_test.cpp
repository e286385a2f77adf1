// Shipped cells on the emulated GPU against the interpreter, with lengths and resets.
#include <gtest/gtest.h>

#include "tests/gpu/device_arguments.h"
#include "tests/gpu/graphs.h"
#include "tests/support/cells/golden_cases.h"
#include "tests/support/cells/sequence_cases.h"

namespace rnnc::test {
namespace {

class EmulatedCells : public testing::TestWithParam<const char*> {
 protected:
  static void check(DType dtype, bool allow_tf32, double tolerance) {
    GoldenCase golden;
    golden.cell = GetParam();
    golden.size.dims = {{"I", 11}, {"H", 17}};
    const Result<Graph> graph = golden_graph(golden);
    ASSERT_TRUE(graph.has_value()) << graph.error().message;
    const CompileOptions options = {.dtype = dtype,
                                    .device = {.kind = Device::Kind::cuda, .index = 0},
                                    .allow_tf32 = allow_tf32,
                                    .chunk = 4};
    for (const SequenceFeatures features :
         {SequenceFeatures{}, SequenceFeatures{.lengths = true, .resets = true}}) {
      check_run(*graph, options, random_sequences(11, 3, features, true, 1), tolerance);
    }
  }
};

TEST_P(EmulatedCells, F32) {
  check(DType::f32, false, 2e-5);
}
TEST_P(EmulatedCells, Tf32) {
  check(DType::f32, true, 1e-2);
}
TEST_P(EmulatedCells, Bf16) {
  check(DType::bf16, false, 3e-2);
}
TEST_P(EmulatedCells, F16) {
  check(DType::f16, false, 5e-3);
}

INSTANTIATE_TEST_SUITE_P(Shipped, EmulatedCells,
                         testing::Values("LSTM", "GRUResetBefore", "LayerNormLSTM", "IndRNN"),
                         [](const auto& cell) { return cell.param; });

// So wide that blocks copy weights in bulk.
TEST(EmulatedPrograms, WideLstm) {
  const Graph graph = lstm_graph(8, 1024);
  auto program = Program::compile(
      graph,
      {.dtype = DType::bf16, .device = {.kind = Device::Kind::cuda, .index = 0}, .chunk = 2});
  ASSERT_TRUE(program.has_value()) << program.error().message;
  const Status prepared = program->prepare(2, 3);
  ASSERT_TRUE(prepared.has_value()) << prepared.error().message;
  const InterpreterArgs args = rounded(arguments_for(graph, 3, 2, true), DType::bf16);
  const DeviceArguments arguments(*program, args);
  const Status ran = program->forward(arguments.on(nullptr));
  ASSERT_TRUE(ran.has_value()) << ran.error().message;
  EXPECT_LE(error_of_results(arguments.results(), interpret(graph, args)), 2e-2);
}

}  // namespace
}  // namespace rnnc::test
