// How many launches calls of one step are.
#include <gtest/gtest.h>

#include "runtime/backend/backend.h"
#include "tests/emulator/emulator.h"
#include "tests/gpu/device_arguments.h"
#include "tests/gpu/graphs.h"
#include "tests/support/cells/networks.h"

namespace rnnc::test {
namespace {

class EmulatedOneStep : public testing::Test {
 protected:
  enum class Finals : uint8_t { Apart, InPlace, Unwanted, Misaligned };

  /// Of a call whose params are those of the call before.
  static int64_t launches(const Graph& graph, DType dtype, bool given, Finals finals,
                          int64_t max_steps = 1, int64_t batch = 2) {
    Program program = Program::compile(graph, {.dtype = dtype,
                                               .device = {.kind = Device::Kind::cuda, .index = 0}})
                          .value();
    EXPECT_TRUE(program.prepare(batch, max_steps));
    InterpreterArgs args = rounded(arguments_for(graph, 1, batch, given), dtype);
    const DeviceArguments arguments(program, args, finals == Finals::Misaligned);
    ForwardArgs call = arguments.on(nullptr);
    EXPECT_TRUE(program.forward(call));
    EXPECT_TRUE(program.backend().synchronize(nullptr));
    emulator::take_launches();
    std::vector<void*> in_place;
    for (const void* state : call.initial_states) in_place.push_back(const_cast<void*>(state));
    if (finals == Finals::InPlace) call.final_states = in_place;
    if (finals == Finals::Unwanted) call.final_states = {};
    call.reuse_params = true;
    EXPECT_TRUE(program.forward(call));
    const int64_t count = emulator::take_launches();
    EXPECT_TRUE(program.backend().synchronize(nullptr));
    if (finals == Finals::Apart) {
      const double tolerance = dtype == DType::f32 ? 2e-5 : 2e-2;
      EXPECT_LE(error_of_results(arguments.results(), interpret(graph, args)), tolerance);
    }
    return count;
  }
};

TEST_F(EmulatedOneStep, OfARecurrenceIsOneLaunch) {
  const Graph lstm = lstm_graph(8, 64);
  EXPECT_EQ(launches(lstm, DType::f32, true, Finals::Apart), 1);
  EXPECT_EQ(launches(lstm, DType::f32, true, Finals::Unwanted), 1);
  EXPECT_EQ(launches(lstm, DType::f32, false, Finals::Apart), 1);
  EXPECT_EQ(launches(lstm, DType::f32, true, Finals::InPlace), 2) << "what is read is not written";
  EXPECT_EQ(launches(lstm, DType::f32, true, Finals::Misaligned), 3) << "all are copied";
  EXPECT_EQ(launches(lstm, DType::bf16, true, Finals::Apart), 1) << "h is rounded by the product";
}

/// Products of the input among them.
TEST_F(EmulatedOneStep, OfAnyCellIsOneLaunch) {
  for (const char* cell : {"Dense", "Gated", "Update", "ResetBefore", "Projected"}) {
    SCOPED_TRACE(cell);
    for (const int64_t batch : {1, 9}) {
      EXPECT_EQ(launches(tower({cell}, 48), DType::f32, true, Finals::Apart, 1, batch), 1);
      EXPECT_EQ(launches(tower({cell}, 48), DType::bf16, true, Finals::Apart, 1, batch), 1);
      EXPECT_EQ(launches(tower({cell}, 36), DType::f16, true, Finals::Apart, 1, batch), 1);
    }
  }
}

TEST_F(EmulatedOneStep, OfAStackIsAsFewAsCanBe) {
  EXPECT_EQ(launches(tower({"Gated", "Gated"}, 48), DType::f32, true, Finals::Apart), 2);
  EXPECT_EQ(launches(tower({"Gated", "Update", "Dense"}, 48), DType::f32, true, Finals::Apart), 2);
}

TEST_F(EmulatedOneStep, OfALoopIsOneLaunch) {
  const Graph loop = tower({"Elementwise"}, 16);
  EXPECT_EQ(launches(loop, DType::f32, true, Finals::Apart), 1);
  EXPECT_EQ(launches(loop, DType::f32, false, Finals::Apart), 1);
  EXPECT_EQ(launches(loop, DType::f32, true, Finals::InPlace), 2);
}

/// Then the cell's state is one that is carried on.
TEST_F(EmulatedOneStep, OfAPlanOfMoreStepsCopiesWhatIsCarried) {
  const Graph lstm = lstm_graph(8, 64);
  EXPECT_EQ(launches(lstm, DType::f32, true, Finals::Apart, 8), 3);
}

}  // namespace
}  // namespace rnnc::test
