#include "passes/dependence.h"

#include <gtest/gtest.h>

#include "passes/pipeline.h"
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

constexpr char kAffine[] =
    "every update is affine in its states, with coefficients from outside the recurrence";

const Expectation kExpectations[] = {
    {"elman", "sequence | step h (dense, 1)", "the product with R [4, 4] mixes its units"},
    {"lstm", "sequence | step h, c (dense, 1)", "the product with R_i [4, 4] mixes its units"},
    {"gru", "sequence | step h (dense, 1)", "the product with R_r [4, 4] mixes its units"},
    {"gru_reset_before", "sequence | step h (dense, 2)",
     "the product with R_r [4, 4] mixes its units"},
    {"min_gru", "sequence | step h (linear, 0)", kAffine},
    {"min_lstm", "sequence | step h (linear, 0)", kAffine},
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
    {"delays", "sequence | step u, v (linear, 0) | sequence | step h (dense, 1) | sequence",
     kAffine},
    {"derived_weights", "sequence | step h (dense, 1) | sequence",
     "the product with a value computed from other values [4, 4] mixes its units"},
    {"scalars", "sequence | step h, s (dense, 1) | sequence",
     "sum over a vector inside mixes its units"},
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
  for (const char* update : {
           "%5 = neg %1 : [H]\n %6 = sub %2, %5 : [H]\n %7 = div %6, %3 : [H]\n"
           "%8 = lt %2, %3 : [H]\n %9 = where %8, %7, %1 : [H]",
           // A tanh of what lies outside is a coefficient like any other.
           "%5 = tanh %2 : [H]\n %6 = matmul %4, %5 : [H]\n %7 = mul %5, %1 : [H]\n"
           "%8 = add %7, %6 : [H]\n %9 = mul %8, %3 : [H]",
           // Two steps back.
           "%5 = state h @ 2 : [H]\n %6 = mul %5, %3 : [H]\n %7 = add %6, %1 : [H]\n"
           "%8 = add %7, %2 : [H]\n %9 = add %8, %8 : [H]",
       }) {
    SCOPED_TRACE(update);
    EXPECT_EQ(reason(one_state(update)), kAffine);
  }
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
  EXPECT_EQ(classify("%7 = max %5, %2 : [H]" + rest), "max" + nonlinear);
  EXPECT_EQ(classify("%7 = matmul %5, %4 : [H]" + rest),
            "the product with W [4, 4] mixes its units");
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
