/// The contract of training calls, on the CPU.
#ifdef RNNC_WITH_CPU
#include <gtest/gtest.h>

#include <cstring>

#include "ir/graph/text.h"
#include "runtime/program/run.h"
#include "tests/support/reference/deterministic.h"

namespace rnnc {
namespace {

constexpr std::string_view kElman = R"(graph Elman(I, H = 4) {
  input x: [I]
  param W: [H, I]
  param R: [H, H]
  state h: [H]
  %0 = param W : [H, I]
  %1 = input x : [I]
  %2 = matmul %0, %1 : [H]
  %3 = param R : [H, H]
  %4 = state h @ 1 : [H]
  %5 = matmul %3, %4 : [H]
  %6 = add %2, %5 : [H]
  %7 = tanh %6 : [H]
  %8 = const 0 : []
  %9 = sum %7 : []
  init h = %8
  next h = %7
  output h = %7
  output total = %9
}
)";

constexpr int64_t kSteps = 6;
constexpr int64_t kBatch = 2;

std::vector<double> values(const std::string& name, int64_t count) {
  return test::deterministic_values(name, count, 1, DType::f64);
}

/// A program and the arrays of its calls, all float64.
class Training {
 public:
  explicit Training(const TrainingOptions& options, int64_t chunk = 0)
      : program_(compile(chunk)), options_(options) {
    const Status prepared = program_.prepare_training(kBatch, kSteps, options);
    EXPECT_TRUE(prepared) << prepared.error().message;
    sizes_ = program_.training_sizes(kBatch, kSteps).value_or(TrainingSizes{});
    workspace_.resize(std::max(sizes_.forward_workspace, sizes_.backward_workspace + sizes_.zeros));
    reserve_.resize(sizes_.reserve);
  }

  Program& program() { return program_; }
  const TrainingSizes& sizes() const { return sizes_; }

  /// Steps [begin, end).
  ForwardArgs forward_args(int64_t begin = 0, int64_t end = kSteps) {
    inputs_ = {x_.data() + begin * kBatch * 3};
    params_ = {w_.data(), r_.data()};
    outputs_ = {h_.data() + begin * kBatch * 4, total_.data() + begin * kBatch};
    final_ = {last_.data()};
    initial_ = {options_.given_states.empty() || !options_.given_states[0] ? nullptr
                                                                           : first_.data()};
    return {.steps = end - begin,
            .batch = kBatch,
            .inputs = inputs_,
            .params = params_,
            .outputs = outputs_,
            .initial_states = initial_,
            .final_states = final_,
            .workspace = workspace_.data(),
            .workspace_bytes = workspace_.size(),
            .reserve = reserve_.data(),
            .reserve_bytes = reserve_.size()};
  }

  BackwardArgs backward_args(int64_t begin = 0, int64_t end = kSteps) {
    const ForwardArgs forward = forward_args(begin, end);
    output_gradients_ = {dh_.data() + begin * kBatch * 4, dtotal_.data() + begin * kBatch};
    final_gradients_ = {dlast_.data()};
    param_gradients_ = {dw.data(), dr.data()};
    input_gradients_ = {wants(options_.inputs) ? dx.data() + begin * kBatch * 3 : nullptr};
    initial_gradients_ = {wants(options_.initial_states) ? dfirst.data() : nullptr};
    return {.steps = forward.steps,
            .batch = forward.batch,
            .inputs = forward.inputs,
            .params = forward.params,
            .outputs = forward.outputs,
            .output_gradients = output_gradients_,
            .final_state_gradients = final_gradients_,
            .param_gradients = param_gradients_,
            .input_gradients = input_gradients_,
            .initial_state_gradients = initial_gradients_,
            .workspace = workspace_.data(),
            .workspace_bytes = workspace_.size(),
            .reserve = reserve_.data(),
            .reserve_bytes = reserve_.size()};
  }

  void run() {
    const Status forward = program_.forward(forward_args());
    ASSERT_TRUE(forward) << forward.error().message;
    const Status backward = program_.backward(backward_args());
    ASSERT_TRUE(backward) << backward.error().message;
  }

  std::string problem(const BackwardArgs& args) {
    const Status status = program_.backward(args);
    EXPECT_FALSE(status);
    return status ? "" : status.error().message;
  }

  // Results.
  std::vector<double> dw = std::vector<double>(12), dr = std::vector<double>(16);
  std::vector<double> dx = std::vector<double>(kSteps * kBatch * 3);
  std::vector<double> dfirst = std::vector<double>(kBatch * 4);

  std::vector<double> first_ = values("first", kBatch * 4), last_ = first_;
  std::vector<double> dlast_ = values("dlast", kBatch * 4);
  std::vector<double> dh_ = values("dh", kSteps* kBatch * 4);
  std::vector<double> dtotal_ = values("dtotal", kSteps* kBatch);
  std::vector<char> reserve_;

 private:
  static bool wants(const std::vector<bool>& list) { return !list.empty() && list[0]; }

  static Program compile(int64_t chunk) {
    const Result<Graph> graph = parse_graph(kElman);
    EXPECT_TRUE(graph) << graph.error().message;
    Result<Program> program = Program::compile(
        *graph, {.dims = {{"I", 3}}, .dtype = DType::f64, .threads = 1, .chunk = chunk});
    EXPECT_TRUE(program) << program.error().message;
    return *std::move(program);
  }

  Program program_;
  TrainingOptions options_;
  TrainingSizes sizes_;
  std::vector<char> workspace_;
  std::vector<double> x_ = values("x", kSteps* kBatch * 3), w_ = values("W", 12);
  std::vector<double> r_ = values("R", 16);
  std::vector<double> h_ = std::vector<double>(kSteps * kBatch * 4);
  std::vector<double> total_ = std::vector<double>(kSteps * kBatch);
  std::vector<const void*> inputs_, params_, initial_, output_gradients_, final_gradients_;
  std::vector<void*> outputs_, final_, param_gradients_, input_gradients_, initial_gradients_;
};

const TrainingOptions kAll = {
    .params = {true, true}, .inputs = {true}, .initial_states = {true}, .given_states = {true}};

double worst(const std::vector<double>& a, const std::vector<double>& b) {
  double most = 0;
  for (size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(a[i] - b[i]));
  return most;
}

TEST(Training, TwiceFromOneReserveGivesTheSameBits) {
  Training training(kAll);
  training.run();
  const std::vector<double> dw = training.dw;
  const std::vector<double> dfirst = training.dfirst;
  const std::vector<char> reserve = training.reserve_;
  ASSERT_TRUE(training.program().backward(training.backward_args()));
  EXPECT_EQ(training.dw, dw);
  EXPECT_EQ(training.dfirst, dfirst);
  EXPECT_EQ(training.reserve_, reserve);
}

TEST(Training, AccumulatesWherePreparedFor) {
  Training plain(kAll);
  plain.run();
  TrainingOptions options = kAll;
  options.accumulate = true;
  Training adding(options);
  adding.dw = values("before", 12);
  std::vector<double> expected = adding.dw;
  for (size_t i = 0; i < expected.size(); ++i) expected[i] += plain.dw[i];
  adding.run();
  EXPECT_LE(worst(adding.dw, expected), 1e-14);
  EXPECT_EQ(adding.dx, plain.dx);
}

/// Null is zero, and its memory is not in the way of anything.
TEST(Training, TakesNoGradientForZero) {
  Training given(kAll);
  std::ranges::fill(given.dtotal_, 0);
  std::ranges::fill(given.dlast_, 0);
  given.run();
  Training null(kAll);
  ASSERT_TRUE(null.program().forward(null.forward_args()));
  BackwardArgs args = null.backward_args();
  const std::vector<const void*> outputs = {null.dh_.data(), nullptr};
  args.output_gradients = outputs;
  args.final_state_gradients = {};
  ASSERT_TRUE(null.program().backward(args));
  EXPECT_EQ(null.dw, given.dw);
  EXPECT_EQ(null.dfirst, given.dfirst);
}

/// A sequence in two pieces, the later one's gradient of its initial state being the earlier one's
/// of its final state, gives what one call gives.
TEST(Training, GoesBackThroughPieces) {
  Training whole(kAll);
  whole.run();
  TrainingOptions options = kAll;
  options.accumulate = true;
  Training parts(options);
  std::vector<char> first_reserve(parts.sizes().reserve);
  const int64_t middle = 4;
  ForwardArgs first = parts.forward_args(0, middle);
  first.reserve = first_reserve.data();
  ASSERT_TRUE(parts.program().forward(first));
  const std::vector<double> given = std::exchange(parts.first_, parts.last_);
  ASSERT_TRUE(parts.program().forward(parts.forward_args(middle, kSteps)));
  std::ranges::fill(parts.dw, 0);
  std::ranges::fill(parts.dr, 0);
  ASSERT_TRUE(parts.program().backward(parts.backward_args(middle, kSteps)));
  parts.first_ = given;
  parts.dlast_ = parts.dfirst;
  BackwardArgs args = parts.backward_args(0, middle);
  args.reserve = first_reserve.data();
  ASSERT_TRUE(parts.program().backward(args));
  EXPECT_LE(worst(parts.dw, whole.dw), 1e-13);
  EXPECT_LE(worst(parts.dr, whole.dr), 1e-13);
  EXPECT_LE(worst(parts.dx, whole.dx), 1e-13);
  EXPECT_LE(worst(parts.dfirst, whole.dfirst), 1e-13);
}

TEST(Training, OfSomeParamsAlone) {
  Training all(kAll);
  all.run();
  Training one({.params = {false, true}, .given_states = {true}});
  ASSERT_TRUE(one.program().forward(one.forward_args()));
  BackwardArgs args = one.backward_args();
  const std::vector<void*> wanted = {nullptr, one.dr.data()};
  args.param_gradients = wanted;
  args.input_gradients = {};
  args.initial_state_gradients = {};
  ASSERT_TRUE(one.program().backward(args));
  EXPECT_LE(worst(one.dr, all.dr), 1e-14);
}

/// The state's earlier values are those of output h: the reserve has none of them.
TEST(Training, ReadsEarlierStatesFromOutputs) {
  TrainingOptions options{.params = {true, true}, .inputs = {true}};
  Training saved(options, 4);
  saved.run();
  options.outputs = true;
  Training read(options, 4);
  read.run();
  EXPECT_EQ(read.dw, saved.dw);
  EXPECT_EQ(read.dr, saved.dr);
  EXPECT_EQ(read.dx, saved.dx);
  constexpr size_t kRows = kSteps * kBatch * 4 * sizeof(double);
  EXPECT_LE(read.sizes().reserve + kRows, saved.sizes().reserve);
}

/// Where a state is given, or begins pieces, outputs do not tell its first value.
TEST(Training, SavesEarlierStatesThatOutputsDoNotHave) {
  for (const int64_t checkpoint : {0, 2}) {
    TrainingOptions options = kAll;
    options.checkpoint = checkpoint;
    if (checkpoint > 0) options.given_states = options.initial_states = {false};
    Training saved(options, 2);
    saved.run();
    options.outputs = true;
    Training given(options, 2);
    given.run();
    EXPECT_EQ(given.sizes().reserve, saved.sizes().reserve);
    EXPECT_EQ(given.dw, saved.dw);
    EXPECT_EQ(given.dr, saved.dr);
  }
}

// ---- Checkpoints ----

TrainingOptions with_checkpoints(int64_t steps) {
  TrainingOptions options = kAll;
  options.checkpoint = steps;
  return options;
}

/// Chunks of two steps.
TEST(TrainingCheckpoints, GiveTheSameBits) {
  Training plain(kAll, 2);
  plain.run();
  for (const int64_t steps :
       {int64_t{1}, int64_t{2}, int64_t{3}, int64_t{4}, int64_t{6}, INT64_MAX}) {
    SCOPED_TRACE(steps);
    Training pieces(with_checkpoints(steps), 2);
    pieces.run();
    EXPECT_EQ(pieces.dw, plain.dw);
    EXPECT_EQ(pieces.dr, plain.dr);
    EXPECT_EQ(pieces.dx, plain.dx);
    EXPECT_EQ(pieces.dfirst, plain.dfirst);
    EXPECT_EQ(pieces.last_, plain.last_);
  }
}

/// Five steps in pieces of four: the short one is the first, as the backward half counts chunks
/// from the end.
TEST(TrainingCheckpoints, OfStepsThatNoPieceDivides) {
  Training plain(kAll, 2);
  ASSERT_TRUE(plain.program().forward(plain.forward_args(0, 5)));
  ASSERT_TRUE(plain.program().backward(plain.backward_args(0, 5)));
  Training pieces(with_checkpoints(4), 2);
  ASSERT_TRUE(pieces.program().forward(pieces.forward_args(0, 5)));
  ASSERT_TRUE(pieces.program().backward(pieces.backward_args(0, 5)));
  EXPECT_EQ(pieces.dw, plain.dw);
  EXPECT_EQ(pieces.dr, plain.dr);
  EXPECT_EQ(pieces.dx, plain.dx);
  EXPECT_EQ(pieces.dfirst, plain.dfirst);
}

/// Three of [2, 4] float64, each where buffers may begin.
TEST(TrainingCheckpoints, KeepStatesAlone) {
  EXPECT_EQ(Training(with_checkpoints(1), 2).sizes().reserve, 3 * 256 + 255);
  EXPECT_EQ(Training(with_checkpoints(4), 2).sizes().reserve, 2 * 256 + 255);
}

TEST(TrainingCheckpoints, TwiceFromOneReserveGiveTheSameBits) {
  Training training(with_checkpoints(2), 2);
  training.run();
  const std::vector<double> dw = training.dw;
  const std::vector<char> reserve = training.reserve_;
  ASSERT_TRUE(training.program().backward(training.backward_args()));
  EXPECT_EQ(training.dw, dw);
  EXPECT_EQ(training.reserve_, reserve);
}

/// Also where given states are the memory of final ones, null gradients are zero, and params'
/// gradients are added up.
TEST(TrainingCheckpoints, TakeWhatOtherCallsTake) {
  TrainingOptions options = with_checkpoints(2);
  options.accumulate = true;
  Training plain(kAll, 2);
  std::ranges::fill(plain.dlast_, 0);
  std::ranges::fill(plain.dtotal_, 0);
  plain.run();
  Training adding(options, 2);
  adding.dw = values("before", 12);
  std::vector<double> expected = adding.dw;
  for (size_t i = 0; i < expected.size(); ++i) expected[i] += plain.dw[i];
  ForwardArgs forward = adding.forward_args();
  const std::vector<void*> in_place = {adding.first_.data()};
  forward.final_states = in_place;
  ASSERT_TRUE(adding.program().forward(forward));
  EXPECT_EQ(adding.first_, plain.last_);
  BackwardArgs args = adding.backward_args();
  const std::vector<const void*> outputs = {adding.dh_.data(), nullptr};
  args.output_gradients = outputs;
  args.final_state_gradients = {};
  ASSERT_TRUE(adding.program().backward(args));
  EXPECT_EQ(adding.dw, expected);
  EXPECT_EQ(adding.dx, plain.dx);
  EXPECT_EQ(adding.dfirst, plain.dfirst);
}

/// What another program has left in it, and copies anywhere at 64 bytes.
TEST(Training, FromForeignReserves) {
  TrainingOptions checkpointed = kAll;
  checkpointed.checkpoint = 2;
  for (const TrainingOptions& options : {kAll, checkpointed}) {
    Training one(options);
    one.run();
    std::vector<char> memory(one.reserve_.size() + 1024);
    const auto aligned = [](const void* pointer) {
      return (64 - reinterpret_cast<uintptr_t>(pointer) % 64) % 64;
    };
    // From its first multiple of 64 bytes on; what is before that is nothing.
    const size_t from = aligned(one.reserve_.data());
    for (size_t at = aligned(memory.data()); at <= 512; at += 64) {
      std::copy(one.reserve_.begin() + from, one.reserve_.end(), memory.begin() + at);
      Training other(options);
      BackwardArgs args = other.backward_args();
      args.reserve = memory.data() + at;
      args.foreign_reserve = true;
      const Status status = other.program().backward(args);
      ASSERT_TRUE(status) << status.error().message;
      EXPECT_EQ(other.dw, one.dw);
      EXPECT_EQ(other.dx, one.dx);
      EXPECT_EQ(other.dfirst, one.dfirst);
    }
  }
}

// ---- Errors ----

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
            "batch 3 is not prepared for training: call prepare_training(3, 6, …) first");
  args = training.backward_args();
  args.steps = 7;
  EXPECT_EQ(training.problem(args),
            "batch 2 is prepared for training up to 6 steps, not 7: call prepare_training(2, 7, …) "
            "first");
  const std::vector<uint8_t> reset(kSteps * kBatch);
  ForwardArgs forward = training.forward_args();
  forward.reset = reset.data();
  const Status status = training.program().forward(forward);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message,
            "batch 2 with resets is not prepared for training: call prepare_training(2, 6, …) "
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
  EXPECT_NE(runner.gradients(args, {.outputs = {{"y", Array::zeros(DType::f64, {2, 1, 4})}}})
                .error()
                .message.find("gradient of output"),
            std::string::npos);
  args.piece = 1;
  EXPECT_EQ(runner.gradients(args, {}).error().message,
            "gradients are of whole runs: piece must be 0");
}

/// Where nothing is learned, a program says so once, whatever is prepared.
TEST(Training, NotesTellOfGradientsThatAreZero) {
  const Result<Graph> graph = parse_graph(R"(graph Round {
  input x: [2]
  param w: [2]
  %0 = param w : [2]
  %1 = input x : [2]
  %2 = mul %0, %1 : [2]
  %3 = round %2 : [2]
  output y = %3
}
)");
  ASSERT_TRUE(graph) << graph.error().message;
  Result<Program> program = Program::compile(*graph, {.dtype = DType::f64, .threads = 1});
  ASSERT_TRUE(program) << program.error().message;
  ASSERT_TRUE(program->prepare(1, 4));
  EXPECT_EQ(program->notes(), std::vector<std::string>{});
  ASSERT_TRUE(program->prepare_training(1, 4, {.params = {false}, .inputs = {false}}));
  EXPECT_EQ(program->notes(), std::vector<std::string>{});
  ASSERT_TRUE(program->prepare_training(1, 4));
  ASSERT_TRUE(program->prepare_training(2, 4));
  EXPECT_EQ(program->notes(),
            std::vector<std::string>{
                "`%3 round` has the gradient zero everywhere: nothing is learned through it\n"
                "  hint: for a straight-through gradient write `v + stop_gradient(round(v) - v)`; "
                "`stop_gradient(round(v))` says that zero is meant"});
}

}  // namespace
}  // namespace rnnc
#endif
