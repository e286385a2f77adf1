// Runs take numbers below the smallest normal one for zeros, on every thread, and leave the caller's
// floating-point state alone.
#include "runtime/cpu/flushed_subnormals.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cfenv>
#include <cmath>
#include <vector>

#include "runtime/cpu/thread_pool.h"
#include "tests/cpu/program_run.h"
#include "tests/support/cells/loop_cells.h"
#include "tests/support/cells/random_graph.h"

namespace rnnc::test {
namespace {

/// On this thread, whatever the compiler may know.
double product(double a, double b) {
  volatile double left = a;
  volatile double right = b;
  return left * right;
}

constexpr double kSmallest = std::numeric_limits<double>::min();

TEST(FlushedSubnormals, EndWithTheirScope) {
  EXPECT_GT(product(kSmallest, 0.5), 0);
  {
    const cpu::FlushedSubnormals flushed;
    EXPECT_EQ(product(kSmallest, 0.5), 0);
    {
      const cpu::FlushedSubnormals within;
      EXPECT_EQ(product(kSmallest / 2, 2), 0);
    }
    EXPECT_EQ(product(kSmallest, 0.5), 0);
  }
  EXPECT_GT(product(kSmallest, 0.5), 0);
}

TEST(FlushedSubnormals, OfAPoolAreThoseOfItsThreadsAlone) {
  cpu::ThreadPool pool(3);
  std::vector<double> products(1000);
  std::vector<int> threads(products.size());
  pool.run(std::ssize(products), [&](int64_t unit, int thread) {
    products[unit] = product(kSmallest, 0.5);
    threads[unit] = thread;
  });
  for (size_t unit = 0; unit < products.size(); ++unit) {
    EXPECT_EQ(products[unit] > 0, threads[unit] == 0) << unit;
  }
}

/// h = h / 2 + n, with subnormal inputs now and then and states that decay below them.
InterpreterArgs small_args(const Graph& graph, DType dtype, int64_t steps, int64_t batch) {
  InterpreterArgs args = random_args(graph, steps, batch, 1, true);
  std::ranges::fill(args.inputs[0], 0.5);
  const double subnormal = dtype == DType::f64 ? 1e-310 : 1e-39;
  for (size_t i = 0; i < args.inputs[1].size(); ++i) {
    args.inputs[1][i] = i % 7 == 0 ? subnormal : 0;
  }
  return args;
}

void expect_flushed(const InterpreterResult& got, const InterpreterResult& wanted, DType dtype) {
  const double least = dtype == DType::f64 ? kSmallest : double{std::numeric_limits<float>::min()};
  for (size_t i = 0; i < wanted.outputs[0].size(); ++i) {
    const double value = got.outputs[0][i];
    ASSERT_TRUE(value == 0 || std::abs(value) >= least) << i << ": " << value;
    ASSERT_NEAR(value, wanted.outputs[0][i], 1e-6 * std::abs(wanted.outputs[0][i]) + 8 * least);
  }
}

TEST(FlushedSubnormals, AreZerosInLoopsAndScans) {
  constexpr int64_t kSteps = 3000;
  const Graph graph = loop_cell("Free", 20);
  for (const DType dtype : {DType::f32, DType::f64}) {
    const InterpreterArgs args = small_args(graph, dtype, kSteps, 2);
    const InterpreterResult wanted = interpret(graph, args);
    for (const Strategy strategy : {Strategy::Loop, Strategy::Scan}) {
      for (const int threads : {1, 3}) {
        SCOPED_TRACE(fmt::format("{}, {} in {}", threads, to_string(strategy), to_string(dtype)));
        CpuProgram program(graph, {.dtype = dtype, .threads = threads, .strategy = strategy}, 2,
                           kSteps);
        expect_flushed(program.run(args), wanted, dtype);
      }
    }
  }
}

TEST(FlushedSubnormals, LeaveTheCallersStateAlone) {
  const Graph graph = loop_cell("Free", 20);
  const InterpreterArgs args = small_args(graph, DType::f32, 200, 2);
  CpuProgram program(graph, {.threads = 2}, 2, 200);
  program.run(args);
  EXPECT_GT(product(kSmallest, 0.5), 0);
  EXPECT_GT(product(kSmallest / 2, 2), 0);
  // Neither does it end what the caller asked for.
  const cpu::FlushedSubnormals flushed;
  ASSERT_EQ(std::fesetround(FE_UPWARD), 0);
  program.run(args);
  const int rounding = std::fegetround();
  std::fesetround(FE_TONEAREST);
  EXPECT_EQ(rounding, FE_UPWARD);
  EXPECT_EQ(product(kSmallest, 0.5), 0);
}

}  // namespace
}  // namespace rnnc::test
