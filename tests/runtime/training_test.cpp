/// The contract of training calls, on the CPU.
#ifdef RNNC_WITH_CPU
#include "tests/runtime/training_calls.h"

#include <cstring>

namespace rnnc::test {
namespace {

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
}  // namespace rnnc::test
#endif
