// A plan made by hand with every kind of launch, in two sweeps: its text, its execution, and each
// way to break it.
#include "ir/plan/plan.h"

#include <gtest/gtest.h>

#include <functional>

#include "ir/plan/plan_parse.h"
#include "tests/support/reference/plan_executor.h"

namespace rnnc {
namespace {

using Values = std::vector<double>;

enum Id : BufferId { kX, kP, kOut, kEyeOut, kGiven, kFinal, kW, kEye, kSums, kY, kR, kV, kH };

Buffer caller(std::string name, Role role, Extent extent, int64_t width, uint32_t slot = 0) {
  Buffer buffer{.name = std::move(name), .dtype = DType::f64};
  buffer.placement = Placement::Caller;
  buffer.role = role;
  buffer.extent = extent;
  buffer.width = width;
  buffer.slot = slot;
  return buffer;
}

Buffer own(std::string name, Placement placement, Extent extent, int64_t width, int64_t offset) {
  Buffer buffer{.name = std::move(name), .dtype = DType::f64};
  buffer.placement = placement;
  buffer.extent = extent;
  buffer.width = width;
  buffer.offset = offset;
  return buffer;
}

/// A kernel that stores one value, made of loads and one operation on them.
Kernel kernel(std::string name, int64_t length, std::vector<Kernel::Argument> loads,
              std::vector<Instruction> body, bool vector, uint32_t copies = 1) {
  Kernel result{
      .name = std::move(name), .length = length, .arguments = {}, .body = {}, .loops = {}};
  for (uint32_t i = 0; i < loads.size(); ++i) {
    result.body.push_back({.kind = Instruction::Kind::Load,
                           .vector = loads[i].vector,
                           .argument = i,
                           .operands = {}});
  }
  result.arguments = std::move(loads);
  for (Instruction& instruction : body) result.body.push_back(std::move(instruction));
  const auto value = static_cast<uint32_t>(result.body.size() - 1);
  for (uint32_t i = 0; i < copies; ++i) {
    const auto argument = static_cast<uint32_t>(result.arguments.size());
    result.arguments.push_back({DType::f64, vector, true});
    result.body.push_back({.kind = Instruction::Kind::Store,
                           .vector = vector,
                           .argument = argument,
                           .operands = {value}});
  }
  return result;
}

Instruction scalar(Op op, std::vector<uint32_t> operands) {
  return {
      .kind = Instruction::Kind::Scalar, .op = op, .vector = true, .operands = std::move(operands)};
}

Instruction constant(double value) {
  return {.kind = Instruction::Kind::Constant, .value = value, .operands = {}};
}

/// y = x @ P^T as two blocks of [1, 2]; r = y in reverse; h = (reset ? 0.5 : h') + r; outputs h and
/// an identity matrix.
Plan sample(MaskLaunch::Kind mask = MaskLaunch::Kind::Reset) {
  Plan plan;
  plan.name = "Sample";
  plan.dtype = DType::f64;
  plan.batch = 2;
  plan.chunk = 2;
  plan.sweeps = 2;
  plan.buffers = {caller("x", Role::Input, Extent::Steps, 4),
                  caller("P", Role::Param, Extent::Invariant, 4),
                  caller("out", Role::Output, Extent::Steps, 2),
                  caller("eye", Role::Output, Extent::Steps, 9, 1),
                  caller("h0", Role::InitialState, Extent::Batch, 2),
                  caller("hT", Role::FinalState, Extent::Batch, 2),
                  own("W", Placement::Program, Extent::Invariant, 4, 0),
                  own("I", Placement::Workspace, Extent::Invariant, 9, 0),
                  own("sums", Placement::Workspace, Extent::Chunk, 2, 256),
                  own("y", Placement::Workspace, Extent::Steps, 2, 0),
                  own("r", Placement::Workspace, Extent::Chunk, 2, 512),
                  own("v", Placement::Workspace, Extent::Chunk, 1, 768),
                  own("h", Placement::Program, Extent::Chunk, 2, 256)};
  plan.buffers[kH].history = 1;
  plan.buffers[kH].sweep = 1;
  plan.workspace_bytes = 1024;
  plan.workspace_bytes_per_step = 256;
  plan.program_bytes = 512;

  const Kernel::Argument in{DType::f64, true, false};
  const Kernel::Argument mask_in{DType::f64, false, false};
  plan.kernels = {
      kernel("zero", 3, {}, {constant(0)}, true),
      kernel("one", 1, {}, {constant(1)}, false),
      kernel("copy", 2, {in}, {}, true),
      kernel("copy9", 9, {in}, {}, true),
      kernel("step", 2, {mask_in, in, in},
             {constant(0.5), scalar(Op::Where, {0, 3, 1}), scalar(Op::Add, {4, 2})}, true, 2),
      kernel("half", 2, {}, {constant(0.5)}, true)};

  Stage once{.domain = Domain::Once, .name = "", .launches = {}};
  once.launches = {
      CopyLaunch{.source = {kP}, .target = {kW}, .rows = 2, .columns = 2, .transposed = true},
      ElementwiseLaunch{.kernel = 0, .accesses = {{kEye, 0, 0, 3}}, .once_rows = 3},
      ElementwiseLaunch{.kernel = 1, .accesses = {{kEye, 0, 0, 4}}, .once_rows = 3}};
  Stage first{.domain = Domain::Sequence, .name = "", .launches = {}};
  first.launches = {GemmLaunch{.left = {kX, 0, 0, 4},
                               .weight = {kW},
                               .out = {kSums, 0, 0, 2},
                               .n = 1,
                               .k = 2,
                               .blocks = 2},
                    ElementwiseLaunch{.kernel = 2, .accesses = {{kSums, 0, 0, 2}, {kY, 0, 0, 2}}},
                    ElementwiseLaunch{.kernel = 3, .accesses = {{kEye}, {kEyeOut, 0, 0, 9}}}};
  Stage second{.domain = Domain::Sequence, .name = "", .launches = {}, .sweep = 1};
  second.launches = {ReverseLaunch{.source = {kY, 0, 0, 2}, .target = {kR, 0, 0, 2}, .width = 2},
                     MaskLaunch{.kind = mask, .target = {kV, 0, 0, 1}}};
  Stage step{.domain = Domain::Step,
             .recurrence = RecurrenceClass::Elementwise,
             .name = "h",
             .launches = {},
             .sweep = 1};
  step.launches = {ElementwiseLaunch{
      .kernel = 4,
      .accesses = {{kV, 0, 0, 1}, {kH, 1, 0, 2}, {kR, 0, 0, 2}, {kH, 0, 0, 2}, {kOut, 0, 0, 2}}}};
  plan.stages = {once, first, second, step};
  plan.states = {{.name = "h",
                  .init_given = {.kernel = 2, .accesses = {{kGiven, 0, 0, 2}, {kH, 1, 0, 2}}},
                  .init_declared = {.kernel = 5, .accesses = {{kH, 1, 0, 2}}},
                  .write_final = {.kernel = 2, .accesses = {{kH, 1, 0, 2}, {kFinal, 0, 0, 2}}},
                  .hide = {},
                  .sweep = 1}};
  return plan;
}

std::string complaint(const std::function<void(Plan&)>& damage) {
  Plan plan = sample();
  damage(plan);
  const Status status = verify(plan);
  return status ? "none" : status.error().message;
}

template <typename L>
L& launch(Plan& plan, size_t stage, size_t index) {
  return std::get<L>(plan.stages[stage].launches[index]);
}

TEST(Plan, Sizes) {
  const Plan plan = sample();
  EXPECT_EQ(byte_size(plan, plan.buffers[kW]), 4 * 8);
  EXPECT_EQ(byte_size(plan, plan.buffers[kH]), (1 + 2) * 2 * 2 * 8);
  EXPECT_EQ(byte_size(plan, plan.buffers[kY]), 256);  // 2 * 2 * 8 bytes per step, rounded up
  EXPECT_EQ(workspace_bytes(plan, 0), 1024);
  EXPECT_EQ(workspace_bytes(plan, 5), 1024 + 5 * 256);
}

TEST(Plan, Text) {
  Plan plan = sample(MaskLaunch::Kind::ResetReverse);
  plan.states.push_back(plan.states[0]);
  plan.states[1].name = "h@2";
  plan.states[1].delay_of = 0;
  const std::string text = to_string(plan);
  for (const char* line :
       {"memory: workspace 1024 bytes and 256 per step, program 512 bytes\n",
        "  b9 y: f64 workspace temporary, steps x 2, at 0, 256 bytes per step\n",
        "  b12 h: f64 program temporary, chunk x 2, history 1, sweep 1, at 256, 96 bytes\n",
        "  once:\n    copy b6 = b1^T, 2 x 2\n    k0(b7[0:3, stride 3]), 3 rows\n"
        "    k1(b7[0:1, stride 4]), 3 rows\n",
        "  sequence:\n    gemm b8 = b0 @ b6^T, n 1, k 2, 2 blocks\n",
        "  sequence, sweep 1:\n    reverse b10 = b9\n    mask b11 = reset reversed\n",
        "  step h (elementwise), sweep 1:\n    k4(b11, b12[t-1], b10, b12, b2)\n",
        "  h, sweep 1:\n    given: k2(b4, b12[t-1])\n", "  h@2 (a delay of h), sweep 1:\n"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
  }
  EXPECT_NE(to_string(sample()).find("mask b11 = reset\n"), std::string::npos);
  EXPECT_NE(to_string(sample(MaskLaunch::Kind::Valid)).find("mask b11 = valid\n"),
            std::string::npos);
}

TEST(Plan, Verifies) {
  EXPECT_EQ(complaint([](Plan&) {}), "none");
}

/// x[t, b] = (t + 1, 0, 10 * b, 1): with P = [[1, 3], [2, 4]] transposed, y = (t + 1, 30 b + 4).
InterpreterArgs sample_args(int64_t steps) {
  InterpreterArgs args;
  args.steps = steps;
  args.batch = 2;
  args.params = {{1, 3, 2, 4}};
  Values& x = args.inputs.emplace_back();
  for (int64_t t = 0; t < steps; ++t) {
    for (int64_t b = 0; b < 2; ++b) {
      for (const int64_t value : {t + 1, int64_t{0}, 10 * b, int64_t{1}}) {
        x.push_back(static_cast<double>(value));
      }
    }
  }
  return args;
}

/// Every second element of an output of the plan: column 0 of the sequence `b`.
Values column(const InterpreterResult& result, size_t b) {
  Values values;
  for (size_t i = 2 * b; i < result.outputs[0].size(); i += 4) {
    values.push_back(result.outputs[0][i]);
  }
  return values;
}

TEST(PlanExecutor, RunsSweepsBlocksCopiesAndReversals) {
  InterpreterArgs args = sample_args(3);
  InterpreterResult result = execute_plan(sample(), args);
  // h starts at 0.5 and adds y of the last step first: 3, 2, 1 in column 0; 4, or 34, in column 1.
  EXPECT_EQ(result.outputs[0],
            (Values{3.5, 4.5, 3.5, 34.5, 5.5, 8.5, 5.5, 68.5, 6.5, 12.5, 6.5, 102.5}));
  EXPECT_EQ(result.final_states[0], (Values{6.5, 12.5, 6.5, 102.5}));
  const Values eye = {1, 0, 0, 0, 1, 0, 0, 0, 1};
  EXPECT_EQ(Values(result.outputs[1].end() - 9, result.outputs[1].end()), eye);

  args.initial_states = {{100, 0, 200, 0}};
  result = execute_plan(sample(), args);
  EXPECT_EQ(column(result, 0), (Values{103, 105, 106}));
  EXPECT_EQ(column(result, 1), (Values{203, 205, 206}));
}

TEST(PlanExecutor, MasksFollowLengthsAndResets) {
  const InterpreterArgs args = sample_args(5);
  const SequenceArgs sequences = {.lengths = {5, 3}, .resets = {0, 0, 0, 1, 0, 0, 1, 0, 0, 0}};
  // Reversed, y is 5 4 3 2 1 and 3 2 1 0 0. Where the mask is set, h begins anew at 0.5.
  InterpreterResult result = execute_plan(sample(MaskLaunch::Kind::Reset), args, sequences);
  EXPECT_EQ(column(result, 0), (Values{5.5, 9.5, 12.5, 2.5, 3.5}));  // at t = 3
  EXPECT_EQ(column(result, 1), (Values{3.5, 2.5, 3.5, 3.5, 3.5}));   // at t = 1
  result = execute_plan(sample(MaskLaunch::Kind::ResetReverse), args, sequences);
  EXPECT_EQ(column(result, 0), (Values{5.5, 9.5, 3.5, 5.5, 6.5}));  // from step 3 to step 2
  EXPECT_EQ(column(result, 1), (Values{3.5, 5.5, 1.5, 1.5, 1.5}));  // from step 1 to step 0
  Plan back = sample(MaskLaunch::Kind::Reset);
  std::get<MaskLaunch>(back.stages[2].launches[1]).back = 1;
  EXPECT_NE(to_string(back).find("mask b11 = reset @ 1\n"), std::string::npos);
  result = execute_plan(back, args, sequences);
  EXPECT_EQ(column(result, 0), (Values{5.5, 9.5, 12.5, 2.5, 1.5}));  // at t = 3 and 4
  EXPECT_EQ(column(result, 1), (Values{3.5, 2.5, 1.5, 1.5, 1.5}));   // at t = 1 and 2
  result = execute_plan(sample(MaskLaunch::Kind::Valid), args, sequences);
  EXPECT_EQ(column(result, 0), (Values{5.5, 4.5, 3.5, 2.5, 1.5}));
  EXPECT_EQ(column(result, 1), (Values{3.5, 2.5, 1.5, 1.5, 1.5}));
  // Lengths are clamped; no masks: all valid, no resets.
  result = execute_plan(sample(MaskLaunch::Kind::Valid), args, {.lengths = {9, -1}});
  EXPECT_EQ(column(result, 0), (Values{5.5, 4.5, 3.5, 2.5, 1.5}));
  EXPECT_EQ(column(result, 1), (Values{0.5, 0.5, 0.5, 0.5, 0.5}));
  result = execute_plan(sample(MaskLaunch::Kind::Valid), args);
  EXPECT_EQ(column(result, 1), (Values{5.5, 4.5, 3.5, 2.5, 1.5}));
  result = execute_plan(sample(MaskLaunch::Kind::ResetReverse), args);
  EXPECT_EQ(column(result, 1), (Values{5.5, 9.5, 12.5, 14.5, 15.5}));
}

TEST(PlanVerify, SequencesInTheWorkspace) {
  EXPECT_EQ(complaint([](Plan& p) { p.buffers[kY].placement = Placement::Program; }),
            "buffer y: whole sequences are the caller's or in the workspace");
  EXPECT_EQ(complaint([](Plan& p) { p.buffers[kY].offset = 8; }), "buffer y is not aligned");
  EXPECT_EQ(complaint([](Plan& p) { p.workspace_bytes_per_step = 0; }),
            "buffer y is outside the workspace per step");
  EXPECT_EQ(complaint([](Plan& p) { p.workspace_bytes_per_step += 8; }),
            "the workspace per step is not aligned");
  EXPECT_EQ(complaint([](Plan& p) { p.workspace_bytes += 8; }),
            "the workspace per step is not aligned");
  EXPECT_EQ(complaint([](Plan& p) {
              p.buffers.push_back(p.buffers[kY]);
              p.buffers.back().offset = 256;
              p.workspace_bytes_per_step = 512;
            }),
            "none");
}

// Only what a stage that lags behind reads of a row has to be there.
TEST(PlanVerify, PartsOfRowsThatAreReadLate) {
  constexpr std::string_view kText = R"(plan Late: f32, batch 1, chunk 2
memory: workspace 256 bytes, program 0 bytes
buffers:
  b0 x: f32 caller input, steps x 2, slot 0
  b1 y: f32 caller output, steps x 2, slot 0
  b2 sums: f32 workspace temporary, chunk x 4, history 2, at 0, 64 bytes
kernels:
  k0 moved: rows of 2
    a0: in f32 vector
    a1: out f32 vector
    %0 = load a0 : vector
    store a1, %0
stages:
  sequence:
    k0(b0, b2[0:2])
  sequence, lag 1:
    k0(b2[t-2, {}], b1)
states:
)";
  const auto verified = [&](std::string_view columns) {
    std::string text(kText);
    text.replace(text.find("{}"), 2, columns);
    const Result<Plan> plan = parse_plan(text);
    EXPECT_TRUE(plan) << plan.error().message;
    const Status status = plan ? verify(*plan) : Status();
    return status ? "fine" : status.error().message;
  };
  EXPECT_EQ(verified("0:2"), "fine");
  EXPECT_EQ(verified("2:4"), "stage 1: launch 0: sums is read before it is written");
}

TEST(PlanVerify, Sweeps) {
  EXPECT_EQ(complaint([](Plan& p) { p.sweeps = 1; }), "buffer h: there is no sweep 1");
  EXPECT_EQ(complaint([](Plan& p) { p.stages[3].sweep = 2; }), "stage 3: there is no sweep 2");
  EXPECT_EQ(complaint([](Plan& p) { p.stages[0].sweep = 1; }),
            "stage 0: a Once stage is in a sweep");
  EXPECT_EQ(complaint([](Plan& p) { std::swap(p.stages[1], p.stages[2]); }),
            "stage 2: sweep 0 comes after sweep 1");
  EXPECT_EQ(complaint([](Plan& p) { p.stages[3].sweep = 0; }),
            "stage 3: sweep 0 comes after sweep 1");
  EXPECT_EQ(complaint([](Plan& p) { p.buffers[kH].sweep = 0; }),
            "stage 3: launch 0: h belongs to sweep 0");
  // A chunk of the first sweep holds its last steps in the second.
  EXPECT_EQ(
      complaint([](Plan& p) { launch<ElementwiseLaunch>(p, 3, 0).accesses[2] = {kSums, 0, 0, 2}; }),
      "stage 3: launch 0: sums is read before it is written");
  // The whole sequence may be read forward in any later sweep.
  EXPECT_EQ(
      complaint([](Plan& p) { launch<ElementwiseLaunch>(p, 3, 0).accesses[2] = {kY, 0, 0, 2}; }),
      "none");
}

TEST(PlanVerify, Reversals) {
  EXPECT_EQ(complaint([](Plan& p) { launch<ReverseLaunch>(p, 2, 0).width = 0; }),
            "stage 2: launch 0: a reversal of nothing");
  EXPECT_EQ(complaint([](Plan& p) { launch<ReverseLaunch>(p, 2, 0).width = 3; }),
            "stage 2: launch 0: columns from 0 are outside y");
  EXPECT_EQ(complaint([](Plan& p) { launch<ReverseLaunch>(p, 2, 0).source.buffer = 99; }),
            "stage 2: launch 0: there is no buffer 99");
  EXPECT_EQ(complaint([](Plan& p) { p.buffers[kR].dtype = DType::f32; }),
            "stage 2: launch 0: r is f32, not f64");
  EXPECT_EQ(complaint([](Plan& p) {
              launch<ReverseLaunch>(p, 2, 0).source = {kX, 0, 0, 4};  // an input is all there
            }),
            "none");
  EXPECT_EQ(complaint([](Plan& p) { std::swap(p.stages[2].launches[0], p.stages[3].launches[0]); }),
            "stage 2: launch 0: v is read before it is written");
  EXPECT_EQ(complaint([](Plan& p) {
              p.stages[3].launches.insert(p.stages[3].launches.begin(), p.stages[2].launches[0]);
            }),
            "stage 3: launch 0: reversals are for Sequence stages");
  EXPECT_EQ(complaint([](Plan& p) { p.stages[1].launches.push_back(p.stages[2].launches[0]); }),
            "stage 1: launch 3: y is reversed in the sweep that writes it");
  EXPECT_EQ(complaint([](Plan& p) {
              ReverseLaunch again = launch<ReverseLaunch>(p, 2, 0);
              again.source = again.target;
              p.stages[2].launches.insert(p.stages[2].launches.begin() + 1, again);
            }),
            "stage 2: launch 1: r has not all steps to reverse");
  EXPECT_EQ(complaint([](Plan& p) { launch<ReverseLaunch>(p, 2, 0).target = {kOut, 0, 0, 2}; }),
            "stage 2: launch 0: the target out is no chunk");
}

TEST(PlanVerify, EarlierSteps) {
  // In place of the reversal, of an input.
  const auto with = [](const auto& change) {
    return complaint([&](Plan& p) {
      EarlierLaunch earlier{.source = {kX, 0, 0, 4}, .target = {kR, 0, 0, 2}, .width = 2};
      change(p, earlier);
      p.stages[2].launches[0] = earlier;
    });
  };
  EXPECT_EQ(with([](Plan&, EarlierLaunch&) {}), "none");
  EXPECT_EQ(with([](Plan&, EarlierLaunch& e) { e.width = 0; }),
            "stage 2: launch 0: earlier steps of nothing");
  EXPECT_EQ(with([](Plan&, EarlierLaunch& e) { e.width = 3; }),
            "stage 2: launch 0: columns from 0 are outside r");
  EXPECT_EQ(with([](Plan& p, EarlierLaunch&) { p.buffers[kR].dtype = DType::f32; }),
            "stage 2: launch 0: r is f32, not f64");
  EXPECT_EQ(with([](Plan&, EarlierLaunch& e) { e.source = {kY, 0, 0, 2}; }),
            "stage 2: launch 0: y is no sequence of the caller's");
  EXPECT_EQ(with([](Plan&, EarlierLaunch& e) { e.target = {kOut, 0, 0, 2}; }),
            "stage 2: launch 0: the target out is no chunk");
  EXPECT_EQ(with([](Plan& p, EarlierLaunch& e) {
              p.stages[3].launches.insert(p.stages[3].launches.begin(), e);
            }),
            "stage 3: launch 0: earlier steps are for Sequence stages");
}

TEST(PlanVerify, Masks) {
  EXPECT_EQ(complaint([](Plan& p) { launch<MaskLaunch>(p, 2, 1).target = {kR, 0, 0, 2}; }),
            "stage 2: launch 1: r is no chunk of scalars");
  EXPECT_EQ(complaint([](Plan& p) { launch<MaskLaunch>(p, 2, 1).target.stride = 0; }),
            "stage 2: launch 1: v has no stride of 0");
  EXPECT_EQ(complaint([](Plan& p) {
              p.stages[3].launches.insert(p.stages[3].launches.begin(), p.stages[2].launches[1]);
            }),
            "stage 3: launch 0: masks are for Sequence stages");
  EXPECT_EQ(complaint([](Plan& p) { p.stages[2].launches.pop_back(); }),
            "stage 3: launch 0: v is read before it is written");
}

TEST(PlanVerify, ProductsAndCopies) {
  EXPECT_EQ(complaint([](Plan& p) { launch<GemmLaunch>(p, 1, 0).blocks = 0; }),
            "stage 1: launch 0: a product of nothing");
  EXPECT_EQ(complaint([](Plan& p) { launch<GemmLaunch>(p, 1, 0).blocks = 3; }),
            "stage 1: launch 0: columns from 0 are outside W");
  EXPECT_EQ(complaint([](Plan& p) {
              launch<GemmLaunch>(p, 1, 0) = {.left = {kX, 0, 0, 4},
                                             .weight = {kW},
                                             .out = {kSums, 0, 0, 2},
                                             .n = 2,
                                             .k = 1,
                                             .blocks = 2};
            }),
            "stage 1: launch 0: columns from 0 are outside sums");
  EXPECT_EQ(complaint([](Plan& p) { launch<GemmLaunch>(p, 1, 0).blocks = 1; }),
            "stage 1: launch 1: sums is read before it is written");
  EXPECT_EQ(complaint([](Plan& p) { launch<CopyLaunch>(p, 0, 0).rows = 0; }),
            "stage 0: launch 0: a copy of nothing");
  EXPECT_EQ(complaint([](Plan& p) { launch<CopyLaunch>(p, 0, 0).columns = 3; }),
            "stage 0: launch 0: columns from 0 are outside P");
  EXPECT_EQ(complaint([](Plan& p) { launch<CopyLaunch>(p, 0, 0).rows = 1; }),
            "stage 1: launch 0: W is read before it is written");
}

TEST(PlanVerify, CopiesByRows) {
  const auto complain = [](const CopyLaunch& copy) {
    return complaint([&](Plan& p) { launch<CopyLaunch>(p, 0, 0) = copy; });
  };
  Plan plan = sample();
  CopyLaunch copy = launch<CopyLaunch>(plan, 0, 0);
  copy.transposed = false;
  copy.source.stride = copy.target.stride = 2;
  EXPECT_EQ(complain(copy), "none");
  copy.rows = 3;
  EXPECT_EQ(complain(copy), "stage 0: launch 0: columns from 0 are outside P");
  copy.rows = 2;
  copy.target.stride = 1;
  EXPECT_EQ(complain(copy), "stage 0: launch 0: rows written to W overlap");
  copy.target.stride = 0;
  EXPECT_EQ(complain(copy), "stage 0: launch 0: a copy of rows that are apart on one side");
  copy.target.stride = 2;
  copy.transposed = true;
  EXPECT_EQ(complain(copy), "stage 0: launch 0: a copy of rows that are apart on one side");
}

TEST(PlanVerify, RowsWithGaps) {
  // Zeros by rows and the diagonal: without the zeros there are gaps, which nobody may read.
  EXPECT_EQ(
      complaint([](Plan& p) { p.stages[0].launches.erase(p.stages[0].launches.begin() + 1); }),
      "stage 1: launch 2: I is read before it is written");
  EXPECT_EQ(complaint([](Plan& p) { launch<ElementwiseLaunch>(p, 0, 1).accesses[0].stride = 2; }),
            "stage 0: launch 1: rows written to I overlap");
  EXPECT_EQ(complaint([](Plan& p) { launch<ElementwiseLaunch>(p, 0, 2).accesses[0].stride = 5; }),
            "stage 0: launch 2: columns from 0 are outside I");
}

TEST(PlanText, TilesOfRecurrences) {
  RecurrenceTile tile;
  tile.groups = 2;
  tile.blocks = 16;
  tile.units = {4, 4};
  const std::string text =
      "2 x 16 blocks of 8 warps, 8 rows at once, units 4 and 4, weights in 0 registers";
  EXPECT_EQ(to_string(tile), text);
  tile.clusters = true;
  EXPECT_EQ(to_string(tile), text + ", in clusters");
  tile.clusters = false;
  tile.k_blocks = 2;
  EXPECT_EQ(to_string(tile), text + ", 2 blocks along k");
}

TEST(PlanVerify, DelaysOfStates) {
  EXPECT_EQ(complaint([](Plan& p) { p.states[0].delay_of = 3; }), "h is a delay of no state");
}

}  // namespace
}  // namespace rnnc
