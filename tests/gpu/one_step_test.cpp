// Calls of one step on a GPU: what they read and write of states.
#include <gtest/gtest.h>

#include "tests/support/cells/language_cells.h"
#include "tests/support/cells/networks.h"
#include "tests/support/one_step_calls.h"

namespace rnnc::test {
namespace {

CompileOptions on_gpu(DType dtype, const PassSet& passes = PassSet::all()) {
  return {.dtype = dtype, .device = {.kind = Device::Kind::cuda, .index = 0}, .passes = passes};
}

double tolerance(DType dtype) {
  return dtype == DType::f32 ? 2e-5 : dtype == DType::f16 ? 5e-3 : 3e-2;
}

class GpuOneStepNetworks : public testing::TestWithParam<std::string> {
 protected:
  static void check(const PassSet& passes) {
    // What runs in reverse goes over the call's steps alone.
    const int64_t calls = GetParam() == "Both" ? 1 : 3;
    for (const DType dtype : {DType::f32, DType::bf16}) {
      SCOPED_TRACE(to_string(dtype));
      check_one_step_calls(network(GetParam(), 64), on_gpu(dtype, passes),
                           {.batch = 2, .calls = calls}, tolerance(dtype));
    }
  }
};

TEST_P(GpuOneStepNetworks, OnTheChip) {
  check(PassSet::all());
}
/// Whose launches are replayed.
TEST_P(GpuOneStepNetworks, LaunchByLaunch) {
  check(PassSet::all().without(Pass::Resident));
}

INSTANTIATE_TEST_SUITE_P(All, GpuOneStepNetworks, testing::ValuesIn(networks()),
                         [](const auto& one) { return one.param; });

class GpuOneStepCells : public testing::TestWithParam<std::string> {};

TEST_P(GpuOneStepCells, ReadAndWriteTheCallersStates) {
  for (const DType dtype : {DType::f32, DType::f16}) {
    SCOPED_TRACE(to_string(dtype));
    for (const int64_t size : {64, 20}) {
      check_one_step_calls(tower({GetParam()}, size), on_gpu(dtype), {.batch = 1, .calls = 3},
                           tolerance(dtype));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, GpuOneStepCells,
                         testing::Values("Dense", "Normed", "Gated", "Projected", "Update",
                                         "ResetBefore", "Elementwise"),
                         [](const auto& one) { return one.param; });

TEST(GpuOneStepPrograms, HaveStatesOfEveryKind) {
  for (const std::string& name : language_cells()) {
    SCOPED_TRACE(name);
    check_one_step_calls(language_cell(name, 7), on_gpu(DType::f32), {.batch = 2, .calls = 3},
                         tolerance(DType::f32));
  }
}

}  // namespace
}  // namespace rnnc::test
