// Which stages of a wave run in which round, and which of them side by side.
#include "runtime/cuda/rounds.h"

#include <gtest/gtest.h>

#include <fmt/ranges.h>

#include <algorithm>

#include "passes/build_plan.h"
#include "passes/gradient/differentiate.h"
#include "passes/graph/pipeline.h"
#include "tests/cuda/modules.h"
#include "tests/support/cells/networks.h"

namespace rnnc::cuda {
namespace {

constexpr int64_t kWidth = 32;
constexpr int64_t kBatch = 4;
constexpr int64_t kChunk = 8;

/// "0 2 | 1+3" for Sequence stages 0 and 2 and one branch of the chains 1 and 3; chains of several
/// stages "(1 3)".
std::string rounds_text(const Plan& plan) {
  std::string text;
  for (const Round& round : find_rounds(plan, test::fused_module(plan), 0)) {
    text += text.empty() ? "" : "; ";
    text += fmt::format("{} |", fmt::join(round.sequences, " "));
    for (const Branch& branch : round.branches) {
      std::string chains;
      for (const Chain& chain : branch.chains) {
        const bool several = chain.stages.size() > 1;
        chains += fmt::format("{}{}{}{}", chains.empty() ? "" : "+", several ? "(" : "",
                              fmt::join(chain.stages, " "), several ? ")" : "");
      }
      text += " " + chains;
    }
  }
  return text;
}

/// Layers h' = tanh(p + R @ h): a Sequence stage that makes p from the layer's input, and a Step
/// stage.
class RoundsTest : public testing::Test {
 protected:
  RoundsTest() {
    plan_.batch = kBatch;
    plan_.chunk = kChunk;
    x_ = add_buffer(Placement::Caller, Extent::Steps, kWidth);
    Kernel kernel;
    kernel.length = kWidth;
    kernel.arguments = {
        {.vector = true}, {.vector = true, .product = true}, {.vector = true, .written = true}};
    using Kind = Instruction::Kind;
    const auto add = [&kernel](Kind kind, Op op, uint32_t argument,
                               std::vector<uint32_t> operands) {
      kernel.body.push_back({.kind = kind,
                             .op = op,
                             .vector = true,
                             .argument = argument,
                             .operands = std::move(operands)});
    };
    add(Kind::Load, {}, 0, {});
    add(Kind::Load, {}, 1, {});
    add(Kind::Scalar, Op::Add, 0, {0, 1});
    add(Kind::Scalar, Op::Tanh, 0, {2});
    add(Kind::Store, {}, 2, {3});
    plan_.kernels = {kernel};
  }

  BufferId add_buffer(Placement placement, Extent extent, int64_t width, uint32_t history = 0) {
    Buffer buffer;
    buffer.placement = placement;
    buffer.extent = extent;
    buffer.width = width;
    buffer.history = history;
    buffer.offset = end_;
    plan_.buffers.push_back(buffer);
    end_ += byte_size(plan_, buffer);
    return static_cast<BufferId>(plan_.buffers.size() - 1);
  }

  Access access(BufferId buffer, uint32_t delay = 0) const {
    const Buffer& of = plan_.buffers[buffer];
    return {buffer, delay, 0, of.extent == Extent::Invariant ? 0 : of.width};
  }

  struct Layer {
    BufferId p = kNoBuffer;
    BufferId h = kNoBuffer;
  };
  struct LayerOptions {
    uint32_t lag = 0;
    BufferId p = kNoBuffer;  // an own one
  };

  /// Of what `from` holds a wave before, if it lies behind.
  Layer add_layer(BufferId from, LayerOptions options) {
    Layer layer;
    layer.p = options.p != kNoBuffer ? options.p
                                     : add_buffer(Placement::Workspace, Extent::Chunk, kWidth);
    layer.h = add_buffer(Placement::Program, Extent::Chunk, kWidth, 1 + kChunk);
    const auto weight = [this] {
      return access(add_buffer(Placement::Program, Extent::Invariant, kWidth * kWidth));
    };
    add_stage(Domain::Sequence, options.lag,
              GemmLaunch{.left = access(from),
                         .weight = weight(),
                         .out = access(layer.p),
                         .n = kWidth,
                         .k = kWidth});
    FusedLaunch fused;
    fused.accesses = {access(layer.p), {}, access(layer.h)};
    fused.products = {
        {.left = access(layer.h, 1), .weight = weight(), .k = kWidth, .first_argument = 1}};
    add_stage(Domain::Step, options.lag, fused);
    return layer;
  }

  void add_stage(Domain domain, uint32_t lag, Launch launch) {
    Stage stage;
    stage.domain = domain;
    stage.lag = lag;
    stage.launches.push_back(std::move(launch));
    plan_.stages.push_back(std::move(stage));
  }

  std::string rounds() const { return rounds_text(plan_); }

  Plan plan_;
  int64_t end_ = 0;
  BufferId x_ = kNoBuffer;
};

TEST_F(RoundsTest, LayersOfOneShapeGoTogether) {
  const Layer first = add_layer(x_, {.lag = 0});
  const Layer second = add_layer(first.h, {.lag = 1});
  add_layer(second.h, {.lag = 2});
  EXPECT_EQ(rounds(), "0 2 4 | 1+3+5");
}

TEST_F(RoundsTest, WithoutLagsALayerWaitsForTheOneBelow) {
  const Layer first = add_layer(x_, {});
  add_layer(first.h, {});
  EXPECT_EQ(rounds(), "0 | 1; 2 | 3");
}

TEST_F(RoundsTest, IndependentStagesOfOneLagGoTogether) {
  add_layer(x_, {});
  add_layer(x_, {});
  EXPECT_EQ(rounds(), "0 2 | 1+3");
}

TEST_F(RoundsTest, NotIfTheyShareMemory) {
  const Layer first = add_layer(x_, {});
  const BufferId shared = add_buffer(Placement::Workspace, Extent::Chunk, kWidth);
  plan_.buffers[shared].offset = plan_.buffers[first.p].offset;
  add_layer(x_, {.p = shared});
  EXPECT_EQ(rounds(), "0 | 1; 2 | 3");
}

TEST_F(RoundsTest, ResidentAndWorkspaceOffsetsAreNotCompared) {
  const Layer first = add_layer(x_, {});
  const BufferId elsewhere = add_buffer(Placement::Program, Extent::Chunk, kWidth);
  plan_.buffers[elsewhere].offset = plan_.buffers[first.p].offset;
  add_layer(x_, {.p = elsewhere});
  EXPECT_EQ(rounds(), "0 2 | 1+3");
}

// One writes the left half of an output's rows, the other the right half.
TEST_F(RoundsTest, ColumnsOfOneBufferAreTwoPlaces) {
  const BufferId both = add_buffer(Placement::Caller, Extent::Steps, 2 * kWidth);
  add_layer(x_, {});
  add_layer(x_, {});
  for (const size_t stage : {1, 3}) {
    auto& fused = std::get<FusedLaunch>(plan_.stages[stage].launches[0]);
    fused.accesses[2] = access(both);
    fused.accesses[2].column = stage == 1 ? 0 : kWidth;
  }
  EXPECT_EQ(rounds(), "0 2 | 1+3");
  std::get<FusedLaunch>(plan_.stages[3].launches[0]).accesses[2].column = kWidth - 1;
  EXPECT_EQ(rounds(), "0 2 | (1 3)");
}

// Step stages that depend on one another are one chain, each over its whole chunk.
TEST_F(RoundsTest, DependentStepStagesAreOneLane) {
  const Layer first = add_layer(x_, {});
  add_layer(first.h, {});
  plan_.stages.erase(plan_.stages.begin() + 2);
  std::get<FusedLaunch>(plan_.stages[2].launches[0]).accesses[0] = access(first.h);
  EXPECT_EQ(rounds(), "0 | (1 2)");
}

// The last layer stores the network's output, too.
TEST_F(RoundsTest, LayersThatDifferInStoresGoTogether) {
  const Layer first = add_layer(x_, {.lag = 0});
  add_layer(first.h, {.lag = 1});
  Kernel kernel = plan_.kernels[0];
  kernel.arguments.push_back({.dtype = DType::bf16, .vector = true, .written = true});
  kernel.body.push_back(
      {.kind = Instruction::Kind::Store, .vector = true, .argument = 3, .operands = {3}});
  plan_.kernels.push_back(kernel);
  auto& last = std::get<FusedLaunch>(plan_.stages[3].launches[0]);
  last.kernel = 1;
  last.accesses.push_back(access(add_buffer(Placement::Caller, Extent::Steps, kWidth)));
  EXPECT_EQ(rounds(), "0 2 | 1+3");
  // Not if they compute something else.
  plan_.kernels[1].body[3].op = Op::Relu;
  EXPECT_EQ(rounds(), "0 2 | 1 3");
}

TEST(RoundsOfNetworks, LayersAreInstancesOfOneLaunch) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    Graph graph = test::network("Stack", 32);
    ASSERT_TRUE(run_pipeline(graph, {}).has_value());
    const Result<Plan> plan =
        build_plan(graph, {.dtype = dtype, .batch = 4, .max_steps = 40, .chunk = 8});
    ASSERT_TRUE(plan.has_value()) << plan.error().message;
    const CudaModule module = test::fused_module(*plan);
    const auto fused = test::shapes<CudaFusedShape>(module);
    ASSERT_EQ(fused.size(), 1u);
    EXPECT_EQ(fused[0].most_instances, 3u);
    const std::vector<Round> rounds = find_rounds(*plan, module, 0);
    ASSERT_EQ(rounds.size(), 1u) << rounds_text(*plan);
    ASSERT_EQ(rounds[0].branches.size(), 1u) << rounds_text(*plan);
    ASSERT_EQ(rounds[0].branches[0].chains.size(), 3u) << rounds_text(*plan);
    for (const Chain& chain : rounds[0].branches[0].chains) {
      ASSERT_EQ(chain.stages.size(), 1u);
      EXPECT_EQ(plan->stages[chain.stages[0]].launches.size(), 1u);
    }
  }
}

TEST(RoundsOfNetworks, ResidentLayersAreOnStreamsOfTheirOwn) {
  const Graph graph = test::network("Stack", 32);
  const PassSet apart = PassSet::all().without(Pass::Stack);
  PlanOptions options = {
      .batch = 4, .max_steps = 400, .chunk = 8, .passes = apart, .machine = h200_machine()};
  const auto sides = [&]() -> uint32_t {
    const Result<Plan> plan = build_plan(graph, options);
    RNNC_CHECK(plan.has_value(), "{}", plan.error().message);
    const std::vector<Round> rounds = find_rounds(*plan, test::fused_module(*plan), 0);
    return rounds.size() == 1 ? rounds[0].streams : 0;
  };
  EXPECT_EQ(sides(), 3u);
  options.passes = apart.without(Pass::Wavefront);
  EXPECT_EQ(sides(), 1u);
}

TEST(RoundsOfNetworks, ExchangesAreClearedBesideProducts) {
  const PlanOptions options = {.dtype = DType::bf16,
                               .batch = 16,
                               .max_steps = 40,
                               .chunk = 40,
                               .passes = PassSet::all(),
                               .machine = h200_machine()};
  Result<Plan> plan = build_plan(test::tower({"Gated"}, 1024), options);
  ASSERT_TRUE(plan.has_value()) << plan.error().message;
  const auto cleared = [&] {
    const std::vector<Round> rounds = find_rounds(*plan, test::fused_module(*plan), 0);
    return rounds.size() == 1 ? rounds[0].cleared_early : std::vector<size_t>{SIZE_MAX};
  };
  BufferId exchange = kNoBuffer;
  size_t recurrence = SIZE_MAX;
  const Access* made = nullptr;
  for (size_t i = 0; i < plan->stages.size(); ++i) {
    for (const Launch& launch : plan->stages[i].launches) {
      if (const auto* gemm = std::get_if<GemmLaunch>(&launch)) made = &gemm->out;
      if (const auto* resident = std::get_if<RecurrenceLaunch>(&launch)) {
        recurrence = i;
        exchange = resident->exchange;
      }
    }
  }
  ASSERT_NE(exchange, kNoBuffer);
  ASSERT_NE(made, nullptr);
  EXPECT_EQ(cleared(), std::vector<size_t>{recurrence});
  // Not if the products lie there until the recurrence has read them, nor if there are none.
  const Buffer apart = plan->buffers[exchange];
  plan->buffers[exchange].placement = plan->buffers[made->buffer].placement;
  plan->buffers[exchange].extent = plan->buffers[made->buffer].extent;
  plan->buffers[exchange].offset = plan->buffers[made->buffer].offset;
  EXPECT_EQ(cleared(), std::vector<size_t>{});
  plan->buffers[exchange] = apart;
  for (Stage& stage : plan->stages) {
    std::erase_if(stage.launches,
                  [](const Launch& launch) { return std::holds_alternative<GemmLaunch>(launch); });
  }
  EXPECT_EQ(cleared(), std::vector<size_t>{});
}

TEST(RoundsOfNetworks, ExchangesOfABackwardHalfAreClearedAhead) {
  const PlanOptions options = {.dtype = DType::bf16,
                               .batch = 16,
                               .max_steps = 40,
                               .chunk = 8,
                               .passes = PassSet::all(),
                               .machine = h200_machine()};
  Graph graph = test::tower({"Gated"}, 1024);
  ASSERT_TRUE(run_pipeline(graph, {.training = true}));
  const Derivative derivative = differentiate(
      graph, DifferentiateOptions::all(graph, std::vector<bool>(graph.states.size(), false)));
  Result<Plan> plan = build_plan(derivative.backward, options);
  ASSERT_TRUE(plan.has_value()) << plan.error().message;
  const auto ahead = [&] {
    const std::vector<Round> rounds = find_rounds(*plan, test::fused_module(*plan), 0);
    return rounds.size() == 1 ? rounds[0].cleared_ahead : std::vector<size_t>{SIZE_MAX};
  };
  size_t recurrence = SIZE_MAX;
  BufferId exchange = kNoBuffer;
  for (size_t i = 0; i < plan->stages.size(); ++i) {
    if (!is_resident(plan->stages[i])) continue;
    recurrence = i;
    exchange = std::get<RecurrenceLaunch>(plan->stages[i].launches[0]).exchange;
  }
  ASSERT_NE(exchange, kNoBuffer);
  EXPECT_EQ(ahead(), std::vector<size_t>{recurrence});
  // Not where another stage has something in the same place.
  const auto other = std::ranges::find_if(plan->buffers, [](const Buffer& buffer) {
    return buffer.extent == Extent::Chunk && buffer.placement == Placement::Workspace;
  });
  plan->buffers[exchange].offset = other->offset;
  EXPECT_EQ(ahead(), std::vector<size_t>{});
}

TEST_F(RoundsTest, OtherLaunchesAreBranchesOfTheirOwn) {
  const Layer first = add_layer(x_, {.lag = 0});
  add_layer(first.h, {.lag = 1});
  ElementwiseLaunch copy;
  copy.kernel = 1;
  copy.accesses = {access(first.h, kChunk),
                   access(add_buffer(Placement::Workspace, Extent::Chunk, kWidth))};
  Kernel kernel;
  kernel.length = kWidth;
  kernel.arguments = {{.vector = true}, {.vector = true, .written = true}};
  plan_.kernels.push_back(kernel);
  add_stage(Domain::Step, 2, copy);
  EXPECT_EQ(rounds(), "0 2 | 1+3 4");
}

TEST_F(RoundsTest, OfOtherSweepsAreNotTheirs) {
  add_layer(x_, {});
  add_layer(x_, {});
  plan_.stages[2].sweep = plan_.stages[3].sweep = 1;
  EXPECT_EQ(rounds(), "0 | 1");
}

}  // namespace
}  // namespace rnnc::cuda
