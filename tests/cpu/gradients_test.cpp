// Both halves of a derivative on the CPU, against the interpreter.
#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <tuple>

#include "runtime/backend/kernel_cache.h"
#include "runtime/program/program.h"
#include "runtime/program/run.h"
#include "tests/cpu/allocation_count.h"
#include "tests/support/cells/array_cells.h"
#include "tests/support/cells/language_cells.h"
#include "tests/support/cells/loop_cells.h"
#include "tests/support/cells/networks.h"
#include "tests/support/cells/random_graph.h"
#include "tests/support/gradients/half_check.h"
#include "tests/support/gradients/training_run.h"
#include "tests/support/kept_kernels.h"
#include "tests/support/reference/golden.h"
#include "tests/support/reference/plan_run.h"

namespace rnnc::test {
namespace {

/// Runs plans on the CPU with so many threads.
class CpuPlans {
 public:
  explicit CpuPlans(DType dtype, int threads)
      : cache_(kept_kernels()),
        backend_(*make_cpu_backend({.dtype = dtype, .threads = threads}, cache_)) {}

  Result<InterpreterResult> operator()(const Plan& plan, const InterpreterArgs& args,
                                       const SequenceArgs& sequences) {
    return run_plan(*backend_, plan, args, sequences);
  }

 private:
  KernelCache cache_;
  std::unique_ptr<Backend> backend_;
};

void check(const Graph& graph, const HalfCheck& check, int threads = 2) {
  CpuPlans cpu(check.dtype, threads);
  check_halves(graph, check, std::ref(cpu));
}

TEST(CpuGradients, RandomGraphs) {
  for (uint64_t seed = 0; seed < 24; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    check(random_graph(seed, {.far = seed % 4 == 3}),
          {.steps = static_cast<int64_t>(1 + seed % 9),
           .chunk = static_cast<int64_t>(1 + seed % 4),
           .seed = seed,
           .dtype = seed % 2 == 0 ? DType::f32 : DType::f64,
           .lengths = seed % 5 == 1,
           .resets = seed % 5 >= 3,
           .given_states = seed % 3 == 0});
  }
}

TEST(CpuGradients, LanguageCellsAndNetworksOfOddSizes) {
  uint64_t seed = 0;
  const auto check_all = [&](const std::string& name, const auto& make) {
    for (const int64_t size : {1, 7, 33}) {
      SCOPED_TRACE(fmt::format("{} of {}", name, size));
      ++seed;
      check(make(size), {.seed = seed,
                         .dtype = seed % 2 == 0 ? DType::f32 : DType::f64,
                         .lengths = seed % 2 == 1});
    }
  };
  for (const std::string& name : language_cells()) {
    check_all(name, [&](int64_t size) { return language_cell(name, size); });
  }
  for (const std::string& name : networks()) {
    check_all(name, [&](int64_t size) { return network(name, size); });
  }
}

/// Read in one place and in several, shorter and longer than sequences and chunks.
TEST(CpuGradients, Histories) {
  uint64_t seed = 0;
  for (const std::string cell : {"Dilated", "Skip", "Lags", "Echoes"}) {
    for (const int64_t steps : {7, 45}) {
      for (const unsigned kind : {0U, 1U, 2U, 3U, 4U, 5U, 6U, 7U}) {
        SCOPED_TRACE(fmt::format("{}, {} steps, {}", cell, steps, kind));
        ++seed;
        check(tower({cell, cell}, 9), {.steps = steps,
                                       .batch = 4,
                                       .chunk = static_cast<int64_t>(seed % 3 == 0 ? 40 : 4),
                                       .seed = seed,
                                       .dtype = seed % 3 == 1 ? DType::f64 : DType::f32,
                                       .lengths = (kind & 1) != 0,
                                       .resets = (kind & 2) != 0,
                                       .given_states = (kind & 4) != 0});
      }
    }
  }
}

TEST(CpuGradients, LoopsOverArrays) {
  for (uint64_t seed = 0; seed < 24; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}:\n{}", seed, random_array_cell(seed)));
    const int64_t sizes[] = {1, 5, 33, 130};
    check(random_array_graph(seed, 20 + static_cast<int64_t>(seed % 5), sizes[seed % 4]),
          {.steps = static_cast<int64_t>(1 + seed % 5),
           .chunk = static_cast<int64_t>(1 + seed % 4),
           .seed = seed,
           .dtype = seed % 3 == 0 ? DType::f32 : DType::f64,
           .lengths = seed % 5 == 1,
           .resets = seed % 5 >= 3,
           .given_states = seed % 3 == 1});
  }
}

TEST(CpuGradients, LoopsInLoops) {
  for (uint64_t seed = 0; seed < 24; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}:\n{}", seed, random_nest_cell(seed)));
    const int64_t sizes[] = {1, 5, 33, 130};
    const auto outer = static_cast<int64_t>(4 + seed % 5);
    check(random_nest_graph(seed, outer, static_cast<int64_t>(8 + seed % 3), sizes[seed % 4]),
          {.steps = static_cast<int64_t>(1 + seed % 5),
           .chunk = static_cast<int64_t>(1 + seed % 4),
           .seed = seed,
           .dtype = seed % 3 == 0 ? DType::f32 : DType::f64,
           .lengths = seed % 5 == 1,
           .resets = seed % 5 >= 3,
           .given_states = seed % 3 == 1});
  }
}

/// Gradients of params that scans add up, tile by tile.
TEST(CpuGradients, TotalsOfScans) {
  uint64_t seed = 0;
  for (const char* const cell : {"Floor", "Turning", "Weighted", "Biased"}) {
    for (const auto& [size, batch, steps, chunk] : {std::array<int64_t, 4>{1, 1, 1, 1},
                                                    {7, 3, 33, 100},
                                                    {3, 1, 2600, 1300},
                                                    {33, 2, 1030, 1030},
                                                    {300, 1, 70, 70}}) {
      SCOPED_TRACE(fmt::format("{} of {}, B {}, T {}, chunk {}", cell, size, batch, steps, chunk));
      ++seed;
      check(loop_cell(cell, size),
            {.steps = steps,
             .batch = batch,
             .chunk = chunk,
             .seed = seed,
             .dtype = seed % 2 == 0 ? DType::f32 : DType::f64,
             .lengths = seed % 3 == 1,
             .resets = seed % 3 == 2,
             .given_states = seed % 4 < 2,
             .strategy = Strategy::Scan},
            3);
    }
  }
}

TEST(CpuGradients, TotalsOfScansHaveTheSameBitsOnAnyNumberOfThreads) {
  const Graph graph = loop_cell("Turning", 5);
  std::optional<RunGradients> wanted;
  for (const int threads : {1, 2, 3, 8}) {
    Result<Program> program =
        Program::compile(graph, {.threads = threads, .strategy = Strategy::Scan});
    ASSERT_TRUE(program) << program.error().message;
    Runner runner(*program);
    const auto [args, loss] =
        random_training(program->signature(), {.steps = 9000, .batch = 2, .given_states = true});
    for (int time = 0; time < 2; ++time) {
      const Result<RunGradients> got = runner.gradients(args, loss);
      ASSERT_TRUE(got) << got.error().message;
      if (!wanted) wanted = *got;
      EXPECT_EQ(find_difference(*got, *wanted), "") << threads;
    }
  }
}

TEST(CpuGradients, TotalsOfScansKeepTheirDigitsOverLongSequences) {
  const auto gradients = [](DType dtype) {
    Result<Program> program = Program::compile(
        loop_cell("Floor", 3), {.dtype = dtype, .threads = 2, .strategy = Strategy::Scan});
    RNNC_CHECK(program.has_value(), "{}", program.error().message);
    const auto [args, loss] =
        random_training(program->signature(), {.steps = 16384, .batch = 1, .given_states = true});
    Result<RunGradients> result = Runner(*program).gradients(args, loss);
    RNNC_CHECK(result.has_value(), "{}", result.error().message);
    return *std::move(result);
  };
  const RunGradients exact = gradients(DType::f64);
  const RunGradients got = gradients(DType::f32);
  for (size_t i = 0; i < exact.params.size(); ++i) {
    EXPECT_LE(error_of(got.params[i].array.to_doubles(), exact.params[i].array.to_doubles()), 1e-5)
        << exact.params[i].name;
  }
}

/// An array for each, of so many rows, and where they lie.
struct Arrays {
  Arrays(const std::vector<ArrayInfo>& infos, int64_t rows) {
    for (const ArrayInfo& info : infos) {
      memory.emplace_back(static_cast<size_t>(rows * info.elements()), 0.25F);
      pointers.push_back(memory.back().data());
    }
  }
  std::vector<const void*> read() const { return {pointers.begin(), pointers.end()}; }

  std::vector<std::vector<float>> memory;
  std::vector<void*> pointers;
};

TEST(CpuGradients, CallsAllocateNothing) {
  constexpr int64_t kSteps = 9;
  constexpr int64_t kBatch = 16;
  Result<Program> program = Program::compile(network("Branches", 70), {.threads = 2, .chunk = 4});
  ASSERT_TRUE(program) << program.error().message;
  const std::vector<bool> given(program->signature().states.size(), true);
  ASSERT_TRUE(program->prepare_training(
      kBatch, kSteps, {.inputs = {true}, .initial_states = given, .given_states = given}));
  const TrainingSizes sizes = *program->training_sizes(kBatch, kSteps);
  const Signature& signature = program->signature();
  Arrays x(signature.inputs, kSteps * kBatch);
  Arrays dx(signature.inputs, kSteps * kBatch);
  Arrays params(signature.params, 1);
  Arrays gradients(signature.params, 1);
  Arrays y(signature.outputs, kSteps * kBatch);
  Arrays states(signature.states, kBatch);
  Arrays final_states(signature.states, kBatch);
  const auto inputs = x.read();
  const auto weights = params.read();
  const auto initial = states.read();
  std::vector<char> workspace(
      std::max(sizes.forward_workspace, sizes.backward_workspace + sizes.zeros));
  std::vector<char> reserve(sizes.reserve);
  const auto run = [&] {
    ASSERT_TRUE(program->forward({.steps = kSteps,
                                  .batch = kBatch,
                                  .inputs = inputs,
                                  .params = weights,
                                  .outputs = y.pointers,
                                  .initial_states = initial,
                                  .final_states = final_states.pointers,
                                  .workspace = workspace.data(),
                                  .workspace_bytes = workspace.size(),
                                  .reserve = reserve.data(),
                                  .reserve_bytes = reserve.size()}));
    ASSERT_TRUE(program->backward({.steps = kSteps,
                                   .batch = kBatch,
                                   .inputs = inputs,
                                   .params = weights,
                                   .param_gradients = gradients.pointers,
                                   .input_gradients = dx.pointers,
                                   .initial_state_gradients = states.pointers,
                                   .workspace = workspace.data(),
                                   .workspace_bytes = workspace.size(),
                                   .reserve = reserve.data(),
                                   .reserve_bytes = reserve.size()}));
  };
  run();
  const int64_t before = allocation_count();
  run();
  EXPECT_EQ(allocation_count(), before);
}

/// Sums over more rows than a block has, with more of everything than a thread takes at once.
TEST(CpuGradients, ManyRowsOfManyThreads) {
  const Graph graph = network("Stack", 150);
  for (const int threads : {1, 2, 3}) {
    SCOPED_TRACE(threads);
    check(graph, {.steps = 50, .batch = 30, .chunk = 20, .dtype = DType::f64}, threads);
  }
}

}  // namespace
}  // namespace rnnc::test
