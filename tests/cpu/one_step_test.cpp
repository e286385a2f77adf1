// Calls of one step on the CPU: what they read and write of states.
#include <gtest/gtest.h>

#include "tests/cpu/program_run.h"
#include "tests/support/cells/language_cells.h"
#include "tests/support/cells/networks.h"
#include "tests/support/one_step_calls.h"

namespace rnnc::test {
namespace {

void check_one_step(const Graph& graph, const OneStepShape& shape) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    SCOPED_TRACE(to_string(dtype));
    check_one_step_calls(graph, {.dtype = dtype, .threads = 2}, shape,
                         dtype == DType::f32 ? 2e-5 : 1e-13);
  }
}

class OneStepNetworks : public testing::TestWithParam<std::string> {};

TEST_P(OneStepNetworks, ReadAndWriteTheCallersStates) {
  // What runs in reverse goes over the call's steps alone.
  const int64_t calls = GetParam() == "Both" ? 1 : 4;
  for (const int64_t size : {6, 64}) {
    check_one_step(network(GetParam(), size), {.batch = 1, .calls = calls});
    check_one_step(network(GetParam(), size), {.batch = 3, .calls = calls});
  }
}

INSTANTIATE_TEST_SUITE_P(All, OneStepNetworks, testing::ValuesIn(networks()),
                         [](const auto& one) { return one.param; });

class OneStepCells : public testing::TestWithParam<std::string> {};

TEST_P(OneStepCells, ReadAndWriteTheCallersStates) {
  check_one_step(tower({GetParam()}, 20), {.batch = 2});
}

INSTANTIATE_TEST_SUITE_P(All, OneStepCells,
                         testing::Values("Dense", "Normed", "Gated", "Projected", "Update",
                                         "ResetBefore", "Elementwise"),
                         [](const auto& one) { return one.param; });

TEST(OneStepPrograms, HaveStatesOfEveryKind) {
  for (const std::string& name : language_cells()) {
    SCOPED_TRACE(name);
    check_one_step(language_cell(name, 7), {.batch = 2});
  }
}

}  // namespace
}  // namespace rnnc::test
