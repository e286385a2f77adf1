#include "passes/graph/dependence.h"

#include <gtest/gtest.h>

#include "passes/graph/pipeline.h"
#include "tests/passes/cases.h"

namespace rnnc::test {
namespace {

/// The stages in words: "sequence | step h, c (dense, 1 phase) | sequence".
std::string stages(const Graph& graph) {
  const Dependence dependence = analyse_dependence(graph);
  std::string text;
  for (size_t i = 1; i < dependence.order.size(); ++i) {
    if (i > 1) text += " | ";
    if (dependence.order[i].domain == Domain::Sequence) {
      text += "sequence";
      continue;
    }
    const Recurrence& recurrence = dependence.recurrences[dependence.order[i].recurrence];
    std::string names;
    for (uint32_t state : recurrence.states) {
      names += (names.empty() ? "" : ", ") + graph.states[state].name;
    }
    const std::string_view classes[] = {"none", "linear", "elementwise", "block", "dense"};
    text +=
        fmt::format("step {} ({}, {})", names,
                    classes[static_cast<size_t>(recurrence.recurrence_class)], recurrence.phases);
  }
  return text;
}

std::string reason(const Graph& graph) {
  const Dependence dependence = analyse_dependence(graph);
  return dependence.recurrences.empty() ? "" : dependence.recurrences[0].reason;
}

struct Expectation {
  const char* name;
  const char* stages;
  const char* reason;  // of the first recurrence
};

#define AFFINE "every update is affine in its states: "

const Expectation kExpectations[] = {
    {"elman", "sequence | step h (dense, 1)", "the product with R [4, 4] mixes its units"},
    {"lstm", "sequence | step h, c (dense, 1)", "the product with R_i [4, 4] mixes its units"},
    {"gru", "sequence | step h (dense, 1)", "the product with R_r [4, 4] mixes its units"},
    {"gru_reset_before", "sequence | step h (dense, 2)",
     "the product with R_r [4, 4] mixes its units"},
    {"min_gru", "sequence | step h (linear, 0)",
     AFFINE "h = (1 - sigmoid(%6 matmul + b_z)) * h[t-1] + sigmoid(%6 matmul + b_z) * "
            "(%12 matmul + b_n)"},
    {"min_lstm", "sequence | step h (linear, 0)",
     AFFINE "h = (sigmoid(%6 matmul) / (sigmoid(%6 matmul) + sigmoid(%8 matmul))) * h[t-1] + "
            "(sigmoid(%8 matmul) * (%11 matmul)) / (sigmoid(%6 matmul) + sigmoid(%8 m…"},
    {"ind_rnn", "sequence | step h (elementwise, 0)",
     "relu makes it nonlinear; no product or reduction inside"},
    {"layer_norm_lstm", "sequence | step h, c (dense, 3)",
     "the product with R_i [4, 4] mixes its units"},
    {"projected_lstm", "sequence | step h, c (dense, 2)",
     "the product with R_i [5, 2] mixes its units"},
    {"stacked_lstm",
     "sequence | step LSTM.0.h, LSTM.0.c (dense, 1) | sequence | "
     "step LSTM.1.h, LSTM.1.c (dense, 1) | sequence | step LSTM.2.h, LSTM.2.c (dense, 1) | "
     "sequence",
     "the product with LSTM.0.R_i [4, 4] mixes its units"},
    {"two_recurrences", "sequence | step h (dense, 1) | step s (linear, 0) | sequence",
     "the product with R [4, 4] mixes its units"},
    {"dense", "sequence", ""},
    {"copies", "sequence", ""},
    {"delays",
     "sequence | step u, v (linear, 0) | sequence | step h, h@2, h@3 (dense, 1) | sequence",
     AFFINE "u = v[t-1], v = u[t-1]"},
    {"derived_weights", "sequence | step h (dense, 1) | sequence",
     "the product with a value computed from other values [4, 4] mixes its units"},
    {"scalars", "sequence | step h, s (dense, 1) | sequence",
     "sum over a vector inside mixes its units"},
    {"bidirectional", "sequence | step h (dense, 1) | step h_back (dense, 1) | sequence",
     "the product with R [4, 4] mixes its units"},
    {"blocks", "sequence | step h, c (block, 1) | sequence",
     "its products are block-diagonal, of 2 blocks"},
    {"concat", "sequence | step h (dense, 1) | sequence | step m (elementwise, 0)",
     "the product with W [4, 4] mixes its units"},
    {"slices", "sequence | step h (dense, 1) | sequence",
     "the product with R [6, 3] mixes its units"},
    {"stacked_bidirectional",
     "sequence | step f0 (dense, 1) | step b0 (dense, 1) | sequence | sequence | "
     "step f1 (dense, 1) | step b1 (dense, 1) | sequence | sequence",
     "the product with R [4, 4] mixes its units"},
    {"state_arrays",
     "sequence | step s (dense, 2) | step total (linear, 0) | step line (linear, 0) | "
     "sequence",
     "the product with R [4, 4] mixes its units"},
    {"delta_rule", "sequence | step S (elementwise, 0) | sequence",
     "20 of its states need each other; no product or reduction inside"},
    {"broadcasts", "sequence | step h (dense, 2) | step z (elementwise, 0) | sequence",
     "mean over a vector inside mixes its units"},
    {"transposed_weights", "sequence | step h (dense, 1) | sequence",
     "the product with a value computed from other values [4, 4] mixes its units"},
};

TEST(Dependence, FindsStagesClassesAndPhasesOfEveryCase) {
  std::vector<std::string> covered;
  for (const Expectation& expected : kExpectations) {
    SCOPED_TRACE(expected.name);
    covered.emplace_back(expected.name);
    Graph graph = load_case(expected.name);
    ASSERT_TRUE(run_pipeline(graph));
    EXPECT_EQ(stages(graph), expected.stages);
    EXPECT_EQ(reason(graph), expected.reason);
  }
  EXPECT_EQ(covered.size(), case_names().size());
}

/// A cell with one state, whose next value the lines define as %9 from %1 = h[t-1], %2 = x and
/// %3 = a.
Graph one_state(const std::string& lines) {
  return graph_from(R"(graph Cell(H = 4) {
    input x: [H]
    param a: [H]
    param W: [H, H]
    state h: [H]
    %0 = const 0 : []
    %1 = state h @ 1 : [H]
    %2 = input x : [H]
    %3 = param a : [H]
    %4 = param W : [H, H]
)" + lines + R"(
    init h = %0
    next h = %9
    output h = %9
  })");
}

TEST(Dependence, AffineUpdatesAreLinear) {
  const auto updates = [](const char* lines) {
    const std::string text = reason(one_state(lines));
    return text.starts_with(AFFINE) ? text.substr(std::size(AFFINE) - 1) : text;
  };
  EXPECT_EQ(updates("%5 = neg %1 : [H]\n %6 = sub %2, %5 : [H]\n %7 = div %6, %3 : [H]\n"
                    "%8 = lt %2, %3 : [H]\n %9 = where %8, %7, %1 : [H]"),
            "h = where(lt(x[t], a), 1 / a, 1) * h[t-1] + where(lt(x[t], a), x[t] / a, 0)");
  // A tanh of what lies outside is a coefficient like any other.
  EXPECT_EQ(updates("%5 = tanh %2 : [H]\n %6 = matmul %4, %5 : [H]\n %7 = mul %5, %1 : [H]\n"
                    "%8 = add %7, %6 : [H]\n %9 = mul %8, %3 : [H]"),
            "h = (a * tanh(x[t])) * h[t-1] + a * (%6 matmul)");
  // Two steps back.
  EXPECT_EQ(updates("%5 = state h @ 2 : [H]\n %6 = mul %5, %3 : [H]\n %7 = add %6, %1 : [H]\n"
                    "%8 = add %7, %2 : [H]\n %9 = add %8, %8 : [H]"),
            "h = 2 * h[t-1] + (a + a) * h@2[t-1] + x[t] + x[t], h@2 = h[t-1]");
  // Lengths and resets.
  EXPECT_EQ(updates("%5 = reset : []\n %6 = where %5, %3, %1 : [H]\n %7 = mul %6, %2 : [H]\n"
                    "%8 = valid : []\n %9 = where %8, %7, %1 : [H]"),
            "h = where(valid, x[t] * where(reset, 0, 1), 1) * h[t-1] + "
            "where(valid, x[t] * where(reset, a, 0), 0)");
  // A maximum is what a sum is over (max, +).
  EXPECT_EQ(updates("%5 = add %1, %3 : [H]\n %6 = max %5, %2 : [H]\n %7 = max %6, %3 : [H]\n"
                    "%8 = sub %7, %2 : [H]\n %9 = add %8, %3 : [H]"),
            "h = max((a - x[t] + a) + h[t-1], max(x[t], a) - x[t] + a)");
  // So is what relu cuts off below 0.
  EXPECT_EQ(updates("%5 = add %1, %2 : [H]\n %6 = relu %5 : [H]\n %7 = sub %6, %3 : [H]\n"
                    "%8 = add %7, %2 : [H]\n %9 = relu %8 : [H]"),
            "h = max((x[t] - a + x[t]) + h[t-1], max(0 - a + x[t], 0))");
}

TEST(Dependence, WhatIsNotAffineSaysWhy) {
  const auto classify = [](const std::string& line) {
    return reason(one_state("%5 = add %1, %2 : [H]\n %6 = add %1, %3 : [H]\n" + line));
  };
  const std::string rest = "\n %8 = add %7, %2 : [H]\n %9 = add %8, %2 : [H]";
  const std::string nonlinear = " makes it nonlinear; no product or reduction inside";
  EXPECT_EQ(classify("%7 = mul %5, %6 : [H]" + rest), "mul of two of its own values" + nonlinear);
  EXPECT_EQ(classify("%7 = div %2, %6 : [H]" + rest), "div by one of its own values" + nonlinear);
  EXPECT_EQ(classify("%7 = where %1, %2, %3 : [H]" + rest),
            "where on one of its own values" + nonlinear);
  EXPECT_EQ(classify("%7 = tanh %5 : [H]" + rest), "tanh" + nonlinear);
  EXPECT_EQ(classify("%7 = matmul %5, %4 : [H]" + rest),
            "the product with W [4, 4] mixes its units");
}

TEST(Dependence, WhatMovesUnitsIsNeitherLinearNorElementwise) {
  EXPECT_EQ(
      reason(one_state("%5 = slice %1 from 0 to 2 : [2]\n %6 = slice %1 from 2 to 4 : [2]\n"
                       "%7 = concat %6, %5 : [4]\n %8 = neg %7 : [4]\n %9 = add %8, %2 : [4]")),
      "slice inside moves values between its units");
  EXPECT_EQ(reason(one_state("%5 = index %1 at 0 : []\n %6 = mul %1, %5 : [4]\n"
                             "%7 = tanh %6 : [4]\n %8 = neg %7 : [4]\n %9 = neg %8 : [4]")),
            "index inside moves values between its units");
  // Outside it is a coefficient like any other.
  EXPECT_EQ(reason(one_state("%5 = slice %2 from 0 to 2 : [2]\n %6 = concat %5, %5 : [4]\n"
                             "%7 = mul %6, %1 : [4]\n %8 = neg %7 : [4]\n %9 = neg %8 : [4]")),
            AFFINE "h = (%6 concat) * h[t-1]");
}

TEST(Dependence, StatesOfAnArrayThatNeedEachOtherAreOneRound) {
  const Graph graph = graph_from(R"(graph Array(H = 4) {
    input x: [H]
    state s: [2, H]
    %0 = const 0 : []
    %1 = input x : [H]
    %2 = state s @ 1 : [2, H]
    %3 = index %2 at 0 : [H]
    %4 = index %2 at 1 : [H]
    %5 = add %1, %4 : [H]
    %6 = add %5, %3 : [H]
    %7 = stack %5, %6 : [2, H]
    init s = %0
    next s = %7
    output y = %6
  })");
  EXPECT_EQ(stages(graph), "sequence | step s (linear, 0)");
  EXPECT_EQ(reason(graph), AFFINE "s[0] = s[1][t-1] + x[t], s[1] = s[0][t-1] + s[1][t-1] + x[t]");
}

/// An array of `count` states, of which each goes on by `update` from its last value, %2 = x
/// and %3 = a; the last one by `last`.
Graph array_of_states(int count, const std::string& update, const std::string& last) {
  std::string lines;
  std::string stacked;
  for (int i = 0; i < count; ++i) {
    const int value = 4 + 3 * i;
    const std::string& line = i + 1 == count ? last : update;
    lines += fmt::format("%{} = index %1 at {} : [H]\n", value, i);
    lines += fmt::format(fmt::runtime(line), fmt::arg("old", value), fmt::arg("a", value + 1),
                         fmt::arg("b", value + 2));
    stacked += fmt::format("{}%{}", i == 0 ? "" : ", ", value + 2);
  }
  const int next = 4 + 3 * count;
  return graph_from(fmt::format(R"(graph Array(H = 4) {{
    input x: [H]
    param a: [H]
    state s: [{0}, H]
    %0 = const 0 : []
    %1 = state s @ 1 : [{0}, H]
    %2 = input x : [H]
    %3 = param a : [H]
    {1}
    %{2} = stack {3} : [{0}, H]
    init s = %0
    next s = %{2}
    output y = %{2}
  }})",
                                count, lines, next, stacked));
}

TEST(Dependence, StatesOfAnArrayAreProvedOneByOne) {
  const std::string decay = "%{a} = mul %{old}, %3 : [H]\n%{b} = add %{a}, %2 : [H]\n";
  const Graph alike = array_of_states(5, decay, decay);
  EXPECT_EQ(stages(alike), "sequence | step s (linear, 0)");
  EXPECT_EQ(reason(alike), AFFINE "s[0] = a * s[0][t-1] + x[t]; and 4 more likewise");

  const std::string sum = "%{a} = add %{old}, %3 : [H]\n%{b} = add %{a}, %2 : [H]\n";
  EXPECT_EQ(reason(array_of_states(5, decay, sum)),
            AFFINE "s[0] = a * s[0][t-1] + x[t]; s[4] = s[4][t-1] + a + x[t]; and 3 more likewise");

  const std::string bent = "%{a} = tanh %{old} : [H]\n%{b} = add %{a}, %2 : [H]\n";
  const Graph mixed = array_of_states(5, decay, bent);
  EXPECT_EQ(stages(mixed), "sequence | step s (elementwise, 0)");
  EXPECT_EQ(reason(mixed), "tanh makes it nonlinear; no product or reduction inside");

  EXPECT_EQ(reason(array_of_states(65, decay, decay)),
            "it has 65 states; no product or reduction inside");
}

/// A cell whose update the lines define up to %`last` from %1 = h[t-1], %2 = x and block-diagonal
/// %3 = A, %4 = B of 4 and 6 blocks, %5 = C of one.
Graph block_state(const std::string& lines, int last) {
  return graph_from(R"(graph Blocks() {
    input x: [12]
    param A: [4, 3, 3]
    param B: [6, 2, 2]
    param C: [1, 12, 12]
    state h: [12]
    %0 = const 0 : []
    %1 = state h @ 1 : [12]
    %2 = input x : [12]
    %3 = param A : [4, 3, 3]
    %4 = param B : [6, 2, 2]
    %5 = param C : [1, 12, 12]
)" + lines + fmt::format("init h = %0\nnext h = %{}\noutput h = %{}\n}}", last, last));
}

TEST(Dependence, BlockDiagonalProductsMakeABlockRecurrence) {
  const Graph one =
      block_state("%6 = matmul %3, %1 : [12]\n %7 = add %6, %2 : [12]\n %8 = tanh %7 : [12]", 8);
  EXPECT_EQ(stages(one), "sequence | step h (block, 1)");
  EXPECT_EQ(reason(one), "its products are block-diagonal, of 4 blocks");
  EXPECT_EQ(analyse_dependence(one).recurrences[0].blocks, 4u);

  // Blocks of 3 and of 2 units both fit into blocks of 6.
  const Graph two = block_state(
      "%6 = matmul %3, %1 : [12]\n %7 = add %6, %2 : [12]\n %8 = matmul %7, %4 : [12]", 8);
  EXPECT_EQ(stages(two), "sequence | step h (block, 2)");
  EXPECT_EQ(analyse_dependence(two).recurrences[0].blocks, 2u);
}

TEST(Dependence, WhatMixesBlocksIsDense) {
  const Graph single = block_state("%6 = matmul %5, %1 : [12]\n %7 = add %6, %2 : [12]", 7);
  EXPECT_EQ(stages(single), "sequence | step h (dense, 1)");
  EXPECT_EQ(reason(single), "the product with C [1, 12, 12] mixes its units");

  const Graph norm = block_state(
      "%6 = matmul %3, %1 : [12]\n %7 = mean %6 : []\n %8 = sub %6, %7 : [12]\n"
      "%9 = add %8, %2 : [12]",
      9);
  EXPECT_EQ(stages(norm), "sequence | step h (dense, 2)");
  EXPECT_EQ(reason(norm), "mean over a vector inside mixes its units");

  const Graph shift = block_state(
      "%6 = matmul %3, %1 : [12]\n %7 = slice %6 from 6 to 12 : [6]\n"
      "%8 = concat %7, %7 : [12]\n %9 = add %8, %2 : [12]",
      9);
  EXPECT_EQ(reason(shift), "slice inside moves values between its units");

  const Graph coprime = graph_from(R"(graph Coprime() {
    param A: [2, 3, 3]
    param B: [3, 2, 2]
    state h: [6]
    %0 = const 1 : []
    %1 = state h @ 1 : [6]
    %2 = param A : [2, 3, 3]
    %3 = param B : [3, 2, 2]
    %4 = matmul %2, %1 : [6]
    %5 = matmul %3, %4 : [6]
    init h = %0
    next h = %5
    output h = %5
  })");
  EXPECT_EQ(stages(coprime), "step h (dense, 2)");
  EXPECT_EQ(reason(coprime), "its products are block-diagonal with different blocks");
}

/// The sweep of each stage after the invariant one.
std::vector<uint32_t> sweeps(const Graph& graph) {
  const Dependence dependence = analyse_dependence(graph);
  std::vector<uint32_t> found;
  for (size_t i = 1; i < dependence.order.size(); ++i) {
    found.push_back(dependence.order[i].sweep);
  }
  return found;
}

TEST(Dependence, WhatRunsInReverseComesInALaterSweep) {
  // Both directions of a layer, each read by the other's successor.
  const Graph graph = graph_from(R"(graph Both() {
    input x: [3]
    state f: [3]
    state b: [3] reversed
    state g: [3]
    %0 = const 0 : []
    %1 = input x : [3]
    %2 = reverse %1 : [3]
    %3 = state b @ 1 : [3]
    %4 = add %2, %3 : [3]
    %5 = reverse %4 : [3]
    %6 = state g @ 1 : [3]
    %7 = mul %5, %6 : [3]
    %8 = state f @ 1 : [3]
    %9 = mul %1, %8 : [3]
    %10 = add %9, %7 : [3]
    %11 = exp %0 : []
    %12 = mul %1, %11 : [3]
    init f = %0
    next f = %9
    init b = %0
    next b = %4
    init g = %0
    next g = %7
    output y = %10
    output z = %12
  })");
  EXPECT_EQ(stages(graph),
            "sequence | step b (linear, 0) | step f (linear, 0) | sequence | step g (linear, 0) | "
            "sequence");
  EXPECT_EQ(sweeps(graph), (std::vector<uint32_t>{0, 0, 0, 1, 1, 1}));
  const Dependence dependence = analyse_dependence(graph);
  EXPECT_EQ(dependence.variation[5], Variation::Sequence);
  EXPECT_EQ(dependence.stage[2], 1u);  // of an input itself: all steps are there
  EXPECT_EQ(dependence.stage[5], 4u);
  EXPECT_EQ(dependence.stage[11], 0u);
}

TEST(Dependence, MasksVaryOverTime) {
  const Graph graph = graph_from(R"(graph Masks() {
    %0 = valid : []
    %1 = reset reversed : []
    %2 = reverse %1 : []
    %3 = mul %0, %2 : []
    %4 = eye : [2, 2]
    %5 = const 1 : []
    %6 = broadcast %5 : [2]
    %7 = matmul %4, %6 : [2]
    output y = %3
    output z = %7
  })");
  const Dependence dependence = analyse_dependence(graph);
  for (NodeId id = 0; id < 4; ++id) EXPECT_EQ(dependence.variation[id], Variation::Sequence);
  for (NodeId id = 4; id < 8; ++id) EXPECT_EQ(dependence.variation[id], Variation::Invariant);
}

TEST(Dependence, AStateReadOnlyOutsideItsCycleIsTimeParallel) {
  // The state holds the last input: no cycle, so nothing is recurrent, and its read is one stage
  // with what it is computed from.
  const Graph graph = graph_from(R"(graph Shift(I = 3) {
    input x: [I]
    state p: [I]
    %0 = const 0 : []
    %1 = input x : [I]
    %2 = state p @ 1 : [I]
    %3 = sub %1, %2 : [I]
    init p = %0
    next p = %1
    output d = %3
  })");
  const Dependence dependence = analyse_dependence(graph);
  EXPECT_TRUE(dependence.recurrences.empty());
  EXPECT_EQ(dependence.variation, (std::vector{Variation::Invariant, Variation::Sequence,
                                               Variation::Sequence, Variation::Sequence}));
  EXPECT_EQ(dependence.stage, (std::vector<uint32_t>{0, 1, 1, 1}));
}

TEST(Dependence, AStateThatKeepsItsValueIsARecurrence) {
  const Graph graph = graph_from(R"(graph Keep(H = 3) {
    state h: [H]
    %0 = const 1 : []
    %1 = state h @ 1 : [H]
    init h = %0
    next h = %1
    output h = %1
  })");
  EXPECT_EQ(stages(graph), "step h (linear, 0)");
}

TEST(Dependence, AStateOfAnInvariantStillVaries) {
  // p[t] is a param from the first step on, but p[t-1] is its initial value once.
  const Graph graph = graph_from(R"(graph Late(H = 3) {
    param b: [H]
    state p: [H]
    %0 = const 0 : []
    %1 = param b : [H]
    %2 = state p @ 1 : [H]
    %3 = tanh %2 : [H]
    %4 = tanh %1 : [H]
    init p = %0
    next p = %1
    output y = %3
    output z = %4
  })");
  EXPECT_EQ(analyse_dependence(graph).variation,
            (std::vector{Variation::Invariant, Variation::Invariant, Variation::Sequence,
                         Variation::Sequence, Variation::Invariant}));
}

TEST(Dependence, AnEmptyGraphHasOnlyTheInvariantStage) {
  const Dependence dependence = analyse_dependence(Graph{});
  ASSERT_EQ(dependence.order.size(), 1u);
  EXPECT_EQ(dependence.order[0].domain, Domain::Once);
}

TEST(Dependence, LongChainsDoNotExhaustTheStack) {
  Graph graph;
  graph.name = "Long";
  graph.states.push_back({"h", {}, kNoNode, kNoNode, {}});
  graph.states[0].init = graph.constant(0);
  NodeId value = graph.state(0);
  for (int i = 0; i < 200000; ++i) value = graph.apply(Op::Neg, {value});
  graph.states[0].next = value;
  const Dependence dependence = analyse_dependence(graph);
  ASSERT_EQ(dependence.recurrences.size(), 1u);
  EXPECT_EQ(dependence.recurrences[0].nodes.size(), 200001u);
}

}  // namespace
}  // namespace rnnc::test
