// Each test breaks a good plan in one way; the verifier names it.
#include <gtest/gtest.h>

#include <functional>

#include "passes/build_plan.h"
#include "tests/passes/cases.h"

namespace rnnc::test {
namespace {

constexpr char kSweeps[] = "bidirectional";

/// Of the plan of a case after `damage`.
std::string complaint(const std::function<void(Plan&)>& damage,
                      const std::string& name = "gru_reset_before") {
  Plan plan =
      *build_plan(load_case(name), {.batch = 2, .max_steps = 8, .lengths = name == kSweeps});
  damage(plan);
  const Status status = verify(plan);
  return status ? "none" : status.error().message;
}

Buffer& temporary(Plan& plan, std::string_view name) {
  for (Buffer& buffer : plan.buffers) {
    if (buffer.placement != Placement::Caller && buffer.name == name) return buffer;
  }
  RNNC_CHECK(false, "no buffer {}", name);
  return plan.buffers[0];
}

Stage& step(Plan& plan) {
  return plan.stages.back();
}

template <typename L>
L& launch(Stage& stage, size_t index) {
  return std::get<L>(stage.launches[index]);
}

TEST(PlanVerify, AcceptsWhatBuildPlanMakes) {
  EXPECT_EQ(complaint([](Plan&) {}), "none");
}

TEST(PlanVerify, Buffers) {
  EXPECT_EQ(complaint([](Plan& p) { temporary(p, "h").offset += 8; }), "buffer h is not aligned");
  EXPECT_EQ(
      complaint([](Plan& p) { temporary(p, "products of h").offset = temporary(p, "h").offset; }),
      "buffer products of h overlaps another");
  EXPECT_EQ(complaint([](Plan& p) { p.resident_bytes -= 256; }),
            "the resident memory is too small");
  EXPECT_EQ(complaint([](Plan& p) { temporary(p, "h").extent = Extent::Steps; }),
            "buffer h: whole sequences are the caller's or in the workspace");
  EXPECT_EQ(complaint([](Plan& p) { temporary(p, "h").placement = Placement::Caller; }),
            "buffer h: only temporaries lie in the program's memory");
}

TEST(PlanVerify, Kernels) {
  EXPECT_EQ(complaint([](Plan& p) { p.kernels[0].body[2].operands = {2, 1}; }),
            "kernel elementwise_0: %2 takes %2, which is no earlier value");
  EXPECT_EQ(complaint([](Plan& p) { p.kernels[0].body[2].operands = {0}; }),
            "kernel elementwise_0: %2 takes 2 operands, has 1");
  EXPECT_EQ(complaint([](Plan& p) { p.kernels[0].body[1].argument = 0; }),
            "kernel elementwise_0: argument a0 is used 2 times");
  EXPECT_EQ(complaint([](Plan& p) { p.kernels[0].arguments[0].vector = false; }),
            "kernel elementwise_0: %0: a0 is not a vector");
}

TEST(PlanVerify, Accesses) {
  EXPECT_EQ(
      complaint([](Plan& p) { launch<ElementwiseLaunch>(step(p), 1).accesses[0].column = 9; }),
      "stage 2: launch 1: columns from 9 are outside products of x");
  EXPECT_EQ(complaint([](Plan& p) { launch<ElementwiseLaunch>(step(p), 1).accesses[2].delay = 2; }),
            "stage 2: launch 1: h does not reach back 2 steps");
  EXPECT_EQ(
      complaint([](Plan& p) { launch<ElementwiseLaunch>(step(p), 1).accesses[2].stride = 0; }),
      "stage 2: launch 1: h has no stride of 0");
  EXPECT_EQ(complaint([](Plan& p) { launch<ElementwiseLaunch>(step(p), 1).accesses.pop_back(); }),
            "stage 2: launch 1: 4 arguments, 3 accesses");
  EXPECT_EQ(complaint([](Plan& p) { temporary(p, "products of h").dtype = DType::f64; }),
            "stage 2: launch 0: products of h is f64, not f32");
  EXPECT_EQ(complaint([](Plan& p) {
              ElementwiseLaunch& last = launch<ElementwiseLaunch>(step(p), 3);
              last.accesses[last.accesses.size() - 2].buffer = 0;
            }),
            "stage 2: launch 3: columns from 0 are outside x");
}

TEST(PlanVerify, Order) {
  EXPECT_EQ(complaint([](Plan& p) { std::swap(step(p).launches[1], step(p).launches[2]); }),
            "stage 2: launch 1: mul.17 is read before it is written");
  EXPECT_EQ(complaint([](Plan& p) { p.stages.erase(p.stages.begin()); }),
            "stage 0: launch 0: W_r|W_z|W_n is read before it is written");
  EXPECT_EQ(complaint([](Plan& p) { std::swap(p.stages[0], p.stages[1]); }),
            "a Once stage comes late");
  EXPECT_EQ(complaint([](Plan& p) { step(p).launches.pop_back(); }),
            "stage 2: h is read before it is written");
  EXPECT_EQ(complaint([](Plan& p) { p.states.clear(); }),
            "h has no value 1 steps before the first");
}

TEST(PlanVerify, ProductsOfRecurrencesStayInResidentMemory) {
  EXPECT_EQ(complaint([](Plan& p) {
              Buffer& buffer = temporary(p, "products of h");
              buffer.placement = Placement::Workspace;
              buffer.offset = p.workspace_bytes;
              p.workspace_bytes += 256;
            }),
            "stage 2: launch 0: a product of a recurrence touches products of h, which is not "
            "resident");
}

TEST(PlanVerify, Sweeps) {
  const auto complaint = [](const std::function<void(Plan&)>& damage) {
    return test::complaint(damage, kSweeps);
  };
  EXPECT_EQ(complaint([](Plan&) {}), "none");
  EXPECT_EQ(complaint([](Plan& p) { p.sweeps = 1; }), "stage 4: there is no sweep 1");
  EXPECT_EQ(complaint([](Plan& p) { p.stages.back().sweep = 0; }),
            "stage 4: launch 1: tanh.15 is reversed in the sweep that writes it");
  EXPECT_EQ(complaint([](Plan& p) { p.stages[1].sweep = 1; }),
            "stage 2: sweep 0 comes after sweep 1");
  EXPECT_EQ(complaint([](Plan& p) { temporary(p, "h_back").sweep = 1; }),
            "stage 3: launch 0: h_back belongs to sweep 1");
  EXPECT_EQ(complaint([](Plan& p) { p.workspace_bytes_per_step -= 256; }),
            "the workspace per step is too small");
  EXPECT_EQ(complaint([](Plan& p) { launch<ReverseLaunch>(p.stages.back(), 1).width = 5; }),
            "stage 4: launch 1: columns from 0 are outside tanh.15");
  EXPECT_EQ(
      complaint([](Plan& p) { p.stages.back().launches.erase(p.stages.back().launches.begin()); }),
      "stage 4: launch 2: valid.19 is read before it is written");
  EXPECT_EQ(complaint([](Plan& p) { launch<MaskLaunch>(p.stages[1], 0).target.buffer = 0; }),
            "stage 1: launch 0: x has no stride of 1");
}

}  // namespace
}  // namespace rnnc::test
