// What a derivative says of itself: why each value is saved or computed anew, and where nothing
// passes.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "passes/gradient/differentiate.h"
#include "passes/gradient/zero_gradients.h"
#include "passes/graph/pipeline.h"
#include "tests/passes/cases.h"
#include "tests/passes/graph/pass_check.h"

namespace rnnc::test {
namespace {

Derivative derivative_of(const Graph& graph, ResidualChoice choice, ResidualCosts costs = {}) {
  DifferentiateOptions options =
      DifferentiateOptions::all(graph, std::vector<bool>(graph.states.size(), false));
  options.residuals = choice;
  options.costs = costs;
  options.decisions = true;
  return differentiate(graph, options);
}

constexpr std::string_view kCell = R"(graph G {
  input x: [4]
  param W: [4, 4]
  state h: [4]
  %0 = param W : [4, 4]
  %1 = input x : [4]
  %2 = matmul %0, %1 : [4]
  %3 = state h @ 1 : [4]
  %4 = mul %2, %3 : [4]
  %5 = tanh %4 : [4]
  %6 = const 0 : []
  %7 = broadcast %6 : [4]
  init h = %7
  next h = %5
  output h = %5
})";

std::map<NodeId, ResidualDecision> decisions_of(ResidualChoice choice, ResidualCosts costs = {}) {
  std::map<NodeId, ResidualDecision> decisions;
  const Derivative derivative = derivative_of(graph_from(std::string(kCell)), choice, costs);
  for (const ResidualDecision& one : derivative.decisions) decisions[one.value] = one;
  return decisions;
}

TEST(ResidualDecisions, EveryValueOfAStepHasAReason) {
  auto decisions = decisions_of(ResidualChoice::All);
  EXPECT_EQ(decisions.size(), 5U);
  EXPECT_EQ(decisions[1].reason, ResidualReason::Given);
  EXPECT_EQ(decisions[2].reason, ResidualReason::AskedFor);
  EXPECT_EQ(decisions[3].reason, ResidualReason::State);
  EXPECT_EQ(decisions[4].reason, ResidualReason::NotNeeded);
  EXPECT_EQ(decisions[5].reason, ResidualReason::AskedFor);
  EXPECT_TRUE(decisions[5].asked && decisions[5].is_saved());
}

TEST(ResidualDecisions, SayWhatWouldBeDoneAndWhatItIsMadeOf) {
  // Of a product of 32 operations 1 a byte: as long as 32 bytes take, as saving it does.
  auto decisions = decisions_of(ResidualChoice::Auto,
                                {.element_bytes = 4, .operations_per_byte = 4, .product_bytes = 0});
  EXPECT_EQ(decisions[2].reason, ResidualReason::Cheaper);
  EXPECT_EQ(decisions[2].save_bytes, 32);
  EXPECT_EQ(decisions[2].anew_bytes, 8);
  EXPECT_EQ(decisions[2].products, 1);
  EXPECT_EQ(decisions[2].from, std::vector<NodeId>{1});
  EXPECT_EQ(decisions[5].from, (std::vector<NodeId>{1, 3}));
  EXPECT_EQ(decisions[4].reason, ResidualReason::Cheaper);
  EXPECT_FALSE(decisions[4].asked);

  // Its result of 4 elements goes through memory, too.
  decisions = decisions_of(ResidualChoice::Auto, {.element_bytes = 4, .operations_per_byte = 4});
  EXPECT_EQ(decisions[2].reason, ResidualReason::Dearer);
  EXPECT_EQ(decisions[2].anew_bytes, 40);

  decisions = decisions_of(ResidualChoice::Auto,
                           {.element_bytes = 4, .operations_per_byte = 0.5, .product_bytes = 0});
  EXPECT_EQ(decisions[2].reason, ResidualReason::Dearer);
  EXPECT_EQ(decisions[2].save_bytes, 32);
  EXPECT_EQ(decisions[2].anew_bytes, 64);
  EXPECT_EQ(decisions[2].products, 1);
  EXPECT_EQ(decisions[5].reason, ResidualReason::Cheaper);
  EXPECT_EQ(decisions[5].from, (std::vector<NodeId>{2, 3}));
  EXPECT_EQ(decisions[5].products, 0);
}

/// y = V h[t] has the weight gradient V' = Σ dy h[t]ᵀ: h[t] is saved, and h[t-1] read from it.
std::string cell_below_a_product(std::string_view init) {
  return fmt::format(R"(graph G {{
  input x: [4]
  param R: [4, 4]
  param V: [4, 4]
  state h: [4]
  %0 = param R : [4, 4]
  %1 = input x : [4]
  %2 = state h @ 1 : [4]
  %3 = matmul %0, %2 : [4]
  %4 = mul %3, %1 : [4]
  %5 = param V : [4, 4]
  %6 = matmul %5, %4 : [4]
  %7 = const {} : []
  %8 = broadcast %7 : [4]
  init h = %8
  next h = %4
  output y = %6
}})",
                     init);
}

TEST(ResidualDecisions, AStateFollowsItsNextValueThatProductsTake) {
  const Graph graph = graph_from(cell_below_a_product("0"));
  for (const ResidualChoice choice :
       {ResidualChoice::All, ResidualChoice::Least, ResidualChoice::Auto}) {
    const Derivative derivative = derivative_of(graph, choice);
    std::map<NodeId, ResidualDecision> decisions;
    for (const ResidualDecision& one : derivative.decisions) decisions[one.value] = one;
    EXPECT_EQ(decisions[4].reason, ResidualReason::Followed);
    EXPECT_TRUE(decisions[4].is_saved());
    EXPECT_EQ(decisions[2].reason, ResidualReason::Follows);
    EXPECT_FALSE(decisions[2].is_saved());
    EXPECT_EQ(std::ranges::count(derivative.backward.nodes, Op::Earlier, &Node::op), 1);
  }
}

/// What it begins with is no value of a step before, nor what a piece before has left; and a state
/// that is given begins with that.
TEST(ResidualDecisions, AStateThatBeginsWithAValueIsSaved) {
  const auto saves_state = [](const Graph& graph, bool given, bool in_pieces) {
    DifferentiateOptions options = DifferentiateOptions::all(graph, {given});
    options.decisions = true;
    options.in_pieces = in_pieces;
    const Derivative derivative = differentiate(graph, options);
    const auto state = std::ranges::find(derivative.decisions, NodeId{2}, &ResidualDecision::value);
    return state->reason == ResidualReason::State;
  };
  const Graph from_zero = graph_from(cell_below_a_product("0"));
  EXPECT_FALSE(saves_state(from_zero, false, false));
  EXPECT_TRUE(saves_state(from_zero, true, false));
  EXPECT_TRUE(saves_state(from_zero, false, true));
  EXPECT_TRUE(saves_state(graph_from(cell_below_a_product("1")), false, false));
}

/// Whatever was chosen is no dearer than its one alternative, with all else as it is.
TEST(ResidualDecisions, AreNeverDearerThanTheirAlternative) {
  for (uint64_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Graph graph = any_random_graph(seed);
    ASSERT_TRUE(run_pipeline(graph, {.training = true}));
    for (const ResidualChoice choice :
         {ResidualChoice::All, ResidualChoice::Least, ResidualChoice::Auto}) {
      const Derivative derivative = derivative_of(
          graph, choice, {.element_bytes = 4, .operations_per_byte = 0.5, .product_bytes = 0});
      const auto saved = std::ranges::count_if(derivative.decisions, &ResidualDecision::is_saved);
      EXPECT_EQ(static_cast<size_t>(saved), derivative.residuals);
      for (const ResidualDecision& one : derivative.decisions) {
        if (one.reason == ResidualReason::Cheaper) {
          EXPECT_LE(one.anew_bytes, one.save_bytes);
        }
        if (one.reason != ResidualReason::Dearer) continue;
        EXPECT_FALSE(one.from.empty() && one.instead.empty());
        if (one.instead.empty()) {
          EXPECT_LE(one.save_bytes, one.anew_bytes);
        }
      }
    }
  }
}

std::vector<std::string> notes_of(std::string_view steps, bool wanted = true) {
  Graph graph =
      graph_from(fmt::format("graph G {{\n  input x: []\n  param w: []\n"
                             "  %0 = param w : []\n  %1 = input x : []\n{}}}",
                             steps));
  DifferentiateOptions options = DifferentiateOptions::all(graph, {});
  options.params[0] = options.inputs[0] = wanted;
  const Derivative derivative = differentiate(graph, options);
  return describe_zero_gradients(graph, derivative.zero_gradients);
}

TEST(ZeroGradients, AreToldWhereAGradientAsks) {
  const std::string rounds = "  %2 = round %0 : []\n  %3 = mul %2, %1 : []\n  output y = %3\n";
  EXPECT_EQ(notes_of(rounds),
            std::vector<std::string>{
                "`%2 round` has the gradient zero everywhere: nothing is learned through it\n"
                "  hint: for a straight-through gradient write `v + stop_gradient(round(v) - v)`; "
                "`stop_gradient(round(v))` says that zero is meant"});
  EXPECT_TRUE(notes_of(rounds, /*wanted=*/false).empty());
  for (const char* op : {"floor", "sign"}) {
    EXPECT_EQ(notes_of(fmt::format("  %2 = {} %0 : []\n  output y = %2\n", op)).size(), 1U) << op;
  }
  EXPECT_EQ(notes_of("  %2 = gt %0, %1 : []\n  %3 = mul %2, %1 : []\n  output y = %3\n"),
            std::vector<std::string>{
                "`%2 gt` counts as a number here, whose gradient is zero everywhere: nothing is "
                "learned through it\n  hint: for a gradient of your choice write `s + "
                "stop_gradient((%2 gt) - s)`, with `s = sigmoid(…)`, say; `stop_gradient(%2 gt)` "
                "says that zero is meant"});
}

TEST(ZeroGradients, AreNotToldOfConditionsStopsAndWhatReachesNothing) {
  EXPECT_TRUE(notes_of("  %2 = gt %0, %1 : []\n  %3 = lt %0, %1 : []\n  %4 = mul %2, %3 : []\n"
                       "  %5 = where %4, %0, %1 : []\n  output y = %5\n")
                  .empty());
  EXPECT_TRUE(
      notes_of("  %2 = round %0 : []\n  %3 = sub %2, %0 : []\n  %4 = stop_gradient %3 : []\n"
               "  %5 = add %0, %4 : []\n  output y = %5\n")
          .empty());
  // Of two, one behind the other, the one that stops the gradient.
  EXPECT_EQ(notes_of("  %2 = round %0 : []\n  %3 = floor %2 : []\n  output y = %3\n").size(), 1U);
}

}  // namespace
}  // namespace rnnc::test
