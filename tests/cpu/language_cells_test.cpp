// What the language has of shapes and values, on the CPU against the interpreter.
#include <gtest/gtest.h>

#include "tests/cpu/program_run.h"
#include "tests/support/cells/language_cells.h"
#include "tests/support/cells/random_graph.h"

namespace rnnc::test {
namespace {

class LanguageCells : public testing::TestWithParam<std::string> {};

TEST_P(LanguageCells, AtOddSizes) {
  for (const int64_t size : {1, 3, 7, 33, 300}) {
    const Graph graph = language_cell(GetParam(), size);
    for (const DType dtype : {DType::f32, DType::f64}) {
      CpuProgram program(graph, {.dtype = dtype, .chunk = 4}, 3, 6);
      const InterpreterArgs args = random_args(graph, 6, 3, static_cast<uint64_t>(size), true);
      EXPECT_LE(worst_error(program.run(args), interpret(graph, args)),
                dtype == DType::f32 ? 2e-5 : 1e-13)
          << size << " in " << to_string(dtype);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, LanguageCells, testing::ValuesIn(language_cells()),
                         [](const auto& one) { return one.param; });

}  // namespace
}  // namespace rnnc::test
