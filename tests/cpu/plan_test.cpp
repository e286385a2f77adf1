// Launches that need a plan around them: hand-made plans through the CPU backend, against loops.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tests/cpu/plan_maker.h"

namespace rnnc::test {
namespace {

class Plans : public testing::TestWithParam<DType> {};

constexpr int64_t kSteps = 10;
constexpr int64_t kBatch = 3;

int64_t length_of(const Call& call, int64_t b) {
  return call.lengths.empty() ? call.steps : std::clamp<int64_t>(call.lengths[b], 0, call.steps);
}

/// Twice row (L - 1 - t, b) of the input, or zero.
Values twice_reversed(const Call& call, int64_t width) {
  Values expected(call.input.size(), 0);
  for (int64_t t = 0; t < call.steps; ++t) {
    for (int64_t b = 0; b < kBatch; ++b) {
      const int64_t from = length_of(call, b) - 1 - t;
      for (int64_t i = 0; i < width && from >= 0; ++i) {
        expected[(t * kBatch + b) * width + i] = 2 * call.input[(from * kBatch + b) * width + i];
      }
    }
  }
  return expected;
}

TEST_P(Plans, ReverseAnInput) {
  PlanMaker maker(GetParam(), kBatch, 4, 5);
  const Access reversed = maker.chunk("reversed", 5);
  const Access output = maker.output(5);
  const ElementwiseLaunch twice = maker.twice(reversed, output, 5);
  maker.stage(Domain::Sequence).launches = {ReverseLaunch{maker.input, reversed, 5}, twice};
  Call call = {.steps = kSteps,
               .input = random_values(kSteps * kBatch * 5),
               .param = {},
               .lengths = {},
               .reset = {}};
  EXPECT_EQ(run(maker.plan, call)[0], twice_reversed(call, 5));
  for (const std::vector<int32_t>& lengths :
       {std::vector<int32_t>{0, 10, 7}, {1, 4, 5}, {-3, 99, 8}}) {
    call.lengths = lengths;
    EXPECT_EQ(run(maker.plan, call)[0], twice_reversed(call, 5));
  }
}

TEST_P(Plans, ReverseWhatAnEarlierSweepComputed) {
  PlanMaker maker(GetParam(), kBatch, 4, 5);
  const Access unused = maker.steps("before it in memory", 3);
  const Access doubled = maker.steps("doubled", 5);
  const Access reversed = maker.chunk("reversed", 5);
  const Access output = maker.output(5);
  const ElementwiseLaunch twice = maker.twice(maker.input, doubled, 5);
  const ElementwiseLaunch again = maker.twice(reversed, output, 5);
  const ElementwiseLaunch other = maker.twice(maker.input, unused, 3);
  maker.plan.sweeps = 2;
  maker.stage(Domain::Sequence).launches = {twice, other};
  maker.stage(Domain::Sequence, 1).launches = {ReverseLaunch{doubled, reversed, 5}, again};
  for (const int64_t steps : {1, 4, 9}) {
    Call call = {.steps = steps,
                 .input = random_values(steps * kBatch * 5),
                 .param = {},
                 .lengths = {2, 9, 0},
                 .reset = {}};
    Values expected = twice_reversed(call, 5);
    for (double& value : expected) value *= 2;
    EXPECT_EQ(run(maker.plan, call)[0], expected);
  }
}

TEST_P(Plans, FillMasks) {
  using Kind = MaskLaunch::Kind;
  PlanMaker maker(GetParam(), kBatch, 4, 1);
  std::vector<Launch> launches;
  for (const Kind kind : {Kind::Valid, Kind::Reset, Kind::ResetReverse}) {
    const Access mask = maker.chunk("mask", 1);
    launches.emplace_back(MaskLaunch{kind, mask});
    launches.emplace_back(maker.twice(mask, maker.output(1), 1));
  }
  maker.stage(Domain::Sequence).launches = launches;
  Call call = {.steps = kSteps,
               .input = random_values(kSteps * kBatch),
               .param = {},
               .lengths = {},
               .reset = {}};
  EXPECT_EQ(run(maker.plan, call),
            (std::vector<Values>{Values(30, 2), Values(30, 0), Values(30, 0)}));
  std::mt19937 generator(3);
  std::vector<uint8_t> reset(kSteps * kBatch);
  for (uint8_t& value : reset) value = generator() % 3 == 0 ? 255 : 0;
  for (const std::vector<int32_t>& lengths : {std::vector<int32_t>{}, {0, 10, 7}, {-1, 11, 1}}) {
    call.lengths = lengths;
    call.reset = reset;
    std::vector<Values> expected(3, Values(kSteps * kBatch));
    for (int64_t t = 0; t < kSteps; ++t) {
      for (int64_t b = 0; b < kBatch; ++b) {
        const int64_t length = length_of(call, b);
        const int64_t at = t * kBatch + b;
        expected[0][at] = t < length ? 2 : 0;
        expected[1][at] = reset[at] != 0 ? 2 : 0;
        const bool crossing = t > 0 && t < length && reset[(length - t) * kBatch + b] != 0;
        expected[2][at] = crossing ? 2 : 0;
      }
    }
    EXPECT_EQ(run(maker.plan, call), expected);
  }
}

struct Product {
  int64_t blocks, n, k, steps;
};

TEST_P(Plans, MultiplyByBlocks) {
  for (const Product& product : {Product{3, 5, 7, 6}, {1, 9, 4, 3}, {4, 1, 3, 2}, {5, 70, 65, 8}}) {
    for (const bool transposed : {false, true}) {
      const auto& [blocks, n, k, steps] = product;
      SCOPED_TRACE(fmt::format("{} blocks of {} x {}, transposed {}", blocks, n, k, transposed));
      PlanMaker maker(GetParam(), kBatch, 4, blocks * k);
      const Access weight = maker.param(blocks * n * k);
      const Access out = maker.chunk("out", blocks * n);
      const ElementwiseLaunch twice = maker.twice(out, maker.output(blocks * n), blocks * n);
      maker.stage(Domain::Sequence).launches = {
          GemmLaunch{maker.input, weight, out, n, k, transposed, 1, blocks}, twice};
      Call call = {.steps = steps,
                   .input = random_values(steps * kBatch * blocks * k),
                   .param = random_values(blocks * n * k),
                   .lengths = {},
                   .reset = {}};
      Values expected;
      for (int64_t row = 0; row < steps * kBatch; ++row) {
        for (int64_t column = 0; column < blocks * n; ++column) {
          const int64_t block = column / n;
          const int64_t j = column % n;
          double sum = 0;
          for (int64_t i = 0; i < k; ++i) {
            const int64_t at = transposed ? i * n + j : j * k + i;
            sum += call.input[(row * blocks + block) * k + i] * call.param[block * n * k + at];
          }
          expected.push_back(2 * sum);
        }
      }
      // Multiples of 2^-12 below 2^7: exact in f32 too.
      EXPECT_EQ(run(maker.plan, call)[0], expected);
      call.threads = 3;
      EXPECT_EQ(run(maker.plan, call)[0], expected);
    }
  }
}

TEST_P(Plans, CopyMatrices) {
  for (const bool transposed : {false, true}) {
    PlanMaker maker(GetParam(), 1, 4, 1);
    const Access matrix = maker.param(5 * 7);
    Access copy = maker.invariant("copies", 40);
    CopyLaunch launch = {matrix, copy, 5, 7, transposed};
    launch.target.column = 3;
    CopyLaunch start = {matrix, copy, 1, 3, false};
    start.source.column = 30;
    CopyLaunch end = {matrix, copy, 2, 1, false};
    end.target.column = 38;
    const ElementwiseLaunch twice = maker.twice(copy, maker.output(40), 40);
    maker.stage(Domain::Once).launches = {launch, start, end};
    maker.stage(Domain::Sequence).launches = {twice};
    const Call call = {
        .steps = 1, .input = {1}, .param = random_values(35), .lengths = {}, .reset = {}};
    const Values got = run(maker.plan, call)[0];
    for (int64_t row = 0; row < 5; ++row) {
      for (int64_t column = 0; column < 7; ++column) {
        const int64_t at = transposed ? column * 5 + row : row * 7 + column;
        EXPECT_EQ(got[3 + at], 2 * call.param[row * 7 + column]);
      }
    }
    EXPECT_EQ(got[2], 2 * call.param[32]);
    EXPECT_EQ(got[39], 2 * call.param[1]);
  }
}

TEST_P(Plans, CopyRows) {
  PlanMaker maker(GetParam(), 1, 4, 1);
  const Access matrix = maker.param(5 * 7);
  const Access copy = maker.invariant("copies", 35);
  const ElementwiseLaunch twice = maker.twice(copy, maker.output(35), 35);
  CopyLaunch launch = {matrix, copy, 5, 3, false};
  launch.source.column = 2;
  launch.source.stride = 7;
  launch.target.column = 1;
  launch.target.stride = 6;
  maker.stage(Domain::Once).launches = {CopyLaunch{matrix, copy, 1, 35, false}, launch};
  maker.stage(Domain::Sequence).launches = {twice};
  const Call call = {
      .steps = 1, .input = {1}, .param = random_values(35), .lengths = {}, .reset = {}};
  const Values got = run(maker.plan, call)[0];
  for (int64_t row = 0; row < 5; ++row) {
    for (int64_t column = 0; column < 3; ++column) {
      EXPECT_EQ(got[1 + row * 6 + column], 2 * call.param[2 + row * 7 + column]);
    }
    EXPECT_EQ(got[row * 6], 2 * call.param[row * 6]);
    EXPECT_EQ(got[4 + row * 6], 2 * call.param[4 + row * 6]);
  }
}

INSTANTIATE_TEST_SUITE_P(Types, Plans, testing::Values(DType::f32, DType::f64),
                         [](const auto& test) { return std::string(to_string(test.param)); });

}  // namespace
}  // namespace rnnc::test
