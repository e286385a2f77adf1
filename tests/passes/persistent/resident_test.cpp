#include "passes/persistent/resident.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <string>
#include <utility>

#include "ir/persistent/recurrence_exchange.h"
#include "ir/plan/kernel_facts.h"
#include "ir/plan/plan_touches.h"
#include "passes/build_plan.h"
#include "passes/tile/recurrence_time.h"
#include "tests/passes/cases.h"
#include "tests/support/cells/random_graph.h"
#include "tests/support/reference/golden.h"
#include "tests/support/reference/plan_executor.h"

namespace rnnc::test {
namespace {

Plan plan_of(const Graph& graph, PlanOptions options = {}) {
  options.batch = 3;
  options.max_steps = 50;
  options.passes = PassSet::all();
  options.machine = h200_machine();
  Result<Plan> plan = build_plan(graph, options);
  RNNC_CHECK(plan.has_value(), "{}", plan.error().message);
  return *std::move(plan);
}

/// The first recurrence.
const Stage& recurrence_of(const Plan& plan) {
  const auto found = std::ranges::find_if(
      plan.stages, [](const Stage& s) { return s.recurrence != RecurrenceClass::None; });
  RNNC_CHECK(found != plan.stages.end(), "{} has no recurrence", plan.name);
  return *found;
}

const RecurrenceLaunch* resident(const Plan& plan) {
  return std::get_if<RecurrenceLaunch>(recurrence_of(plan).launches.data());
}

TEST(Resident, RecurrencesWithProductsAreOneLaunch) {
  struct Expected {
    const char* name;
    size_t phases;
  };
  for (const auto& [name, phases] :
       {Expected{"elman", 1}, Expected{"lstm", 1}, Expected{"gru", 1},
        Expected{"gru_reset_before", 2}, Expected{"projected_lstm", 2}, Expected{"blocks", 1},
        Expected{"transposed_weights", 1}, Expected{"layer_norm_lstm", 1}}) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      SCOPED_TRACE(name);
      const Plan plan = plan_of(load_case(name), {.dtype = dtype});
      ASSERT_NE(resident(plan), nullptr) << recurrence_of(plan).reason;
      EXPECT_EQ(resident(plan)->phases.size(), phases);
      EXPECT_EQ(recurrence_of(plan).domain, Domain::Sequence);
      EXPECT_NE(recurrence_of(plan).recurrence, RecurrenceClass::None);
      EXPECT_EQ(recurrence_of(plan).reason.find("not resident"), std::string::npos);
    }
  }
}

// Its products are part of the phase that reduces over their results, which lie nowhere.
TEST(Resident, ReductionsExchangeTheirParts) {
  const Plan plan = plan_of(load_case("layer_norm_lstm"));
  const RecurrenceLaunch& launch = *resident(plan);
  ASSERT_EQ(launch.phases[0].products.size(), 1u);
  EXPECT_EQ(launch.phases[0].products[0].members, 4u);
  EXPECT_GT(count_reductions(plan, launch.phases), 0);
  EXPECT_EQ(plan.buffers[launch.exchange].width, exchange_width(plan, launch));
  EXPECT_TRUE(std::ranges::none_of(
      plan.buffers, [](const Buffer& buffer) { return buffer.name == "products of h"; }));
}

// Whatever the tile: each piece of each row has a place of its own, in the exchange or, of what
// blocks with whole rows hand to themselves, in their shared memory.
TEST(Resident, WhatIsExchangedDoesNotOverlap) {
  for (const char* name : {"lstm", "gru_reset_before", "layer_norm_lstm"}) {
    Plan plan = plan_of(load_case(name));
    RecurrenceLaunch launch = *resident(plan);
    for (const auto& [batch, groups] : {std::pair(1, 1), std::pair(9, 1), std::pair(9, 2),
                                        std::pair(16, 5), std::pair(17, 17), std::pair(-9, 2)}) {
      const bool local = batch < 0;
      plan.batch = std::abs(batch);
      launch.tile.groups = groups;
      std::ranges::fill(launch.tile.units, local ? 64 : 1);
      const RecurrenceExchange exchange = exchange_of(plan, launch);
      ASSERT_FALSE(exchange.slices.empty()) << name;
      std::set<int64_t> places;
      const int64_t rows = (plan.batch + groups - 1) / groups;
      for (const RecurrenceExchange::Slice& slice : exchange.slices) {
        EXPECT_EQ(slice.local, local) << name;
        const int64_t vectors = local ? 1 : slice.blocks;
        for (int64_t i = 0; i < (local ? 1 : groups) * rows * vectors * slice.pieces; ++i) {
          const int64_t piece = i % slice.pieces;
          const int64_t vector = i / slice.pieces % vectors;
          const int64_t row = i / slice.pieces / vectors % rows;
          const int64_t group = i / slice.pieces / vectors / rows;
          const int64_t tile = (group * exchange.tiles + row / 8) * vectors + vector;
          const int64_t place =
              slice.offset +
              ((tile * slice.pieces + piece) * exchange.tile_rows + row % 8) * kExchangePieceBytes;
          EXPECT_TRUE(places.insert(place).second) << name << ", batch " << batch;
          EXPECT_LE(place + kExchangePieceBytes, local ? exchange.local_bytes : exchange.parts[0]);
        }
      }
      EXPECT_GE(exchange_width(plan, launch) * plan.batch * 4, exchange.step_bytes);
    }
  }
}

TEST(Resident, LengthsAndResetsChangeNothing) {
  const Plan plan = plan_of(load_case("lstm"), {.lengths = true, .resets = true});
  EXPECT_NE(resident(plan), nullptr) << recurrence_of(plan).reason;
}

TEST(Resident, WhatCannotBeSaysWhy) {
  const auto reason = [](const char* name, const PlanOptions& options = {}) {
    const Plan plan = plan_of(load_case(name), options);
    EXPECT_EQ(resident(plan), nullptr);
    EXPECT_EQ(recurrence_of(plan).domain, Domain::Step);
    const std::string& text = recurrence_of(plan).reason;
    const size_t begin = text.find("; not resident: ");
    return begin == std::string::npos ? "none" : text.substr(begin + 16);
  };
  EXPECT_EQ(reason("lstm", {.dtype = DType::f64}), "f64 has no kernel for it");
}

TEST(Resident, ATooLargeRecurrenceStaysAsItWas) {
  Machine machine = h200_machine();
  machine.shared_bytes = 0;
  Plan plan = *build_plan(load_case("gru_reset_before"), {.dtype = DType::bf16, .batch = 2});
  Plan before = plan;
  EXPECT_FALSE(run_resident(plan, machine).value());
  const std::string reason = recurrence_of(plan).reason;
  EXPECT_NE(reason.find("shared memory"), std::string::npos) << reason;
  for (Plan* one : {&before, &plan}) {
    for (Stage& stage : one->stages) stage.reason.clear();
  }
  EXPECT_EQ(to_string(plan), to_string(before));
}

TEST(Resident, NorDoesItGoWhereItIsMuchSlower) {
  Machine machine = h200_machine();
  machine.exchange_seconds = 1e-3;
  const PassSet passes = PassSet::all().without(Pass::Pad);
  const Graph graph = load_case("layer_norm_lstm");
  Plan plan = *build_plan(graph, {.batch = 2, .passes = passes, .machine = machine});
  EXPECT_NE(recurrence_of(plan).reason.find(" us on the chip, and takes "), std::string::npos)
      << recurrence_of(plan).reason;
  // Its launches are as if it had not been tried: kernels that reduce take no products there.
  const PlanOptions launches = {
      .batch = 2, .passes = passes.without(Pass::Resident), .machine = machine};
  Plan others = *build_plan(graph, launches);
  for (Plan* one : {&plan, &others}) {
    for (Stage& stage : one->stages) stage.reason.clear();
  }
  EXPECT_EQ(to_string(plan), to_string(others));
  // Rows of 8 bytes: as launches that is slower still.
  plan =
      *build_plan(graph, {.dtype = DType::bf16, .batch = 2, .passes = passes, .machine = machine});
  EXPECT_NE(resident(plan), nullptr) << recurrence_of(plan).reason;
}

// The schedule knows which kernel takes which product; a plan with these apart does not say.
TEST(Resident, WhatHasProductsOfItsOwnMustBeFormedForOneLaunch) {
  const Graph graph = load_case("layer_norm_lstm");
  const Plan launches = *build_plan(graph, {.batch = 2});
  EXPECT_EQ(recurrences_to_form(launches), std::set<std::string>{recurrence_of(launches).name});
  EXPECT_TRUE(resident_recurrences(launches).empty());
  Plan plan = launches;
  EXPECT_FALSE(run_resident(plan, h200_machine()).value());
  EXPECT_NE(recurrence_of(plan).reason.find("not resident: it has a launch that is no phase"),
            std::string::npos)
      << recurrence_of(plan).reason;
  const Plan chip = plan_of(graph);
  EXPECT_TRUE(recurrences_to_form(chip).empty());
  EXPECT_EQ(resident_recurrences(chip), std::set<std::string>{recurrence_of(chip).name});
}

/// As a library's products their steps are faster than as those that phases are made of.
TEST(Resident, ManyRowsStayProductsOfALibraryAndSayWhy) {
  Machine machine = h200_machine();
  machine.exchange_seconds = 1e-3;
  const PlanOptions options = {
      .dtype = DType::bf16, .batch = 200, .max_steps = 50, .machine = machine};
  const Graph graph = load_case("gru_reset_before", {{"I", 1024}, {"H", 1024}});
  const Plan plan = *build_plan(graph, options);
  const Stage& recurrence = recurrence_of(plan);
  EXPECT_TRUE(std::holds_alternative<GemmLaunch>(recurrence.launches[0]));
  EXPECT_NE(recurrence.reason.find(" us on the chip, and takes "), std::string::npos)
      << recurrence.reason;
  // Those of another plan are only what they are compared with.
  EXPECT_NE(
      resident(*build_plan(
          graph, {.dtype = DType::bf16, .batch = 200, .max_steps = 50, .machine = h200_machine()})),
      nullptr);
}

TEST(Resident, IsForGpus) {
  const Graph graph = load_case("lstm");
  const auto text = [&](PassSet passes, const Machine& machine) {
    return to_string(*build_plan(graph, {.batch = 2, .passes = passes, .machine = machine}));
  };
  const PassSet others = PassSet::all().without(Pass::Resident);
  EXPECT_EQ(text(PassSet::all(), cpu_machine(2)), text(others, cpu_machine(2)));
  EXPECT_EQ(text(others, h200_machine()).find("resident on"), std::string::npos);
  EXPECT_NE(text(PassSet::all(), h200_machine()).find("resident on"), std::string::npos);
}

// The work of both is formed for one launch; the one that has too many arrays for it has products
// apart again.
TEST(Resident, WhatIsFormedInVainIsLaunchesAsBefore) {
  std::string params, terms;
  constexpr int64_t kFirst = 17;  // the node of the first term
  constexpr int64_t kTerms = 1000;
  for (int64_t i = 0; i < kTerms; ++i) {
    const int64_t node = kFirst + 3 * i;
    params += fmt::format("    param u_{}: [16]\n", i);
    terms += fmt::format("    %{} = param u_{} : [16]\n", node, i);
    terms += fmt::format("    %{} = mul %{}, %16 : [16]\n", node + 1, node);
    terms +=
        fmt::format("    %{} = add %{}, %{} : [16]\n", node + 2, i == 0 ? 14 : node - 1, node + 1);
  }
  const int64_t last = kFirst + 3 * kTerms;
  const Graph graph = graph_from(R"(graph G() {
    input x: [16]
    param R: [16, 16]
    param S: [16, 16]
)" + params + R"(    state h: [16]
    state g: [16]
    %0 = input x : [16]
    %1 = param R : [16, 16]
    %2 = param S : [16, 16]
    %3 = state h @ 1 : [16]
    %4 = state g @ 1 : [16]
    %5 = const 0 : []
    %6 = matmul %1, %3 : [16]
    %7 = mean %6 : []
    %8 = sub %6, %7 : [16]
    %9 = add %8, %0 : [16]
    %10 = tanh %9 : [16]
    %11 = matmul %2, %4 : [16]
    %12 = mean %11 : []
    %13 = sub %11, %12 : [16]
    %14 = add %13, %10 : [16]
    %15 = const 0.001 : []
    %16 = mul %4, %15 : [16]
)" + terms +
                                 fmt::format(R"(    %{0} = tanh %{1} : [16]
    init h = %5
    init g = %5
    next h = %10
    next g = %{0}
    output y = %{0}
  }})",
                                             last, last - 1));
  const Plan plan = plan_of(graph);
  EXPECT_EQ(resident_recurrences(plan), std::set<std::string>{"h"});
  const auto stepped = std::ranges::find(plan.stages, Domain::Step, &Stage::domain);
  ASSERT_NE(stepped, plan.stages.end());
  EXPECT_NE(stepped->reason.find("; not resident: its kernel takes 10"), std::string::npos)
      << stepped->reason;
  EXPECT_TRUE(std::holds_alternative<GemmLaunch>(stepped->launches[0]));
  const InterpreterArgs args = random_args(graph, /*steps=*/90, plan.batch, 1);
  const InterpreterResult expected = interpret(graph, args);
  const InterpreterResult actual = execute_plan(plan, args);
  EXPECT_LE(error_of(actual.outputs[0], expected.outputs[0]), 2e-5);
}

// What a product or a kernel reads far back it does not wait for: steps take no longer for it.
TEST(Resident, StatesAreReadFarBack) {
  const auto graph_of_delay = [](int64_t delay) {
    return graph_from(fmt::format(R"(graph G() {{
    input x: [256]
    param R: [256, 256]
    state h: [256]
    state c: [256]
    %0 = input x : [256]
    %1 = param R : [256, 256]
    %2 = state h @ {0} : [256]
    %3 = state c @ {0} : [256]
    %4 = const 0 : []
    %5 = matmul %1, %2 : [256]
    %6 = add %5, %0 : [256]
    %7 = add %6, %3 : [256]
    %8 = tanh %7 : [256]
    %9 = tanh %8 : [256]
    init h = %4
    init c = %4
    next h = %9
    next c = %8
    output y = %9
  }})",
                                  delay));
  };
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const auto step = [dtype](const Plan& plan) {
      const RecurrenceLaunch* launch = resident(plan);
      RNNC_CHECK(launch != nullptr, "{}", recurrence_of(plan).reason);
      EXPECT_EQ(launch->phases.size(), 1u);
      return time_of(plan, *launch, h200_machine()).step;
    };
    const double last = step(plan_of(graph_of_delay(1), {.dtype = dtype}));
    for (const int64_t delay : {9, 64, 512}) {
      EXPECT_LE(step(plan_of(graph_of_delay(delay), {.dtype = dtype})), 1.2 * last) << delay;
    }
  }
}

/// Of the recurrence, in order: buffers that its kernels gather elements of, and how many.
std::vector<std::string> gathered(const Plan& plan) {
  const RecurrenceLaunch* launch = resident(plan);
  RNNC_CHECK(launch != nullptr, "{}", recurrence_of(plan).reason);
  std::vector<std::string> result;
  for (const RecurrenceGather& gather : gathers_of(plan, launch->phases, launch->tile.sides)) {
    result.push_back(fmt::format("{} {}", plan.buffers[gather.buffer].name, gather.width));
  }
  return result;
}

TEST(Resident, ElementsThatMoveWithinARowAreGathered) {
  const Plan plan = plan_of(graph_from(R"(graph G() {
    input x: [4]
    param R: [4, 4]
    state h: [4]
    %0 = input x : [4]
    %1 = param R : [4, 4]
    %2 = state h @ 1 : [4]
    %3 = const 0 : []
    %4 = slice %2 from 0 to 2 : [2]
    %5 = slice %2 from 2 to 4 : [2]
    %6 = concat %5, %4 : [4]
    %7 = matmul %1, %2 : [4]
    %8 = add %0, %7 : [4]
    %9 = add %8, %6 : [4]
    %10 = tanh %9 : [4]
    init h = %3
    next h = %10
    output y = %10
  })"));
  EXPECT_EQ(gathered(plan), (std::vector<std::string>{"h 4", "concat.6 4"}));
}

TEST(Resident, OneValueOfARowIsGatheredByPhasesOfAnotherLength) {
  const Plan plan = plan_of(graph_from(R"(graph G() {
    input x: [4]
    param A: [6, 6]
    param R: [4, 6]
    state h: [4]
    state m: [6]
    %0 = input x : [4]
    %1 = param A : [6, 6]
    %2 = param R : [4, 6]
    %3 = state h @ 1 : [4]
    %4 = state m @ 1 : [6]
    %5 = const 0 : []
    %6 = mean %3 : []
    %7 = matmul %1, %4 : [6]
    %8 = add %7, %6 : [6]
    %9 = matmul %2, %8 : [4]
    %10 = add %0, %9 : [4]
    %11 = tanh %10 : [4]
    init h = %5
    init m = %5
    next h = %11
    next m = %8
    output y = %11
  })"));
  EXPECT_EQ(gathered(plan), std::vector<std::string>{"mean.6 1"});
  const RecurrenceLaunch& launch = *resident(plan);
  EXPECT_FALSE(launch.tile.clusters);
  EXPECT_FALSE(launch.tile.own_sums);
}

}  // namespace
}  // namespace rnnc::test
