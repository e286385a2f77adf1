#include "passes/persistent/carried_totals.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "ir/plan/plan_parse.h"
#include "passes/build_plan.h"
#include "tests/passes/cases.h"
#include "tests/support/cells/random_graph.h"
#include "tests/support/reference/golden.h"
#include "tests/support/reference/plan_executor.h"

namespace rnnc::test {
namespace {

constexpr int64_t kSteps = 11;
constexpr int64_t kBatch = 3;

Plan plan_of(const Graph& half, DType dtype = DType::f32, int64_t batch = kBatch) {
  Result<Plan> plan = plan_graph(half, {.dtype = dtype,
                                        .batch = batch,
                                        .max_steps = kSteps,
                                        .chunk = 4,
                                        .passes = PassSet::all(),
                                        .machine = h200_machine()});
  RNNC_CHECK(plan.has_value(), "{}", plan.error().message);
  return *std::move(plan);
}

std::vector<RecurrenceLaunch> recurrences_of(const Plan& plan) {
  std::vector<RecurrenceLaunch> found;
  for (const Stage& stage : plan.stages) {
    if (is_resident(stage)) found.push_back(std::get<RecurrenceLaunch>(stage.launches[0]));
  }
  return found;
}

/// Sums of one operand in stages of the domain.
std::ptrdiff_t count_sums(const Plan& plan, Domain domain) {
  std::ptrdiff_t found = 0;
  for (const Stage& stage : plan.stages) {
    if (stage.domain != domain) continue;
    found += std::ranges::count_if(stage.launches, [](const Launch& launch) {
      const auto* total = std::get_if<TotalLaunch>(&launch);
      return total != nullptr && total->right.buffer == kNoBuffer;
    });
  }
  return found;
}

TEST(CarriedTotals, RecurrencesAddUpWhatTheyStore) {
  for (const char* name : {"lstm", "gru", "elman"}) {
    SCOPED_TRACE(name);
    const Plan plan = plan_of(load_backward_half(name, {{"H", 8}}));
    ASSERT_EQ(recurrences_of(plan).size(), 1u);
    EXPECT_FALSE(recurrences_of(plan)[0].sums.empty());
    EXPECT_EQ(count_sums(plan, Domain::Sequence), 0) << to_string(plan);
    EXPECT_GT(count_sums(plan, Domain::Last), 0);
  }
}

/// A stack has those of all its layers.
TEST(CarriedTotals, OfLayersInOneLaunch) {
  const Plan plan = plan_of(load_backward_half("stacked_lstm", {{"H", 8}}), DType::bf16);
  ASSERT_EQ(recurrences_of(plan).size(), 1u);
  EXPECT_GT(recurrences_of(plan)[0].tile.sides.size(), 1u);
  EXPECT_EQ(recurrences_of(plan)[0].sums.size(), recurrences_of(plan)[0].tile.sides.size());
}

/// What others make of a total's elements, or in other columns, is no recurrence's to add up.
TEST(CarriedTotals, NotOfWhatIsStoredInPart) {
  const Plan plan = plan_of(load_backward_half("lstm", {{"H", 8}}));
  const RecurrenceLaunch launch = recurrences_of(plan)[0];
  BufferId gates = kNoBuffer;
  for (const FusedLaunch& phase : launch.phases) {
    for (const FusedLaunch::Product& product : phase.products) gates = product.left.buffer;
  }
  const int64_t width = plan.buffers[gates].width;
  const auto found = [&](const Access& left, int64_t m) {
    Plan trial = plan;
    TotalLaunch total{.left = left, .out = {.buffer = 0}, .m = m, .accumulate = true};
    total.left.stride = width;
    trial.stages.push_back({.domain = Domain::Sequence, .launches = {total}});
    return totals_to_carry(trial, launch.phases).size();
  };
  EXPECT_EQ(found({.buffer = gates}, width), 1u);
  EXPECT_EQ(found({.buffer = gates, .column = width / 4}, width / 2), 1u);
  EXPECT_EQ(found({.buffer = gates, .column = 1}, width - 1), 0u);
  EXPECT_EQ(found({.buffer = gates}, width - 1), 0u);
  EXPECT_EQ(found({.buffer = gates, .delay = 1}, width), 0u);
  EXPECT_EQ(found({.buffer = gates + 1}, width), 0u);
}

/// Memory that nothing has written is NaN.
TEST(CarriedTotals, GiveWhatTheGraphMeans) {
  uint64_t seed = 0;
  for (const char* name : {"lstm", "gru", "gru_reset_before", "layer_norm_lstm", "elman", "blocks",
                           "stacked_lstm", "two_recurrences", "bidirectional"}) {
    for (const int64_t hidden : {name == std::string("blocks") ? 6 : 3, 8}) {
      const Graph half = load_backward_half(name, {{"H", hidden}});
      for (const DType dtype : {DType::f32, DType::bf16}) {
        SCOPED_TRACE(fmt::format("{} {} {}", name, hidden, to_string(dtype)));
        const InterpreterArgs args = random_args(half, kSteps, kBatch, ++seed);
        const InterpreterResult expected = interpret(half, args);
        const InterpreterResult actual = execute_plan(plan_of(half, dtype), args);
        const double most = dtype == DType::f32 ? 2e-5 : 5e-2;
        for (size_t i = 0; i < expected.results.size(); ++i) {
          for (size_t j = 0; j < expected.results[i].size(); ++j) {
            const double value = expected.results[i][j];
            EXPECT_NEAR(actual.results[i][j], value, most * std::max(1.0, std::abs(value)));
          }
        }
      }
    }
  }
}

TEST(CarriedTotals, AreVerified) {
  const Plan good = plan_of(load_backward_half("lstm", {{"H", 8}}));
  const auto complaint = [&](const std::function<void(Plan&, RecurrenceLaunch&)>& change) {
    Plan plan = good;
    for (Stage& stage : plan.stages) {
      if (is_resident(stage)) change(plan, std::get<RecurrenceLaunch>(stage.launches[0]));
    }
    const Status status = verify(plan);
    const std::string message = status ? "" : status.error().message;
    return message.substr(message.rfind(": ") + 2);
  };
  const BufferId sum = recurrences_of(good)[0].sums[0];
  const std::string name = good.buffers[sum].name;
  EXPECT_EQ(complaint([](Plan& plan, RecurrenceLaunch& l) {
              l.sums.push_back(static_cast<BufferId>(plan.buffers.size()));
            }),
            "no place for sums over the steps");
  EXPECT_EQ(complaint([](Plan& plan, RecurrenceLaunch& l) {
              plan.buffers.push_back({.name = "other", .width = 8});
              l.sums.push_back(static_cast<BufferId>(plan.buffers.size() - 1));
            }),
            "nothing is added to other");
  EXPECT_EQ(complaint([&](Plan&, RecurrenceLaunch& l) { l.sums.push_back(0); }),
            "x cannot hold sums over the steps");
  EXPECT_EQ(complaint([](Plan&, RecurrenceLaunch& l) { l.sums.clear(); }),
            name + " is read before it is written");
}

TEST(CarriedTotals, AreText) {
  const Plan plan = plan_of(load_backward_half("gru", {{"H", 8}}));
  const std::string text = to_string(plan);
  EXPECT_NE(text.find(fmt::format("totals in b{}", recurrences_of(plan)[0].sums[0])),
            std::string::npos);
  const Result<Plan> parsed = parse_plan(text);
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(*parsed, plan);
}

}  // namespace
}  // namespace rnnc::test
