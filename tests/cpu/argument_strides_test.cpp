// What the code of kernels takes for granted about their arguments.
#include "codegen/cpu/argument_strides.h"

#include <gtest/gtest.h>

#include "tests/cpu/plan_maker.h"

namespace rnnc::test {
namespace {

constexpr int64_t kWidth = 48;

TEST(ArgumentStrides, AreThoseOfAllLaunches) {
  PlanMaker maker(DType::f32, 2, 4, kWidth);
  const Access near = maker.chunk("near", kWidth);
  Access far = maker.chunk("far", 3 * kWidth);
  far.column = kWidth;
  ElementwiseLaunch launch = maker.twice(maker.input, near, kWidth);
  maker.stage(Domain::Sequence).launches.emplace_back(launch);
  EXPECT_EQ(argument_strides(maker.plan)[0], (ArgumentStrides{kWidth, kWidth}));

  launch.accesses[1] = far;
  maker.stage(Domain::Step).launches.emplace_back(launch);
  EXPECT_EQ(argument_strides(maker.plan)[0], (ArgumentStrides{kWidth, std::nullopt}));

  launch.accesses[1] = near;
  maker.stage(Domain::Step).launches.emplace_back(launch);
  EXPECT_EQ(argument_strides(maker.plan)[0], (ArgumentStrides{kWidth, std::nullopt}))
      << "what two launches disagree on stays unknown";
}

TEST(ArgumentStrides, OfStatesCountToo) {
  PlanMaker maker(DType::f32, 2, 4, kWidth);
  maker.state("h", kWidth);
  EXPECT_EQ(argument_strides(maker.plan)[0], ArgumentStrides{kWidth});
}

TEST(ArgumentStrides, OfProductsAndOfUnusedKernelsAreUnknown) {
  PlanMaker maker(DType::f32, 2, 4, kWidth);
  const Access out = maker.chunk("out", kWidth);
  FusedLaunch fused;
  fused.kernel = maker.twice({}, out, kWidth).kernel;
  EXPECT_EQ(argument_strides(maker.plan)[0], (ArgumentStrides{std::nullopt, std::nullopt}));
  maker.plan.kernels[0].arguments[0].product = true;
  fused.accesses = {{}, out};
  maker.stage(Domain::Step).launches.emplace_back(fused);
  EXPECT_EQ(argument_strides(maker.plan)[0], (ArgumentStrides{std::nullopt, kWidth}));
}

}  // namespace
}  // namespace rnnc::test
