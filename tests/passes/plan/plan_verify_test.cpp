// Each test breaks a good plan in one way; the verifier names it.
#include <gtest/gtest.h>

#include <functional>

#include "ir/persistent/recurrence_exchange.h"
#include "passes/build_plan.h"
#include "passes/memory/memory.h"
#include "tests/passes/cases.h"
#include "tests/passes/plan/small_plan.h"

namespace rnnc::test {
namespace {

/// Products and kernels in launches of their own, and memory of their own.
constexpr PassSet kApart =
    PassSet::all().without(Pass::Epilogue).without(Pass::Sum).without(Pass::Reuse);

using Damage = std::function<void(Plan&)>;

/// Of the plan of a case after `damage`.
std::string complaint(const Damage& damage, const std::string& name = "gru_reset_before",
                      PlanOptions options = {.passes = kApart}) {
  options.batch = 2;
  options.max_steps = 8;
  Plan plan = *build_plan(load_case(name), options);
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
      "buffer h overlaps products of h from wave to wave");
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

TEST(PlanVerify, WhatHides) {
  const auto hide = [](Plan& p) { p.states[0].hide = p.states[0].write_final; };
  EXPECT_EQ(complaint([](Plan& p) { p.states[0].hiding = Hiding::Resets; }),
            "h hides, and is no history");
  EXPECT_EQ(complaint(hide), "h hides, or has what hides it, alone");
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
            "stage 2: launch 0: h has no value 1 steps before the first");
}

TEST(PlanVerify, Sweeps) {
  const auto complaint = [](const Damage& damage) {
    return test::complaint(damage, "bidirectional", {.lengths = true, .passes = kApart});
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
            "buffer tanh.15 is outside the workspace per step");
  EXPECT_EQ(complaint([](Plan& p) { launch<ReverseLaunch>(p.stages.back(), 1).width = 5; }),
            "stage 4: launch 1: columns from 0 are outside tanh.15");
  EXPECT_EQ(
      complaint([](Plan& p) { p.stages.back().launches.erase(p.stages.back().launches.begin()); }),
      "stage 4: launch 2: valid.19 is read before it is written");
  EXPECT_EQ(complaint([](Plan& p) { launch<MaskLaunch>(p.stages[1], 0).target.buffer = 0; }),
            "stage 1: launch 0: x has no stride of 1");
  EXPECT_EQ(complaint([](Plan& p) { launch<MaskLaunch>(p.stages[1], 0).back = 3; }),
            "stage 1: launch 0: a mask of 3 steps back");
}

TEST(PlanVerify, ProductsWithAnEpilogue) {
  const auto complaint = [](const std::function<void(Plan&, FusedLaunch&)>& damage) {
    const auto find = [&](Plan& plan) { damage(plan, launch<FusedLaunch>(step(plan), 0)); };
    return test::complaint(find, "lstm", {});
  };
  EXPECT_EQ(complaint([](Plan&, FusedLaunch&) {}), "none");
  EXPECT_EQ(complaint([](Plan&, FusedLaunch& l) { l.products[0].members = 3; }),
            "stage 2: launch 0: a3 has no product");
  EXPECT_EQ(complaint([](Plan&, FusedLaunch& l) { l.products[0].first_argument = 1; }),
            "stage 2: launch 0: a4 is no product's result");
  EXPECT_EQ(complaint([](Plan&, FusedLaunch& l) { l.products[0].blocks = 3; }),
            "stage 2: launch 0: a product of nothing");
  EXPECT_EQ(complaint([](Plan&, FusedLaunch& l) { l.products[0].k = 5; }),
            "stage 2: launch 0: columns from 0 are outside R_i|R_f|R_g|R_o");
  EXPECT_EQ(complaint([](Plan&, FusedLaunch& l) { l.products[0].left.delay = 0; }),
            "stage 2: launch 0: h is written while products read it");
  EXPECT_EQ(complaint([](Plan& p, FusedLaunch& l) {
              l.products[0].weight = l.products[0].left;
              p.kernels[l.kernel].arguments[3].product = false;
            }),
            "stage 2: launch 0: a3 is no product's result");
  EXPECT_EQ(complaint([](Plan& p, FusedLaunch& l) {
              p.kernels[l.kernel].body.push_back(
                  {.kind = Instruction::Kind::Reduce, .op = Op::Sum, .operands = {0}});
            }),
            "stage 2: launch 0: the epilogue of a product has a reduction");
  EXPECT_EQ(complaint([](Plan& p, FusedLaunch&) { p.stages.back().domain = Domain::Sequence; }),
            "stage 2: the class of its recurrence does not fit its domain");
}

TEST(PlanVerify, Loops) {
  const auto complaint = [](const std::function<void(Plan&, LoopLaunch&)>& damage) {
    const auto find = [&](Plan& plan) { damage(plan, launch<LoopLaunch>(step(plan), 0)); };
    return test::complaint(find, "ind_rnn", {});
  };
  EXPECT_EQ(complaint([](Plan&, LoopLaunch&) {}), "none");
  EXPECT_EQ(
      complaint([](Plan&, LoopLaunch& l) { std::swap(l.carries[0].load, l.carries[0].store); }),
      "stage 1: launch 0: a carry goes from a0 to a5");
  EXPECT_EQ(complaint([](Plan&, LoopLaunch& l) { l.carries[0].store = 9; }),
            "stage 1: launch 0: a carry goes from a9 to a0");
  EXPECT_EQ(complaint([](Plan&, LoopLaunch& l) { l.accesses[l.carries[0].store].column = 1; }),
            "stage 1: launch 0: a0 and a5 carry different values");
  EXPECT_EQ(complaint([](Plan& p, LoopLaunch& l) {
              std::vector<Instruction>& body = p.kernels[l.kernel].body;
              std::swap(body[0].argument, body[1].argument);
            }),
            "stage 1: launch 0: a loop loads its carries late");
  EXPECT_EQ(complaint([](Plan& p, LoopLaunch& l) { step(p).launches.push_back(l); }),
            "stage 1: the class of its recurrence does not fit its domain");
  EXPECT_EQ(complaint([](Plan& p, LoopLaunch&) { step(p).domain = Domain::Step; }),
            "stage 1: launch 0: a loop is not alone in its stage");
}

/// Of a resident recurrence of two phases.
std::string recurrence_complaint(const std::function<void(Plan&, RecurrenceLaunch&)>& damage) {
  const auto find = [&](Plan& plan) { damage(plan, launch<RecurrenceLaunch>(step(plan), 0)); };
  const PassSet passes = PassSet::all().without(Pass::Reuse);
  return test::complaint(find, "gru_reset_before",
                         {.dtype = DType::bf16, .passes = passes, .machine = h200_machine()});
}

TEST(PlanVerify, PlacesOfRecurrences) {
  EXPECT_EQ(recurrence_complaint([](Plan&, RecurrenceLaunch&) {}), "none");

  EXPECT_EQ(recurrence_complaint([](Plan& p, RecurrenceLaunch&) { step(p).domain = Domain::Step; }),
            "stage 2: launch 0: a recurrence is not alone in its stage");
  EXPECT_EQ(
      recurrence_complaint([](Plan& p, RecurrenceLaunch& l) { step(p).launches.emplace_back(l); }),
      "stage 2: the class of its recurrence does not fit its domain");
  EXPECT_EQ(recurrence_complaint([](Plan& p, RecurrenceLaunch&) {
              step(p).recurrence = RecurrenceClass::Elementwise;
            }),
            "stage 2: a resident recurrence is neither of class block nor dense");
  EXPECT_EQ(
      recurrence_complaint([](Plan&, RecurrenceLaunch& l) { std::swap(l.phases[0], l.phases[1]); }),
      "stage 2: launch 0: phase 0: mul.17 is read before it is written");
}

TEST(PlanVerify, TilesOfRecurrences) {
  EXPECT_EQ(recurrence_complaint([](Plan&, RecurrenceLaunch& l) { l.phases.clear(); }),
            "stage 2: launch 0: a recurrence of no phases");
  EXPECT_EQ(recurrence_complaint([](Plan&, RecurrenceLaunch& l) { l.tile.units.pop_back(); }),
            "stage 2: launch 0: 2 phases, units of 1");
  EXPECT_EQ(recurrence_complaint([](Plan&, RecurrenceLaunch& l) { l.tile.groups = 3; }),
            "stage 2: launch 0: a tile of nothing");
  EXPECT_EQ(recurrence_complaint([](Plan&, RecurrenceLaunch& l) { l.tile.units = {4, 2}; }),
            "stage 2: launch 0: phases of 4 have different units");
  EXPECT_EQ(recurrence_complaint([](Plan&, RecurrenceLaunch& l) {
              l.tile.units = {1, 1};
              l.tile.blocks = 3;
            }),
            "stage 2: launch 0: 3 blocks of 1 units do not make 4 elements");
  EXPECT_EQ(recurrence_complaint([](Plan&, RecurrenceLaunch& l) {
              l.phases[1].products[0].blocks = 2;
              l.phases[1].products[0].k = 2;
              l.tile.units = {4, 4};
              l.tile.blocks = 1;
            }),
            "stage 2: launch 0: 1 blocks of 4 units do not make 4 elements");
  for (const std::vector<size_t>& sides : {std::vector<size_t>{}, {1}, {0, 0}, {0, 2}, {0, 1, 1}}) {
    EXPECT_EQ(recurrence_complaint([&](Plan&, RecurrenceLaunch& l) { l.tile.sides = sides; }),
              "stage 2: launch 0: a side of no phases");
  }
  EXPECT_EQ(recurrence_complaint([](Plan&, RecurrenceLaunch& l) {
              l.tile.units = {1, 1};
              l.tile.blocks = 16;
              l.tile.clusters = true;
            }),
            "stage 2: launch 0: clusters of 16 blocks with 1 of 4 elements");
  EXPECT_EQ(recurrence_complaint([](Plan&, RecurrenceLaunch& l) {
              l.tile.units = {2, 2};
              l.tile.blocks = 2;
              l.tile.clusters = true;
            }),
            "none");
}

TEST(PlanVerify, TilesOfRecurrencesWhoseBlocksShareWork) {
  for (const int64_t blocks : {0, 3, 8}) {
    EXPECT_EQ(recurrence_complaint([&](Plan&, RecurrenceLaunch& l) { l.tile.k_blocks = blocks; }),
              fmt::format("stage 2: launch 0: {} blocks share k", blocks));
  }
  EXPECT_EQ(recurrence_complaint([](Plan&, RecurrenceLaunch& l) {
              l.tile.blocks = 3;
              l.tile.k_blocks = 2;
            }),
            "stage 2: launch 0: 2 of 3 blocks share k");
  EXPECT_EQ(recurrence_complaint([](Plan&, RecurrenceLaunch& l) {
              l.tile.units = {2, 2};
              l.tile.blocks = 2;
              l.tile.k_blocks = 2;
              l.tile.clusters = true;
            }),
            "stage 2: launch 0: blocks that share k keep sums to themselves, or are a group");
  EXPECT_EQ(recurrence_complaint([](Plan&, RecurrenceLaunch& l) { l.tile.own_sums = true; }),
            "stage 2: launch 0: warps cannot keep their sums to themselves");
  for (const int64_t blocks : {1, 17}) {
    EXPECT_EQ(recurrence_complaint([&](Plan&, RecurrenceLaunch& l) {
                l.tile.blocks = blocks;
                l.tile.clusters = true;
              }),
              fmt::format("stage 2: launch 0: clusters of {} blocks in 1 sides", blocks));
  }
  EXPECT_EQ(recurrence_complaint([](Plan&, RecurrenceLaunch& l) {
              l.tile.blocks = 4;
              l.tile.clusters = true;
              l.tile.sides = {0, 1};
            }),
            "stage 2: launch 0: clusters of 4 blocks in 2 sides");
}

TEST(PlanVerify, TilesOfRecurrencesAndWhatTheirWarpsDo) {
  for (const int64_t steps : {-2, 1, 3, 6}) {
    EXPECT_EQ(recurrence_complaint([&](Plan&, RecurrenceLaunch& l) { l.tile.input_steps = steps; }),
              fmt::format("stage 2: launch 0: inputs of {} steps in shared memory", steps));
  }
  EXPECT_EQ(recurrence_complaint([](Plan&, RecurrenceLaunch& l) { l.tile.input_steps = 4; }),
            "none");
  EXPECT_EQ(recurrence_complaint([](Plan&, RecurrenceLaunch& l) { l.tile.k_warps = 3; }),
            "stage 2: launch 0: 3 of 4 warps share k");
  EXPECT_EQ(recurrence_complaint([](Plan&, RecurrenceLaunch& l) { l.tile.streamed_words = -8; }),
            "stage 2: launch 0: a tile of nothing");
  EXPECT_EQ(recurrence_complaint([](Plan&, RecurrenceLaunch& l) { l.tile.split = true; }),
            "stage 2: launch 0: only f32 products are split");
}

TEST(PlanVerify, ExchangesOfRecurrences) {
  const auto complaint = [](const std::function<void(Plan&, RecurrenceLaunch&)>& damage) {
    const auto find = [&](Plan& plan) {
      for (Stage& stage : plan.stages) {
        auto* const found = std::get_if<RecurrenceLaunch>(&stage.launches[0]);
        if (found != nullptr) damage(plan, *found);
      }
    };
    return test::complaint(
        find, "layer_norm_lstm",
        {.passes = PassSet::all().without(Pass::Reuse), .machine = h200_machine()});
  };
  EXPECT_EQ(complaint([](Plan&, RecurrenceLaunch&) {}), "none");
  EXPECT_EQ(complaint([](Plan&, RecurrenceLaunch& l) { l.exchange = kNoBuffer; }),
            "stage 2: launch 0: no place for what blocks exchange");
  EXPECT_EQ(complaint([](Plan& p, RecurrenceLaunch& l) { --p.buffers[l.exchange].width; }),
            "stage 2: launch 0: exchange cannot hold the 32 words of a row that blocks exchange");
}

/// A recurrence whose phases are put together by hand: `h` is a state, `s` a value of one step.
struct Phases : SmallPlan {
  BufferId h = buffer("h", Extent::Chunk, 8, 1);
  BufferId s = buffer("s", Extent::Batch, 8);
  BufferId half = buffer("half", Extent::Chunk, 4);
  BufferId weight = caller("W", Role::Param, Extent::Invariant, 8 * 8);
  std::vector<FusedLaunch> phases;
  std::vector<size_t> sides = {0};

  Phases() { state(h); }

  /// Rows of the width of what is written first.
  void phase(const std::vector<Access>& reads, const std::vector<Access>& writes) {
    ElementwiseLaunch launch = tanh(reads, writes);
    phases.push_back({launch.kernel, std::move(launch.accesses), {}});
  }
  /// The same of a product with `left`.
  void product(const Access& left, const std::vector<Access>& writes) {
    phase({left}, writes);
    phases.back().accesses[0] = {};
    phases.back().products.push_back({left, {weight, 0, 0, 0}, 8, 1, 0, 1});
    plan.kernels[phases.back().kernel].arguments[0].product = true;
  }

  /// Of the plan with a recurrence of these phases, after `damage`.
  std::string complaint(const std::function<void(RecurrenceLaunch&)>& damage = {}) {
    RecurrenceLaunch launch{phases, {}};
    for (const FusedLaunch& phase : phases) {
      launch.tile.units.push_back(plan.kernels[phase.kernel].length);
    }
    launch.tile.sides = sides;
    const int64_t width = exchange_width(plan, launch);
    if (width > 0) launch.exchange = buffer("exchange", Extent::Chunk, width);
    if (damage) damage(launch);
    stage(Domain::Sequence, {launch}).recurrence = RecurrenceClass::Dense;
    RNNC_CHECK(assign_memory(plan, /*reuse=*/false));
    const Status status = verify(plan);
    return status ? "none" : status.error().message;
  }
};

TEST(PlanVerify, PhasesHandOnWhatTheyStore) {
  Phases good;
  good.phase({good.row(good.h, 1)}, {good.row(good.s)});
  good.phase({good.row(good.s)}, {good.row(good.h)});
  EXPECT_EQ(good.complaint(), "none");

  Phases moved;
  moved.phase({moved.row(moved.h, 1)}, {moved.row(moved.s)});
  moved.phase({{moved.s, 0, 2, 8}}, {moved.row(moved.half)});
  moved.phase({moved.row(moved.s)}, {moved.row(moved.h)});
  EXPECT_EQ(moved.complaint(), "none");

  Phases lengths;
  lengths.phase({}, {lengths.row(lengths.half), {lengths.s, 0, 0, 8}});
  lengths.phase({}, {lengths.row(lengths.half), {lengths.s, 0, 4, 8}});
  lengths.phase({lengths.row(lengths.s)}, {lengths.row(lengths.h)});
  EXPECT_EQ(lengths.complaint(), "none");
}

TEST(PlanVerify, KernelsGatherWhatPhasesHaveStored) {
  // Those of the step before have a place of their own.
  Phases before;
  before.phase({{before.h, 1, 4, 8}}, {before.row(before.half)});
  before.phase({before.row(before.h, 1)}, {before.row(before.h)});
  EXPECT_EQ(before.complaint(), "none");

  Phases more;
  more.phase({{more.h, 1, 2, 8}}, {more.row(more.half)});
  more.phase({}, {more.row(more.half), {more.h, 0, 0, 8}});
  EXPECT_EQ(more.complaint(), "stage 0: launch 0: kernels gather more of h than is stored");

  Phases twice;
  twice.phase({}, {twice.row(twice.half), {twice.s, 0, 0, 8}});
  twice.phase({}, {twice.row(twice.half), {twice.s, 0, 2, 8}});
  twice.phase({{twice.s, 0, 1, 8}}, {twice.row(twice.half)});
  twice.phase({twice.row(twice.h, 1)}, {twice.row(twice.h)});
  EXPECT_EQ(twice.complaint(), "stage 0: launch 0: s is stored twice where kernels gather it");

  Phases late;
  late.state(late.s);
  late.phase({{late.s, 0, 2, 8}}, {late.row(late.half)});
  late.phase({late.row(late.h, 1)}, {late.row(late.s)});
  late.phase({late.row(late.s)}, {late.row(late.h)});
  EXPECT_EQ(late.complaint(),
            "stage 0: launch 0: kernels gather elements of s before they are stored");
}

TEST(PlanVerify, OneValueOfARowIsKeptForAStep) {
  for (const uint32_t delay : {1, 2}) {
    Phases phases;
    const BufferId one = phases.buffer("one", Extent::Chunk, 1, 2);
    phases.state(one);
    phases.plan.states.back().init_declared =
        phases.tanh({}, {phases.row(one, 1), phases.row(one, 2)});
    phases.phase({phases.row(one, delay)}, {phases.row(one)});
    Kernel& kernel = phases.plan.kernels[phases.phases[0].kernel];
    for (Kernel::Argument& argument : kernel.arguments) argument.vector = false;
    for (Instruction& instruction : kernel.body) instruction.vector = false;
    phases.phase({phases.row(phases.h, 1)}, {phases.row(phases.h)});
    EXPECT_EQ(phases.complaint(), "none") << delay;
    EXPECT_EQ(gathers_of(phases.plan, phases.phases, phases.sides).size(), delay - 1);
  }
}

TEST(PlanVerify, ProductsReadWhatOnePhaseStoresForEachStep) {
  Phases good;
  good.product(good.row(good.h, 1), {good.row(good.h)});
  EXPECT_EQ(good.complaint(), "none");

  Phases one_step;
  one_step.phase({one_step.row(one_step.h, 1)}, {one_step.row(one_step.s)});
  one_step.product(one_step.row(one_step.s), {one_step.row(one_step.h)});
  EXPECT_EQ(one_step.complaint(),
            "stage 0: launch 0: products read s, which has no place for each step");

  Phases twice;
  twice.phase({twice.row(twice.h, 1)}, {twice.row(twice.h)});
  twice.product(twice.row(twice.h, 1), {twice.row(twice.s), twice.row(twice.h)});
  EXPECT_EQ(twice.complaint(), "stage 0: launch 0: h is stored twice where products read it");

  Phases half;
  half.phase({}, {half.row(half.half), {half.h, 0, 0, 8}});
  half.product(half.row(half.h, 1), {half.row(half.s)});
  EXPECT_EQ(half.complaint(), "stage 0: launch 0: products read more of h than is stored");

  Phases elsewhere;
  elsewhere.stage(Domain::Sequence, {elsewhere.tanh({}, {elsewhere.row(elsewhere.h)})});
  elsewhere.product(elsewhere.row(elsewhere.h, 1), {elsewhere.row(elsewhere.h)});
  EXPECT_EQ(elsewhere.complaint(),
            "stage 1: launch 0: products read h, which another launch writes");
}

TEST(PlanVerify, SidesHandOnThroughProductsAlone) {
  // Layer g on top of layer h.
  const auto complaint = [](const std::function<void(Phases&, BufferId)>& change) {
    Phases phases;
    const BufferId g = phases.buffer("g", Extent::Chunk, 8, 1);
    phases.state(g);
    phases.product(phases.row(phases.h, 1), {phases.row(phases.h)});
    phases.product(phases.row(phases.h), {phases.row(g)});
    phases.sides = {0, 1};
    change(phases, g);
    return phases.complaint();
  };
  EXPECT_EQ(complaint([](Phases&, BufferId) {}), "none");
  EXPECT_EQ(complaint([](Phases& p, BufferId g) { p.phase({p.row(g)}, {p.row(p.s)}); }), "none");
  EXPECT_EQ(complaint([](Phases& p, BufferId g) {
              p.phase({p.row(g)}, {p.row(p.s)});
              p.sides = {0, 1, 2};
            }),
            "stage 0: launch 0: side 2 loads what another stores of g");
  EXPECT_EQ(complaint([](Phases& p, BufferId g) {
              p.product(p.row(g), {p.row(g)});
              p.sides = {0, 1, 2};
            }),
            "stage 0: launch 0: phase 2: g is written while products read it");
  EXPECT_EQ(complaint([](Phases& p, BufferId g) {
              p.phase({p.row(g, 1)}, {p.row(p.s)});
              p.phase({}, {p.row(p.s)});
              p.sides = {0, 1, 3};
            }),
            "stage 0: launch 0: side 1 stores what another stores of s");
  EXPECT_EQ(complaint([](Phases& p, BufferId g) { p.phases[0].products[0].left = p.row(g, 1); }),
            "stage 0: launch 0: side 0 waits for a later one's g");
}

TEST(PlanVerify, OnlyExactProductsOfF32AreSplit) {
  const auto complaint = [](DType dtype, bool tf32) {
    const auto split = [](Plan& plan) {
      launch<RecurrenceLaunch>(step(plan), 0).tile.split = true;
    };
    const PassSet passes = PassSet::all().without(Pass::Reuse);
    return test::complaint(
        split, "lstm", {.dtype = dtype, .tf32 = tf32, .passes = passes, .machine = h200_machine()});
  };
  EXPECT_EQ(complaint(DType::f32, false), "none");
  EXPECT_EQ(complaint(DType::f32, true), "stage 2: launch 0: only f32 products are split");
  EXPECT_EQ(complaint(DType::bf16, false), "stage 2: launch 0: only f32 products are split");
  EXPECT_EQ(complaint(DType::f16, false), "stage 2: launch 0: only f32 products are split");
}

/// A recurrence of one product, a tile of whose weights is streamed.
struct Streamed : Phases {
  static constexpr int64_t kWords = 8;             // of a thread
  static constexpr int64_t kWidth = 256 * kWords;  // of one block of 8 warps
  BufferId stream = buffer("stream", Extent::Invariant, kWidth);

  Buffer& streamed() { return plan.buffers[stream]; }
  std::string complaint_of(BufferId id, int64_t words = kWords) {
    product(row(h, 1), {row(h)});
    return complaint([&](RecurrenceLaunch& launch) {
      launch.tile.streamed_words = words;
      launch.stream = id;
    });
  }
};

TEST(PlanVerify, StreamsOfRecurrences) {
  Streamed good;
  EXPECT_EQ(good.complaint_of(good.stream), "none");

  Streamed no_words;
  EXPECT_EQ(no_words.complaint_of(no_words.stream, 0), "stage 0: launch 0: a stream of no weights");

  EXPECT_EQ(Streamed().complaint_of(kNoBuffer),
            "stage 0: launch 0: no place for weights off the chip");

  const std::string no_room = "stage 0: launch 0: stream cannot hold 2048 words of weights";
  for (const int64_t width : {Streamed::kWidth - 1, Streamed::kWidth + 1}) {
    Streamed other;
    other.streamed().width = width;
    EXPECT_EQ(other.complaint_of(other.stream), no_room);
  }
  Streamed more_words;
  EXPECT_EQ(more_words.complaint_of(more_words.stream, 2 * Streamed::kWords),
            "stage 0: launch 0: stream cannot hold 4096 words of weights");
  Streamed rows;
  rows.streamed().extent = Extent::Batch;
  EXPECT_EQ(rows.complaint_of(rows.stream), no_room);
  Streamed halves;
  halves.streamed().dtype = DType::bf16;
  EXPECT_EQ(halves.complaint_of(halves.stream), no_room);
  Streamed given;
  EXPECT_EQ(given.complaint_of(given.caller("V", Role::Param, Extent::Invariant, Streamed::kWidth)),
            "stage 0: launch 0: V cannot hold 2048 words of weights");

  Streamed shared;
  shared.stage(Domain::Once, {CopyLaunch{{shared.weight}, {shared.stream}, 1, 8 * 8}});
  shared.weight = shared.stream;
  EXPECT_EQ(shared.complaint_of(shared.stream),
            "stage 1: launch 0: stream is for weights off the chip alone");
}

TEST(PlanVerify, Lags) {
  const auto complaint = [](const Damage& damage) {
    return test::complaint(damage, "stacked_lstm", {.chunk = 2});
  };
  EXPECT_EQ(complaint([](Plan&) {}), "none");
  EXPECT_EQ(complaint([](Plan& p) { launch<GemmLaunch>(p.stages[3], 0).left.delay = 1; }),
            "stage 3: launch 0: LSTM.0.h is read before its wave");
  EXPECT_EQ(complaint([](Plan& p) { launch<GemmLaunch>(p.stages[3], 0).left.delay = 3; }),
            "stage 3: launch 0: LSTM.0.h does not reach back 3 steps");
  EXPECT_EQ(complaint([](Plan& p) { p.stages[3].lag = 0; }),
            "stage 3: launch 0: LSTM.0.h has no value 2 steps before the first");
  EXPECT_EQ(complaint([](Plan& p) { temporary(p, "products of mul.39").lag = 0; }),
            "stage 3: launch 0: products of mul.39 is of lag 0, not 1");
  EXPECT_EQ(complaint([](Plan& p) { p.states[2].lag = 0; }),
            "initial value of LSTM.1.h: LSTM.1.h is of lag 1, not 0");
  EXPECT_EQ(complaint([](Plan& p) {
              temporary(p, "products of mul.39").offset = temporary(p, "products of x").offset;
            }),
            "buffer products of x overlaps products of mul.39, which another lag uses");
}

TEST(PlanVerify, SharedMemory) {
  const auto share = [](const char* name, const char* with) {
    return [=](Plan& p) { temporary(p, name).offset = temporary(p, with).offset; };
  };
  const auto complaint = [](const Damage& damage) {
    return test::complaint(damage, "layer_norm_lstm", {.passes = kApart});
  };
  EXPECT_EQ(complaint([](Plan& p) { p.workspace_bytes -= 256; }),
            "buffer products of x is outside the workspace");
  EXPECT_EQ(complaint([](Plan& p) { p.program_bytes -= 256; }),
            "buffer R_i|R_f|R_g|R_o is outside the program memory");
  EXPECT_EQ(complaint(share("products of x", "c")),
            "buffer c overlaps products of x from wave to wave");
  EXPECT_EQ(complaint(share("products of h", "R_i|R_f|R_g|R_o")),
            "buffer products of h overlaps R_i|R_f|R_g|R_o, which outlives the call");
}

}  // namespace
}  // namespace rnnc::test
