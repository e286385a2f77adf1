/// What training calls refuse, on the CPU.
#ifdef RNNC_WITH_CPU
#include "runtime/program/run.h"
#include "tests/runtime/training_calls.h"

namespace rnnc::test {
namespace {

TEST(TrainingErrors, OutputsThatBackwardReads) {
  TrainingOptions options;
  options.outputs = true;
  Training training(options);
  ASSERT_TRUE(training.program().forward(training.forward_args()));
  BackwardArgs args = training.backward_args();
  args.outputs = {};
  EXPECT_EQ(training.problem(args), "2 output pointers expected, got 0");
  std::vector<const void*> outputs = {nullptr, nullptr};
  args.outputs = outputs;
  EXPECT_EQ(training.problem(args), "output `h` is null");
  outputs = {reinterpret_cast<const void*>(0x1004), reinterpret_cast<const void*>(0x1000)};
  EXPECT_EQ(training.problem(args), "output `h` is not aligned to its 8-byte elements");
}

TEST(TrainingErrors, BackwardWithoutAForwardCall) {
  Training training(kAll);
  EXPECT_EQ(training.problem(training.backward_args()),
            "no forward call of `Elman` at batch 2 has filled this reserve over 6 steps since the "
            "shape was prepared for training");
  ASSERT_TRUE(training.program().forward(training.forward_args(0, 5)));
  EXPECT_EQ(training.problem(training.backward_args()),
            "no forward call of `Elman` at batch 2 has filled this reserve over 6 steps since the "
            "shape was prepared for training");
  ASSERT_TRUE(training.program().forward(training.forward_args()));
  ASSERT_TRUE(training.program().prepare_training(
      kBatch, kSteps, {.params = {true, true}, .given_states = {true}}));
  BackwardArgs args = training.backward_args();
  args.input_gradients = {};
  args.initial_state_gradients = {};
  EXPECT_EQ(training.problem(args),
            "no forward call of `Elman` at batch 2 has filled this reserve over 6 steps since the "
            "shape was prepared for training");
}

TEST(TrainingErrors, OfAnotherProgramsReserve) {
  Training one(kAll);
  Training other(kAll);
  ASSERT_TRUE(one.program().forward(one.forward_args()));
  BackwardArgs args = other.backward_args();
  args.reserve = one.reserve_.data();
  EXPECT_NE(other.problem(args).find("has filled this reserve"), std::string::npos);
}

TEST(TrainingErrors, ShapesThatAreNotPrepared) {
  Training training(kAll);
  BackwardArgs args = training.backward_args();
  args.batch = 3;
  EXPECT_EQ(training.problem(args),
            "batch 3 is not prepared for training: prepare training of 6 steps of it first");
  args = training.backward_args();
  args.steps = 7;
  EXPECT_EQ(
      training.problem(args),
      "batch 2 is prepared for training up to 6 steps, not 7: prepare training of 7 steps of it "
      "first");
  const std::vector<uint8_t> reset(kSteps * kBatch);
  ForwardArgs forward = training.forward_args();
  forward.reset = reset.data();
  const Status status = training.program().forward(forward);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message,
            "batch 2 with resets is not prepared for training: prepare training of 6 steps of it "
            "first");
}

TEST(TrainingErrors, GradientsThatWereNotPreparedFor) {
  Training training({.params = {true, false}, .given_states = {true}});
  ASSERT_TRUE(training.program().forward(training.forward_args()));
  BackwardArgs args = training.backward_args();
  EXPECT_EQ(training.problem(args),
            "the gradient of param `R` is given, but not what the shape was prepared for");
  const std::vector<void*> none = {nullptr, nullptr};
  args.param_gradients = none;
  EXPECT_EQ(training.problem(args),
            "the gradient of param `W` is null, but what the shape was prepared for");
  args.param_gradients = std::span(none).first(1);
  EXPECT_EQ(training.problem(args), "gradients of params: none or 2 pointers expected, got 1");
}

TEST(TrainingErrors, GradientsOffTheirElements) {
  Training training(kAll);
  ASSERT_TRUE(training.program().forward(training.forward_args()));
  BackwardArgs args = training.backward_args();
  const std::vector<void*> off = {reinterpret_cast<char*>(training.dw.data()) + 1,
                                  training.dr.data()};
  args.param_gradients = off;
  EXPECT_EQ(training.problem(args),
            "the gradient of param `W` is not aligned to its 8-byte elements");
}

TEST(TrainingErrors, GradientsThatDoNotLineUp) {
  Training training(kAll);
  ASSERT_TRUE(training.program().forward(training.forward_args()));
  BackwardArgs args = training.backward_args();
  const std::vector<const void*> one = {training.dh_.data()};
  args.output_gradients = one;
  EXPECT_EQ(training.problem(args), "gradients of outputs: none or 2 pointers expected, got 1");
  args = training.backward_args();
  const std::vector<const void*> two = {training.dlast_.data(), nullptr};
  args.final_state_gradients = two;
  EXPECT_EQ(training.problem(args),
            "gradients of final states: none or 1 pointers expected, got 2");
  const std::vector<void*> more = {training.dx.data(), nullptr};
  args = training.backward_args();
  args.input_gradients = more;
  EXPECT_EQ(training.problem(args), "gradients of inputs: none or 1 pointers expected, got 2");
  args = training.backward_args();
  args.initial_state_gradients = more;
  EXPECT_EQ(training.problem(args),
            "gradients of initial states: none or 1 pointers expected, got 2");
  const std::vector<const void*> off = {reinterpret_cast<const char*>(training.dh_.data()) + 1,
                                        nullptr};
  args = training.backward_args();
  args.output_gradients = off;
  EXPECT_EQ(training.problem(args),
            "the gradient of output `h` is not aligned to its 8-byte elements");
  args = training.backward_args();
  args.final_state_gradients = std::span(off).first(1);
  EXPECT_EQ(training.problem(args),
            "the gradient of final state `h` is not aligned to its 8-byte elements");
}

TEST(TrainingErrors, SmallReservesAndWorkspaces) {
  Training training(kAll);
  ForwardArgs forward = training.forward_args();
  forward.reserve_bytes = 1;
  const Status status = training.program().forward(forward);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message,
            fmt::format("reserve has 1 bytes; {} are needed", training.sizes().reserve));
  BackwardArgs args = training.backward_args();
  args.reserve = nullptr;
  EXPECT_EQ(training.problem(args),
            fmt::format("reserve is null; {} bytes are needed", training.sizes().reserve));
  args = training.backward_args();
  args.workspace_bytes = 0;
  EXPECT_EQ(training.problem(args), fmt::format("workspace has 0 bytes; {} are needed",
                                                training.sizes().backward_workspace));
}

TEST(TrainingErrors, InitialStatesOtherThanPrepared) {
  Training training({});
  ForwardArgs args = training.forward_args();
  const std::vector<const void*> given = {training.first_.data()};
  args.initial_states = given;
  const Status status = training.program().forward(args);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message,
            "initial state `h` is given, and the shape was prepared for training without it");
}

TEST(TrainingErrors, OptionsThatContradictThemselves) {
  Training training(kAll);
  Status status = training.program().prepare_training(kBatch, kSteps, {.initial_states = {true}});
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message,
            "training: the gradient of initial state `h` is wanted, which is not given");
  status = training.program().prepare_training(kBatch, kSteps, {.params = {true}});
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message, "training: 2 params there are, not 1");
  status = training.program().prepare_training(kBatch, kSteps, {.checkpoint = -1});
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message, "training: checkpoint must be 0 or more steps, got -1");
}

TEST(TrainingErrors, CheckpointsOfLayersInReverse) {
  const Result<Graph> graph = parse_graph(kElman);
  Result<Program> program = Program::compile(
      *graph, {.dims = {{"I", 3}}, .dtype = DType::f64, .threads = 1, .reverse = true});
  ASSERT_TRUE(program) << program.error().message;
  ASSERT_TRUE(program->prepare_training(kBatch, kSteps));
  const Status status = program->prepare_training(kBatch, kSteps, {.checkpoint = 2});
  ASSERT_FALSE(status);
  EXPECT_EQ(
      status.error().message,
      "training: checkpoints each 2 steps are asked for, but `Elman` cannot be run in pieces: "
      "it runs in reverse, from a sequence's last step on");
}

TEST(TrainingErrors, OfRunners) {
  const Result<Graph> graph = parse_graph(kElman);
  Result<Program> program = Program::compile(*graph, {.dims = {{"I", 3}}, .threads = 1});
  ASSERT_TRUE(program) << program.error().message;
  Runner runner(*program);
  EXPECT_EQ(runner.time_training_per_step(1).error().message,
            "there was no run whose time could be measured");
  RunArgs args = {
      .inputs = {{"x", Array::zeros(DType::f64, {2, 1, 3})}},
      .params = {{"W", Array::zeros(DType::f64, {4, 3})}, {"R", Array::zeros(DType::f64, {4, 4})}},
      .initial_states = {}};
  ASSERT_TRUE(runner.run(args));
  EXPECT_EQ(runner.time_training_per_step(1).error().message,
            "the last run was not one for gradients");
  EXPECT_EQ(runner.time_replayed_training_per_step(1).error().message,
            "the last run was not one for gradients");
  EXPECT_NE(runner.gradients(args, {.outputs = {{"y", Array::zeros(DType::f64, {2, 1, 4})}}})
                .error()
                .message.find("gradient of output"),
            std::string::npos);
  args.piece = 1;
  EXPECT_EQ(runner.gradients(args, {}).error().message,
            "gradients are of whole runs: piece must be 0");
}

}  // namespace
}  // namespace rnnc::test
#endif
