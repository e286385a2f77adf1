// What preparing makes of a device that has no room for a resident recurrence, of kernels that
// spill, of kernels compiled ahead of time, of tiles measured before, and which algorithms it takes
// for products, also where some are wrong under MPS.
#include <gtest/gtest.h>

#include "runtime/backend/backend.h"
#include "runtime/explain/explain_program.h"
#include "runtime/program/choose_plan.h"
#include "runtime/program/compile_ahead.h"
#include "tests/emulator/emulator.h"
#include "tests/gpu/device_arguments.h"
#include "tests/gpu/graphs.h"
#include "tests/runtime/temporary_directory.h"
#include "tests/support/cells/networks.h"
#include "tests/support/gradients/training_run.h"

namespace rnnc::test {
namespace {

constexpr int64_t kBatch = 4;
constexpr int64_t kSteps = 10;
constexpr PassSet kWithout = PassSet::all().without(Pass::Resident);

class EmulatedPreparing : public testing::Test {
 protected:
  ~EmulatedPreparing() override { emulator::settings() = settings_; }

  CompileOptions options() const {
    return {.dtype = DType::f32,
            .device = {.kind = Device::Kind::cuda, .index = 0},
            .cache_directory = directory_.path(),
            .chunk = 4,
            .passes = PassSet::all()};
  }
  Program prepare(const CompileOptions& options) const { return prepare(graph_, options); }
  static Program prepare(const Graph& graph, const CompileOptions& options) {
    Result<Program> program = Program::compile(graph, options);
    RNNC_CHECK(program.has_value(), "{}", program.error().message);
    const Status prepared = program->prepare(kBatch, kSteps);
    RNNC_CHECK(prepared.has_value(), "{}", prepared.error().message);
    return *std::move(program);
  }
  /// The tiles that it runs with.
  static std::vector<std::string> tiles(const Program& program) {
    return tiles_of(*program.prepared(kBatch, kSteps)->plan);
  }
  void expect_right(Program& program) const { expect_right(program, graph_); }
  static void expect_right(Program& program, const Graph& graph) {
    const InterpreterArgs args = arguments_for(graph, kSteps, kBatch, true);
    const DeviceArguments arguments(program, args);
    const Status ran = program.forward(arguments.on(nullptr));
    ASSERT_TRUE(ran.has_value()) << ran.error().message;
    EXPECT_LE(error_of_results(arguments.results(), interpret(graph, args)), 2e-5);
  }

  const emulator::Settings settings_ = emulator::settings();
  const TemporaryDirectory directory_;
  const KernelCache cache_{directory_.path()};
  const Graph graph_ = lstm_graph(24, 48);
};

TEST_F(EmulatedPreparing, RunsResidentWhereThereIsRoom) {
  Program program = prepare(options());
  EXPECT_EQ(tiles(program).size(), 1U);
  EXPECT_EQ(program.notes(), std::vector<std::string>{});
  expect_right(program);
}

TEST_F(EmulatedPreparing, SparesMultiprocessors) {
  const auto units = [&](int spare) {
    CompileOptions sparing = options();
    sparing.spare_multiprocessors = spare;
    return prepare(sparing).backend().machine().units;
  };
  EXPECT_EQ(units(0) - units(1), 1);
  CompileOptions none = options();
  none.spare_multiprocessors = emulator::settings().multiprocessors;
  EXPECT_NE(Program::compile(graph_, none).error().message.find("spare_multiprocessors must be"),
            std::string::npos);
}

TEST_F(EmulatedPreparing, ExplainsWhatRuns) {
  emulator::settings().most_blocks = 0;
  Program program = prepare(options());
  const explain::CallShape shape{kBatch, kSteps};
  const Result<std::string> text = explain::explain_program(program, shape, "text");
  ASSERT_TRUE(text) << text.error().message;
  EXPECT_NE(text->find(" passes " + kWithout.to_string() + "\n"), std::string::npos) << *text;
  const Result<std::string> json = explain::explain_program(program, shape, "json");
  ASSERT_TRUE(json) << json.error().message;
  EXPECT_NE(json->find("`LSTM` at batch 4 runs without resident weights"), std::string::npos);
  for (const auto& [form, part] :
       {std::pair("plan", "plan LSTM: f32, batch 4, chunk 4"), {"cuda", "__global__"}}) {
    const Result<std::string> code = explain::emit_program(program, shape, form);
    ASSERT_TRUE(code) << code.error().message;
    EXPECT_NE(code->find(part), std::string::npos) << form << ": " << code->substr(0, 1000);
  }
  const Result<std::string> assembly = explain::emit_program(program, shape, "asm");
  ASSERT_FALSE(assembly);
  EXPECT_EQ(assembly.error().message, "there is no asm of a program on cuda:0");
}

TEST_F(EmulatedPreparing, DoesWithoutWhereTheDeviceHasNoRoom) {
  emulator::settings().most_blocks = 0;
  Program program = prepare(options());
  EXPECT_EQ(tiles(program), std::vector<std::string>{});
  EXPECT_EQ(program.prepared(kBatch, kSteps)->passes, kWithout);
  ASSERT_EQ(program.notes().size(), 1U);
  const std::string note = program.notes()[0];
  EXPECT_TRUE(
      note.starts_with("`LSTM` at batch 4 runs without resident weights: its kernel needs "))
      << note;
  EXPECT_TRUE(note.ends_with(" blocks at once, and cuda:0 (Emulated GPU) has room for 0")) << note;
  expect_right(program);
}

TEST_F(EmulatedPreparing, DoesWithoutWhereALaunchFindsNoRoom) {
  emulator::settings().most_cooperative_blocks = 0;
  Program program = prepare(options());
  EXPECT_EQ(tiles(program), std::vector<std::string>{});
  ASSERT_EQ(program.notes().size(), 1U);
  const std::string note = program.notes()[0];
  EXPECT_TRUE(note.ends_with(" blocks at once, and the device has room for fewer")) << note;
  expect_right(program);
}

TEST_F(EmulatedPreparing, TakesTheNextTilesWhereKernelsSpill) {
  const std::vector<std::string> first = tiles(prepare(options()));
  emulator::settings().spilling_units = 1;
  Program program = prepare(options());
  const Result<PreparedPlan> prepared = program.prepared(kBatch, kSteps);
  EXPECT_GT(prepared->tile_rank + prepared->spare_registers, 0);
  EXPECT_NE(tiles(program), first);
  EXPECT_EQ(program.notes(), std::vector<std::string>{});
  expect_right(program);
}

TEST_F(EmulatedPreparing, DoesWithoutWhereAllKernelsSpill) {
  emulator::settings().spilling_units = 5;
  Program program = prepare(options());
  EXPECT_EQ(tiles(program), std::vector<std::string>{});
  EXPECT_EQ(program.notes(),
            std::vector<std::string>{"`LSTM` at batch 4 runs without resident weights: its kernel "
                                     "spills 64 bytes of each thread's registers"});
  expect_right(program);
}

TEST_F(EmulatedPreparing, AFewSpilledBytesAreNoReason) {
  emulator::settings().spilling_units = 4;
  emulator::settings().spilled_bytes = 8;
  EXPECT_EQ(prepare(options()).prepared(kBatch, kSteps)->tile_rank, 0);
}

// Where a strategy was asked for there is no other way.
TEST_F(EmulatedPreparing, ARefusedStrategyIsAnError) {
  const auto refusal = [&] {
    CompileOptions wanted = options();
    wanted.strategy = Strategy::Grid;
    Result<Program> program = Program::compile(graph_, wanted);
    RNNC_CHECK(program.has_value(), "{}", program.error().message);
    const Status prepared = program->prepare(kBatch, kSteps);
    return prepared ? "none" : prepared.error().message;
  };
  EXPECT_EQ(refusal(), "none");
  emulator::settings().spilling_units = 1;
  EXPECT_EQ(refusal(), "none");
  emulator::settings().spilling_units = 5;
  EXPECT_EQ(refusal(),
            "`LSTM` at batch 4 cannot run with strategy `grid`: its kernel spills 64 bytes of each "
            "thread's registers (leave the strategy out, and rnnc finds a way)");
  emulator::settings().spilling_units = 0;
  emulator::settings().most_blocks = 0;
  const std::string no_room = refusal();
  EXPECT_TRUE(
      no_room.starts_with("`LSTM` at batch 4 cannot run with strategy `grid`: its kernel needs "))
      << no_room;
}

// As when another process takes a part of the device.
TEST_F(EmulatedPreparing, RoomThatIsLostLaterIsAnError) {
  Program program = prepare(options());
  ASSERT_EQ(tiles(program).size(), 1U);
  emulator::settings().most_cooperative_blocks = 0;
  const DeviceArguments arguments(program, arguments_for(graph_, kSteps, kBatch, true));
  const Status ran = program.forward(arguments.on(nullptr));
  ASSERT_FALSE(ran.has_value());
  EXPECT_TRUE(ran.error().message.starts_with("a resident recurrence needs "))
      << ran.error().message;
  EXPECT_TRUE(ran.error().message.ends_with(
      " blocks on the GPU at once, which had room for them when the program was prepared and has "
      "not now; compiled anew, it will do without"))
      << ran.error().message;
  emulator::settings() = settings_;
  expect_right(program);
}

TEST_F(EmulatedPreparing, FindsWhatWasCompiledAhead) {
  const AheadTarget target{"sm_90", emulator::settings().multiprocessors};
  for (const PassSet passes : {PassSet::all(), kWithout}) {
    SCOPED_TRACE(passes.to_string());
    CompileOptions wanted = options();
    wanted.passes = passes;
    ASSERT_TRUE(cache_.clear());
    const Result<Planner> planner = Planner::make(graph_, wanted);
    ASSERT_TRUE(planner.has_value()) << planner.error().message;
    const Result<CompiledAhead> compiled =
        compile_ahead(*planner, {kBatch, kSteps, {}}, target, cache_);
    ASSERT_TRUE(compiled.has_value()) << compiled.error().message;
    EXPECT_FALSE(compiled->cached);
    ASSERT_EQ(cache_.usage()->entries, 3);  // and NVRTC's version, and what the graph became
    Program program = prepare(wanted);
    EXPECT_EQ(tiles(program).size(), passes == PassSet::all() ? 1U : 0U);
    EXPECT_EQ(cache_.usage()->entries, 3);  // nothing else was compiled
  }
}

TEST_F(EmulatedPreparing, TunesAndRemembers) {
  CompileOptions tuned = options();
  tuned.tune = true;
  Program program = prepare(tuned);
  EXPECT_EQ(program.notes(), std::vector<std::string>{});
  expect_right(program);
  const int64_t entries = cache_.usage()->entries;
  EXPECT_GE(entries, 1 + 1 + program.prepared(kBatch, kSteps)->tile_rank);  // kernels, a winner

  // Whatever was measured, what is remembered counts.
  const Program untuned = prepare(options());
  const Plan& first = *untuned.prepared(kBatch, kSteps)->plan;
  CompileOptions other = options();
  other.tile_rank = 1;
  const Program second = prepare(other);
  const std::string key = fmt::format("fastest plan on {}, strategy any\n{}",
                                      program.backend().identity(), to_string(first));
  ASSERT_TRUE(cache_.get(key));
  cache_.put(key, fmt::format("rank 1\n{}", tiles(second)[0]));
  Program remembered = prepare(tuned);
  EXPECT_EQ(remembered.prepared(kBatch, kSteps)->tile_rank, 1);
  EXPECT_EQ(tiles(remembered), tiles(second));
  expect_right(remembered);

  // What cannot be read is measured anew, and replaced.
  cache_.put(key, "no rank");
  prepare(tuned);
  EXPECT_NE(cache_.get(key), "no rank");
  EXPECT_EQ(cache_.usage()->entries, entries);
}

/// Each half of training is tuned for itself, whatever calls come with.
TEST_F(EmulatedPreparing, TunesAndRemembersTraining) {
  const auto train = [this](const CompileOptions& options, RunGradients& gradients) {
    Result<Program> program = Program::compile(graph_, options);
    RNNC_CHECK(program.has_value(), "{}", program.error().message);
    const TrainingArrays arrays = random_training(
        program->signature(),
        {.steps = kSteps, .batch = kBatch, .lengths = true, .resets = true, .given_states = true});
    Result<RunGradients> ran = Runner(*program).gradients(arrays.args, arrays.loss);
    RNNC_CHECK(ran.has_value(), "{}", ran.error().message);
    EXPECT_EQ(program->notes(), std::vector<std::string>{});
    gradients = *std::move(ran);
    return *std::move(program);
  };
  RunGradients own;
  const Program untuned = train(options(), own);
  const SequenceFeatures with = {.lengths = true, .resets = true};
  const TrainingPlans first = *untuned.training_plans(kBatch, kSteps, with);
  CompileOptions other = options();
  other.tile_rank = 1;
  RunGradients of_second;
  const Program second = train(other, of_second);
  const TrainingPlans seconds = *second.training_plans(kBatch, kSteps, with);
  ASSERT_NE(tiles_of(*seconds.backward.plan), tiles_of(*first.backward.plan));

  CompileOptions tuned = options();
  tuned.tune = true;
  RunGradients gradients;
  Program program = train(tuned, gradients);
  const auto key = [&](const PreparedPlan& half) {
    return fmt::format("fastest plan on {}, strategy any\n{}", program.backend().identity(),
                       to_string(*half.plan));
  };
  const auto entry = [](const PreparedPlan& half) {
    return fmt::format("rank 1\n{}", fmt::join(tiles_of(*half.plan), "\n"));
  };
  ASSERT_TRUE(cache_.get(key(first.forward)));
  ASSERT_TRUE(cache_.get(key(first.backward)));
  cache_.put(key(first.forward), entry(seconds.forward));
  cache_.put(key(first.backward), entry(seconds.backward));
  const Program remembered = train(tuned, gradients);
  EXPECT_EQ(remembered.training_plans(kBatch, kSteps, with)->forward.tile_rank, 1);
  EXPECT_EQ(remembered.training_plans(kBatch, kSteps, with)->backward.tile_rank, 1);
  EXPECT_EQ(find_difference(gradients, of_second), "");
}

TEST_F(EmulatedPreparing, LayersOfTooManyArraysAreSeveralLaunches) {
  constexpr size_t kLayers = 18;
  emulator::settings().multiprocessors = kLayers;
  const Graph graph = tower(std::vector<std::string>(kLayers, "Many"), 8);
  Program program = prepare(graph, options());
  EXPECT_EQ(tiles(program).size(), 2U);
  EXPECT_EQ(program.notes(),
            std::vector<std::string>{"`Tower` at batch 4 runs its 18 layers in several launches: "
                                     "the kernel of one would take 1206 arrays, and may take "
                                     "1000"});
  expect_right(program, graph);
}

// ---- Clusters ----

/// A recurrence that needs all multiprocessors.
class EmulatedClusters : public EmulatedPreparing {
 protected:
  /// The program's plan, its recurrence in clusters.
  static Plan in_clusters(const Program& program) {
    Plan plan = *program.prepared(kBatch, kSteps)->plan;
    for (Stage& stage : plan.stages) {
      if (!is_resident(stage)) continue;
      RecurrenceTile& tile = std::get<RecurrenceLaunch>(stage.launches[0]).tile;
      EXPECT_EQ(tile.blocks, 4);
      tile.clusters = true;
    }
    return plan;
  }
  static std::unique_ptr<Executable> prepare_clusters(Program& program) {
    Result<std::unique_ptr<Executable>> executable =
        program.backend().prepare(in_clusters(program));
    RNNC_CHECK(executable.has_value(), "{}", executable.error().message);
    return *std::move(executable);
  }

  const Graph large_ = lstm_graph(3, 192);
};

TEST_F(EmulatedClusters, AreLaunched) {
  Program program = prepare(large_, options());
  const std::unique_ptr<Executable> executable = prepare_clusters(program);
  ASSERT_EQ(executable->refusal(), "");
  const InterpreterArgs args = arguments_for(large_, kSteps, kBatch, true);
  const DeviceArguments arguments(program, args);
  const ForwardArgs forward = arguments.on(nullptr);
  const Call call = make_call(forward, forward.initial_states);
  const Status ran = executable->run(call, true);
  ASSERT_TRUE(ran.has_value()) << ran.error().message;
  EXPECT_LE(error_of_results(arguments.results(), interpret(large_, args)), 2e-5);

  emulator::settings().most_clusters = 0;
  const Status later = executable->run(call, true);
  ASSERT_FALSE(later.has_value());
  EXPECT_EQ(later.error().message,
            "a resident recurrence needs clusters of 4 blocks on the GPU at once, which had room "
            "for them when the program was prepared and has not now; compiled anew, it will do "
            "without");
}

TEST_F(EmulatedClusters, AreRefusedWhereTheyFindNoRoom) {
  Program program = prepare(large_, options());
  emulator::settings().most_clusters = 0;
  EXPECT_EQ(prepare_clusters(program)->refusal(),
            "its kernel needs clusters of 4 blocks, and the device has room for none");
  emulator::settings().multiprocessors = 3;
  emulator::settings().most_blocks = 1;
  EXPECT_EQ(prepare_clusters(program)->refusal(),
            "its kernel needs clusters of 4 blocks, and cuda:0 (Emulated GPU) has room for none");
}

// ---- Products ----

TEST_F(EmulatedPreparing, TakesAlgorithmsOfSmallTilesForShortSums) {
  emulator::settings().wrong_algorithms = 1;  // the favourite, which has large tiles
  const auto takes_another = [this](DType dtype, int64_t terms) {
    const Graph graph = lstm_graph(terms, 48);
    CompileOptions options = this->options();
    options.dtype = dtype;
    Program program = prepare(graph, options);
    const InterpreterArgs args = arguments_for(graph, kSteps, kBatch, true);
    const DeviceArguments arguments(program, args);
    const Status ran = program.forward(arguments.on(nullptr));
    RNNC_CHECK(ran.has_value(), "{}", ran.error().message);
    return error_of_results(arguments.results(), interpret(graph, args)) <= 3e-2;
  };
  EXPECT_TRUE(takes_another(DType::bf16, 128));
  EXPECT_TRUE(takes_another(DType::f16, 3072));
  EXPECT_FALSE(takes_another(DType::bf16, 64));
  EXPECT_FALSE(takes_another(DType::bf16, 3080));
  EXPECT_FALSE(takes_another(DType::f32, 128));
}

TEST_F(EmulatedPreparing, FindsAlgorithmsThatAreRightUnderMps) {
  emulator::settings().under_mps = true;
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    for (const PassSet passes : {PassSet::all(), kWithout}) {
      for (const int wrong : {0, 2, 3, 4}) {
        SCOPED_TRACE(fmt::format("{}, {} wrong", to_string(dtype), wrong));
        emulator::settings().wrong_algorithms = wrong;
        CompileOptions options = this->options();
        options.dtype = dtype;
        options.passes = passes;
        check_run(graph_, options, random_sequences(kSteps, kBatch, {}, true, 3),
                  dtype == DType::f32 ? 2e-5 : 3e-2);
      }
    }
  }
}

TEST_F(EmulatedPreparing, RefusesProductsThatAreWrongUnderMps) {
  emulator::settings().under_mps = true;
  emulator::settings().wrong_algorithms = 5;
  Result<Program> program = Program::compile(graph_, options());
  ASSERT_TRUE(program.has_value()) << program.error().message;
  const Status prepared = program->prepare(kBatch, kSteps);
  ASSERT_FALSE(prepared.has_value());
  EXPECT_EQ(prepared.error().message,
            "each of cuBLASLt's 5 algorithms for a f32 product [16, 24] @ [24, 192] gives wrong "
            "numbers on this GPU, which MPS shares among programs: another "
            "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE, or none, may help");
}

}  // namespace
}  // namespace rnnc::test
