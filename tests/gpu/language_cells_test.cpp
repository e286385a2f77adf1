// What the language has of shapes and values, on the GPU against the interpreter.
#include <gtest/gtest.h>

#include "tests/gpu/device_arguments.h"
#include "tests/support/cells/language_cells.h"
#include "tests/support/cells/random_graph.h"
#include "tests/support/reference/sequence_oracle.h"

namespace rnnc::test {
namespace {

class GpuLanguageCells : public testing::TestWithParam<std::tuple<std::string, int64_t>> {};

TEST_P(GpuLanguageCells, AtOddSizes) {
  const auto& [name, size] = GetParam();
  const Graph graph = language_cell(name, size);
  for (const auto& [dtype, tolerance] :
       {std::pair(DType::f32, 2e-5), std::pair(DType::bf16, 3e-2)}) {
    auto program = Program::compile(
        graph, {.dtype = dtype, .device = {.kind = Device::Kind::cuda, .index = 0}, .chunk = 4});
    ASSERT_TRUE(program.has_value()) << program.error().message;
    const Status prepared = program->prepare(3, 6);
    ASSERT_TRUE(prepared.has_value()) << prepared.error().message;
    const InterpreterArgs args =
        rounded(random_args(graph, 6, 3, static_cast<uint64_t>(size), true), dtype);
    const DeviceArguments arguments(*program, args);
    const Status ran = program->forward(arguments.on(nullptr));
    ASSERT_TRUE(ran.has_value()) << ran.error().message;
    const Result<double> error = error_of_results(arguments.results(), interpret(graph, args));
    ASSERT_TRUE(error.has_value()) << error.error().message;
    EXPECT_LE(*error, tolerance) << to_string(dtype);
  }
}

INSTANTIATE_TEST_SUITE_P(All, GpuLanguageCells,
                         testing::Combine(testing::ValuesIn(language_cells()),
                                          testing::Values<int64_t>(1, 3, 7, 33, 300)),
                         [](const auto& one) {
                           return fmt::format("{}_{}", std::get<0>(one.param),
                                              std::get<1>(one.param));
                         });

}  // namespace
}  // namespace rnnc::test
