/// The contract of Program's calls, on the CPU.
#ifdef RNNC_WITH_CPU
#include "runtime/program/program.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "ir/graph/text.h"
#include "runtime/arrays/random_arrays.h"
#include "runtime/backend/backend.h"
#include "tests/support/cells/elman_graph.h"

namespace rnnc {
namespace {

Graph elman() {
  Result<Graph> graph = parse_graph(test::elman_text("I, H = 4"));
  EXPECT_TRUE(graph) << graph.error().message;
  return graph.value_or(Graph{});
}

CompileOptions options() {
  CompileOptions result;
  result.dims = {{"I", 3}};
  result.threads = 1;
  return result;
}

Program compile(const CompileOptions& compile_options = options()) {
  Result<Program> program = Program::compile(elman(), compile_options);
  EXPECT_TRUE(program) << program.error().message;
  return std::move(*program);
}

std::string compile_problem(const CompileOptions& compile_options) {
  const Result<Program> program = Program::compile(elman(), compile_options);
  EXPECT_FALSE(program);
  return program ? "" : program.error().message;
}

TEST(Program, DescribesItsArrays) {
  const Program program = compile();
  const Signature& signature = program.signature();
  EXPECT_EQ(signature.name, "Elman");
  ASSERT_EQ(signature.inputs.size(), 1U);
  EXPECT_EQ(signature.inputs[0].name, "x");
  EXPECT_EQ(signature.inputs[0].shape, (std::vector<int64_t>{3}));
  ASSERT_EQ(signature.params.size(), 2U);
  EXPECT_EQ(signature.params[0].name, "W");
  EXPECT_EQ(signature.params[0].shape, (std::vector<int64_t>{4, 3}));
  EXPECT_EQ(signature.params[0].elements(), 12);
  ASSERT_EQ(signature.states.size(), 1U);
  EXPECT_EQ(signature.states[0].dtype, DType::f32);
  ASSERT_EQ(signature.outputs.size(), 1U);
  EXPECT_EQ(signature.outputs[0].shape, (std::vector<int64_t>{4}));
  EXPECT_EQ(program.options().dims.at("H"), 4);
}

TEST(RandomWeights, AreRefusedForShapesThatNoArrayHas) {
  const std::vector<int64_t> shape = {int64_t{1} << 40, int64_t{1} << 40};
  EXPECT_EQ((ArrayInfo{.name = "W", .shape = shape}.elements()), 0);
  EXPECT_EQ(random_weights({{.name = "W", .shape = shape}}, 1).error().message,
            "param `W` has the shape [1099511627776, 1099511627776], which no array has");
}

TEST(Program, RefusesWhatCannotBeCompiled) {
  CompileOptions bad = options();
  bad.dims = {};
  EXPECT_EQ(compile_problem(bad), "Elman: no value for dim `I`");
  bad.dims = {{"I", 3}, {"J", 3}};
  EXPECT_EQ(compile_problem(bad), "Elman has no dim `J`; its dims are `I`, `H`");
  bad.dims = {{"I", 0}};
  EXPECT_EQ(compile_problem(bad), "input `x` [I]: `I` is 0, dims start at 1");
  bad.dims = {{"I", 2147483647}, {"H", 2147483647}};
  EXPECT_EQ(compile_problem(bad), "param `W` [H, I]: too many elements");
  bad = options();
  bad.dtype = DType::bf16;
  EXPECT_EQ(compile_problem(bad), "dtype bf16 runs on a GPU only; the CPU takes f32 and f64");
  bad.dtype = DType::f64;
  bad.device = {Device::Kind::cuda, 1};
  EXPECT_EQ(compile_problem(bad), "dtype f64 runs on the CPU only; cuda:1 takes f32, bf16 and f16");
  bad = options();
  bad.allow_tf32 = true;
  EXPECT_EQ(compile_problem(bad), "TF32 is for f32 on a GPU, not for f32 on cpu");
  bad = options();
  bad.param_dtype = DType::f64;
  EXPECT_EQ(compile_problem(bad), "param_dtype must be f32, got f64");
  bad.dtype = DType::bf16;
  bad.device = {Device::Kind::cuda, 0};
  EXPECT_EQ(compile_problem(bad), "param_dtype must be bf16 or f32, got f64");
  bad = options();
  bad.threads = -1;
  EXPECT_EQ(compile_problem(bad), "threads must be 0 to 4096, got -1");
  bad.threads = 4097;
  EXPECT_EQ(compile_problem(bad), "threads must be 0 to 4096, got 4097");
  bad = options();
  bad.cache_limit = -1;
  EXPECT_EQ(compile_problem(bad), "cache_limit must be 0 or more, got -1");
  bad = options();
  bad.chunk = -1;
  EXPECT_EQ(compile_problem(bad), "chunk must be 0 or more, got -1");
  bad = options();
  bad.tile_rank = 100;
  EXPECT_EQ(compile_problem(bad), "tile_rank must be 0 to 99, got 100");
}

TEST(Program, SaysThatItWasMovedFrom) {
  constexpr std::string_view kNothing = "this program was moved from: it has nothing to run";
  constexpr std::string_view kNoDevice = "there is no device: its program was moved from";
  Program program = compile();
  const Program moved = std::move(program);
  Program& empty = program;  // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(empty.signature().name, "");
  EXPECT_TRUE(empty.options().dims.empty());
  EXPECT_EQ(empty.prepare(1, 1).error().message, kNothing);
  EXPECT_EQ(empty.prepared(1, 1).error().message, kNothing);
  EXPECT_EQ(empty.workspace_size(1, 1).error().message, kNothing);
  EXPECT_EQ(empty.forward({}).error().message, kNothing);
  EXPECT_EQ(empty.notes(), std::vector<std::string>{std::string(kNothing)});
  Backend& backend = empty.backend();
  EXPECT_EQ(backend.allocate(1).error().message, kNoDevice);
  EXPECT_EQ(backend.upload(nullptr, nullptr, 0).error().message, kNoDevice);
  EXPECT_EQ(backend.download(nullptr, nullptr, 0).error().message, kNoDevice);
  EXPECT_EQ(backend.synchronize(nullptr).error().message, kNoDevice);
  EXPECT_EQ(backend.prepare({}).error().message, kNoDevice);
  backend.release(nullptr);
}

TEST(Program, RefusesShapesThatAreNotPrepared) {
  Program program = compile();
  EXPECT_EQ(program.prepare(0, 1).error().message, "batch must be at least 1, got 0");
  EXPECT_EQ(program.prepare(1, 0).error().message, "steps must be at least 1, got 0");
  EXPECT_EQ(program.prepare(INT64_MAX, INT64_MAX).error().message,
            "9223372036854775807 steps x batch 9223372036854775807 x 4 elements are too large");
  EXPECT_EQ(program.workspace_size(2, 5).error().message,
            "batch 2 is not prepared: prepare it for 5 steps first");
  ASSERT_TRUE(program.prepare(2, 5));
  EXPECT_TRUE(program.workspace_size(2, 1));
  EXPECT_EQ(program.workspace_size(2, 6).error().message,
            "batch 2 is prepared for up to 5 steps, not 6: prepare it for 6 steps first");
  EXPECT_EQ(program.workspace_size(2, -6).error().message, "steps must be at least 1, got -6");
  ASSERT_TRUE(program.prepare(2, 6));
  ASSERT_TRUE(program.prepare(2, 1));
  EXPECT_TRUE(program.workspace_size(2, 6));
}

/// A prepared program with arrays for 5 steps of a batch of 2.
class Forward : public ::testing::Test {
 protected:
  Forward() {
    EXPECT_TRUE(program_.prepare(2, 5));
    workspace_.resize(*program_.workspace_size(2, 5));
    args_.steps = 5;
    args_.batch = 2;
    args_.inputs = inputs_;
    args_.params = params_;
    args_.outputs = outputs_;
    args_.workspace = workspace_.data();
    args_.workspace_bytes = workspace_.size();
  }
  std::string problem() {
    const Status status = program_.forward(args_);
    EXPECT_FALSE(status);
    return status ? "" : status.error().message;
  }

  Program program_ = compile();
  std::vector<float> x_ = std::vector<float>(30, 0.25F);
  std::vector<float> w_ = std::vector<float>(12, 0.5F);
  std::vector<float> r_ = std::vector<float>(16, 0.125F);
  std::vector<float> h_ = std::vector<float>(40, -9.0F);
  std::vector<float> state_ = std::vector<float>(8, 0.75F);
  std::vector<char> workspace_;
  std::vector<const void*> inputs_{x_.data()};
  std::vector<const void*> params_{w_.data(), r_.data()};
  std::vector<void*> outputs_{h_.data()};
  ForwardArgs args_;
};

TEST_F(Forward, Runs) {
  ASSERT_TRUE(program_.forward(args_));
  const float first = std::tanh(0.375F);
  EXPECT_NEAR(h_[0], first, 1e-6);
  EXPECT_NEAR(h_[8], std::tanh(0.375F + 0.5F * first), 1e-6);
}

TEST_F(Forward, TakesAWorkspaceAtAnyAddress) {
  ASSERT_TRUE(program_.forward(args_));
  const std::vector<float> expected = h_;
  for (size_t shift = 1; shift < 64; shift += 7) {
    std::vector<char> larger(workspace_.size() + shift);
    args_.workspace = larger.data() + shift;
    std::ranges::fill(h_, -9.0F);
    ASSERT_TRUE(program_.forward(args_));
    EXPECT_EQ(h_, expected);
  }
}

TEST_F(Forward, TakesAndGivesStates) {
  const std::vector<const void*> initial{state_.data()};
  std::vector<float> final_state(8);
  const std::vector<void*> final{final_state.data()};
  args_.initial_states = initial;
  args_.final_states = final;
  ASSERT_TRUE(program_.forward(args_));
  EXPECT_NEAR(h_[0], std::tanh(0.375F + 0.375F), 1e-6);
  EXPECT_TRUE(std::equal(final_state.begin(), final_state.end(), h_.end() - 8));
  const std::vector<const void*> none{nullptr};
  const std::vector<void*> unwanted{nullptr};
  args_.initial_states = none;
  args_.final_states = unwanted;
  ASSERT_TRUE(program_.forward(args_));
  EXPECT_NEAR(h_[0], std::tanh(0.375F), 1e-6);
}

TEST_F(Forward, ReusesParamsOnlyOncePrepared) {
  // A promise that cannot be kept yet: nothing was loaded before.
  args_.reuse_params = true;
  ASSERT_TRUE(program_.forward(args_));
  EXPECT_NEAR(h_[0], std::tanh(0.375F), 1e-6);
  const std::vector<float> expected = h_;
  ASSERT_TRUE(program_.forward(args_));
  EXPECT_EQ(h_, expected);
  // Other params count, whatever is promised.
  std::vector<float> other(12, 0.25F);
  params_[0] = other.data();
  ASSERT_TRUE(program_.forward(args_));
  EXPECT_NEAR(h_[0], std::tanh(0.1875F), 1e-6);
  params_[0] = w_.data();
  ASSERT_TRUE(program_.forward(args_));
  EXPECT_EQ(h_, expected);
  // Without the promise, changed params count.
  args_.reuse_params = false;
  std::ranges::fill(w_, 1.0F);
  ASSERT_TRUE(program_.forward(args_));
  EXPECT_NEAR(h_[0], std::tanh(0.75F), 1e-6);
}

TEST_F(Forward, RefusesMissingArguments) {
  args_.steps = 0;
  EXPECT_EQ(problem(), "steps must be at least 1, got 0");
  args_.steps = 5;
  args_.batch = 0;
  EXPECT_EQ(problem(), "batch must be at least 1, got 0");
  args_.batch = 3;
  EXPECT_EQ(problem(), "batch 3 is not prepared: prepare it for 5 steps first");
  args_.batch = 2;
  args_.inputs = {};
  EXPECT_EQ(problem(), "1 input pointers expected, got 0");
  args_.inputs = inputs_;
  params_[1] = nullptr;
  EXPECT_EQ(problem(), "param `R` is null");
  params_[1] = r_.data();
  outputs_[0] = nullptr;
  EXPECT_EQ(problem(), "output `h` is null");
  outputs_[0] = reinterpret_cast<char*>(h_.data()) + 2;
  EXPECT_EQ(problem(), "output `h` is not aligned to its 4-byte elements");
  outputs_[0] = h_.data();
  const std::vector<const void*> two{state_.data(), state_.data()};
  args_.initial_states = two;
  EXPECT_EQ(problem(), "initial states: none or 1 pointers expected, got 2");
  args_.initial_states = {};
  const std::vector<void*> three{nullptr, nullptr, nullptr};
  args_.final_states = three;
  EXPECT_EQ(problem(), "final states: none or 1 pointers expected, got 3");
  args_.final_states = {};
  if (!workspace_.empty()) {
    args_.workspace_bytes = workspace_.size() - 1;
    EXPECT_EQ(problem(), fmt::format("workspace has {} bytes; {} are needed", workspace_.size() - 1,
                                     workspace_.size()));
    args_.workspace = nullptr;
    EXPECT_EQ(problem(), fmt::format("workspace is null; {} bytes are needed", workspace_.size()));
  }
  EXPECT_TRUE(std::ranges::all_of(h_, [](float value) { return value == -9.0F; }));
}

TEST_F(Forward, RefusesAReserveWhereNothingIsTrained) {
  constexpr std::string_view kText =
      "batch 2 is not prepared for training: prepare training of 5 steps of it first";
  args_.reserve = h_.data();
  EXPECT_EQ(problem(), kText);
  args_.reserve = nullptr;
  args_.reserve_bytes = 1;
  EXPECT_EQ(problem(), kText);
}

TEST_F(Forward, RefusesFeaturesThatAreNotPrepared) {
  const int32_t lengths[3] = {5, 5, 5};
  const uint8_t reset[10] = {};
  args_.lengths = lengths;
  EXPECT_EQ(problem(), "batch 2 with lengths is not prepared: prepare it for 5 steps first");
  args_.reset = reset;
  EXPECT_EQ(problem(),
            "batch 2 with lengths and resets is not prepared: "
            "prepare it for 5 steps first");
  args_.lengths = nullptr;
  EXPECT_EQ(problem(), "batch 2 with resets is not prepared: prepare it for 5 steps first");
  ASSERT_TRUE(program_.prepare(2, 4, {.resets = true}));
  EXPECT_EQ(problem(),
            "batch 2 with resets is prepared for up to 4 steps, not 5: "
            "prepare it for 5 steps first");
  ASSERT_TRUE(program_.prepare(2, 5, {.lengths = true}));
  args_.reset = nullptr;
  args_.lengths = reinterpret_cast<const int32_t*>(reinterpret_cast<const char*>(lengths) + 2);
  EXPECT_EQ(problem(), "lengths are not aligned to their 4-byte elements");
}

TEST_F(Forward, TakesLengthsAndResets) {
  const SequenceFeatures features = {.lengths = true, .resets = true};
  ASSERT_TRUE(program_.prepare(2, 5, features));
  std::vector<char> workspace(*program_.workspace_size(2, 5, features));
  args_.workspace = workspace.data();
  args_.workspace_bytes = workspace.size();
  // Sequence 0 begins anew at step 2 and ends after 4 steps; 1 is clamped to all 5 steps.
  const std::vector<int32_t> lengths = {4, 99};
  std::vector<uint8_t> reset(10, 0);
  reset[2 * 2] = 7;
  args_.lengths = lengths.data();
  args_.reset = reset.data();
  ASSERT_TRUE(program_.forward(args_));
  const float first = std::tanh(0.375F);
  const float second = std::tanh(0.375F + 0.5F * first);
  const auto at = [this](int64_t t, int64_t b) { return h_[(t * 2 + b) * 4]; };
  EXPECT_NEAR(at(0, 0), first, 1e-6);
  EXPECT_NEAR(at(1, 0), second, 1e-6);
  EXPECT_NEAR(at(2, 0), first, 1e-6);
  EXPECT_NEAR(at(3, 0), second, 1e-6);
  EXPECT_EQ(at(4, 0), 0);
  EXPECT_NEAR(at(2, 1), std::tanh(0.375F + 0.5F * second), 1e-6);
  EXPECT_GT(at(4, 1), at(3, 1));
}

TEST_F(Forward, ReusedParamsAreThoseOfTheLastCallWhateverItsFeatures) {
  ASSERT_TRUE(program_.forward(args_));
  ASSERT_TRUE(program_.prepare(2, 5, {.lengths = true}));
  std::vector<char> workspace(*program_.workspace_size(2, 5, {.lengths = true}));
  const std::vector<int32_t> lengths = {5, 5};
  ForwardArgs with_lengths = args_;
  with_lengths.lengths = lengths.data();
  with_lengths.workspace = workspace.data();
  with_lengths.workspace_bytes = workspace.size();
  std::ranges::fill(w_, 1.0F);
  ASSERT_TRUE(program_.forward(with_lengths));
  EXPECT_NEAR(h_[0], std::tanh(0.75F), 1e-6);
  std::ranges::fill(h_, -9.0F);
  args_.reuse_params = true;
  ASSERT_TRUE(program_.forward(args_));
  EXPECT_NEAR(h_[0], std::tanh(0.75F), 1e-6);
}

Graph parsed(std::string_view text) {
  Result<Graph> graph = parse_graph(text);
  EXPECT_TRUE(graph) << graph.error().message;
  return graph.value_or(Graph{});
}

/// y[t] = x[t-2] + h[t-3] + h[t-1], h[t] = y[t].
constexpr std::string_view kDelayed = R"(graph Delayed() {
  input x: []
  state h: []
  %0 = input x @ 2 : []
  %1 = state h @ 3 : []
  %2 = add %0, %1 : []
  %3 = state h @ 1 : []
  %4 = add %2, %3 : []
  %5 = const 0.5 : []
  %6 = input x @ 5 : []
  init h = %5
  next h = %4
  output y = %4
}
)";

TEST(Program, StatesOfDelaysAreInTheSignature) {
  const Result<Program> program = Program::compile(parsed(kDelayed), {});
  ASSERT_TRUE(program) << program.error().message;
  std::vector<std::string> names;
  for (const ArrayInfo& state : program->signature().states) names.push_back(state.name);
  // Not those of x[t-5], which nothing needs.
  EXPECT_EQ(names, (std::vector<std::string>{"h", "x@1", "x@2", "h@2", "h@3"}));
  EXPECT_TRUE(program->signature().streams);
  EXPECT_EQ(program->signature().in_reverse, "");
}

/// A call of two steps of one sequence, x = 10, 20; of a program prepared for that.
struct TwoSteps {
  explicit TwoSteps(const Program& program) : workspace(*program.workspace_size(1, 2)) {
    args.steps = 2;
    args.batch = 1;
    args.inputs = inputs;
    args.outputs = outputs;
    args.workspace = workspace.data();
    args.workspace_bytes = workspace.size();
  }
  TwoSteps(const TwoSteps&) = delete;  // arguments point to members

  std::vector<char> workspace;
  std::vector<double> x = {10, 20};
  std::vector<double> y = {0, 0};
  std::vector<const void*> inputs = {x.data()};
  std::vector<void*> outputs = {y.data()};
  ForwardArgs args;
};

TEST(Program, DelaysOfAGivenStateStartAsItDoes) {
  Result<Program> program = Program::compile(parsed(kDelayed), {.dtype = DType::f64});
  ASSERT_TRUE(program) << program.error().message;
  ASSERT_TRUE(program->prepare(1, 2));
  TwoSteps call(*program);
  const auto run = [&](std::vector<const void*> initial) {
    call.args.initial_states = initial;
    const Status status = program->forward(call.args);
    EXPECT_TRUE(status) << status.error().message;
    return call.y;
  };
  const double one = 1;
  const double four = 4;
  EXPECT_EQ(run({}), (std::vector<double>{1, 1.5}));
  EXPECT_EQ(run({&one, nullptr, nullptr, nullptr, nullptr}), (std::vector<double>{2, 3}));
  EXPECT_EQ(run({&one, nullptr, nullptr, nullptr, &four}), (std::vector<double>{5, 6}));
  EXPECT_EQ(run({nullptr, nullptr, nullptr, nullptr, &four}), (std::vector<double>{4.5, 5}));
  // Of inputs, what is not given is zero.
  EXPECT_EQ(run({nullptr, &four, nullptr, nullptr, nullptr}), (std::vector<double>{1, 5.5}));
}

TEST(Program, HistoriesAreGivenWithTheirStates) {
  std::string far(kDelayed);
  far.replace(far.find("h @ 3"), 5, "h @ 13");
  Result<Program> program = Program::compile(parsed(far), {.dtype = DType::f64});
  ASSERT_TRUE(program) << program.error().message;
  const std::vector<ArrayInfo>& states = program->signature().states;
  ASSERT_EQ(states.size(), 4u);
  EXPECT_EQ(states[3].name, "h@history");
  EXPECT_EQ(states[3].shape, (std::vector<int64_t>{12}));
  ASSERT_TRUE(program->prepare(1, 2));
  TwoSteps call(*program);
  const double one = 1;
  // h[t-13], h[t-12] and so on.
  const std::vector<double> before = {2, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
  std::vector<const void*> initial = {&one, nullptr, nullptr, before.data()};
  call.args.initial_states = initial;
  ASSERT_TRUE(program->forward(call.args));
  EXPECT_EQ(call.y, (std::vector<double>{3, 6}));
  initial[3] = nullptr;
  const Status status = program->forward(call.args);
  ASSERT_FALSE(status);
  const std::string problem =
      "initial state `h` is given without `h@history`, its values of the 12 steps before; give "
      "both, as a call that writes final states leaves them";
  EXPECT_EQ(status.error().message, problem);
  const Status training =
      program->prepare_training(1, 2, {.given_states = {true, false, false, false}});
  ASSERT_FALSE(training);
  EXPECT_EQ(training.error().message, "training: " + problem);
}

TEST(Program, SaysWhatRunsInReverse) {
  CompileOptions reversed = options();
  reversed.reverse = true;
  const Program program = compile(reversed);
  EXPECT_FALSE(program.signature().streams);
  EXPECT_EQ(program.signature().in_reverse, "it");
  const Graph layer = parsed(R"(graph Net() {
  input x: []
  state GRU.1.h: [] reversed
  %0 = input x : []
  %1 = reverse %0 : []
  %2 = state GRU.1.h @ 1 : []
  %3 = add %1, %2 : []
  %4 = reverse %3 : []
  %5 = const 0 : []
  init GRU.1.h = %5
  next GRU.1.h = %3
  output y = %4
}
)");
  const Result<Program> network = Program::compile(layer, {});
  ASSERT_TRUE(network) << network.error().message;
  EXPECT_FALSE(network->signature().streams);
  EXPECT_EQ(network->signature().in_reverse, "layer `GRU.1`");
  const Result<Program> twice = Program::compile(layer, {.reverse = true});
  ASSERT_FALSE(twice);
  EXPECT_EQ(twice.error().message,
            "`Net` cannot be reversed: layer `GRU.1` runs in reverse already");
}

TEST(Program, WorkspaceGrowsWithTheSequenceWhereALayerRunsInReverse) {
  CompileOptions reversed = options();
  reversed.reverse = true;
  reversed.chunk = 4;
  Program program = compile(reversed);
  ASSERT_TRUE(program.prepare(2, 8));
  const size_t eight = *program.workspace_size(2, 8);
  const size_t four = *program.workspace_size(2, 4);
  ASSERT_TRUE(program.prepare(2, 100));
  EXPECT_EQ(*program.workspace_size(2, 8), eight);
  EXPECT_EQ(*program.workspace_size(2, 12) - eight, eight - four);
  EXPECT_GT(eight, four);
  EXPECT_EQ(*program.workspace_size(2, 100) - eight, 23 * (eight - four));
}

}  // namespace
}  // namespace rnnc
#endif
