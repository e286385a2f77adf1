#include "passes/graph/split_products.h"

#include <gtest/gtest.h>

#include "ir/graph/text.h"
#include "passes/graph/dead_code.h"
#include "tests/passes/cases.h"
#include "tests/passes/graph/pass_check.h"

namespace rnnc::test {
namespace {

bool split_and_clean(Graph& graph) {
  const bool changed = run_split_products(graph);
  run_dead_code(graph);
  return changed;
}

/// A graph of these nodes over inputs x: [3], r: [], param W: [4, 7] and state h: [4].
std::string body(const std::string& nodes) {
  return R"(graph G() {
    input x: [3]
    input r: []
    param W: [4, 7]
    param V: [7, 4]
    param R: [4, 4]
    param D: [2, 2, 2]
    param a: [4]
    state h: [4]
    %0 = const 0 : []
    init h = %0
)" + nodes +
         "}";
}

void expect_split(const std::string& before, const std::string& expected) {
  EXPECT_EQ(after(split_and_clean, body(before)), normal(body(expected)));
  Graph graph = graph_from(body(before));
  split_and_clean(graph);
  expect_same_results(graph_from(body(before)), graph, 1);
}

void expect_unchanged(const std::string& nodes) {
  Graph graph = graph_from(body(nodes));
  EXPECT_FALSE(run_split_products(graph)) << to_string(graph);
  EXPECT_EQ(to_string(graph), normal(body(nodes)));
}

TEST(SplitProducts, JoinedVectors) {
  expect_split(R"(
    %1 = input x : [3]
    %2 = param W : [4, 7]
    %3 = state h @ 1 : [4]
    %4 = concat %1, %3 : [7]
    %5 = matmul %2, %4 : [4]
    next h = %5
    output y = %5
  )",
               R"(
    %1 = input x : [3]
    %2 = param W : [4, 7]
    %3 = state h @ 1 : [4]
    %4 = transpose %2 : [7, 4]
    %5 = slice %4 from 0 to 3 : [3, 4]
    %6 = matmul %1, %5 : [4]
    %7 = slice %4 from 3 to 7 : [4, 4]
    %8 = matmul %3, %7 : [4]
    %9 = add %6, %8 : [4]
    next h = %9
    output y = %9
  )");
}

TEST(SplitProducts, NeighboursOnOneSideStayTogether) {
  expect_split(R"(
    %1 = state h @ 1 : [4]
    %2 = input x : [3]
    %3 = param V : [7, 4]
    %4 = slice %1 from 0 to 2 : [2]
    %5 = slice %1 from 1 to 3 : [2]
    %6 = concat %4, %5, %2 : [7]
    %7 = matmul %6, %3 : [4]
    next h = %7
    output y = %7
  )",
               R"(
    %1 = state h @ 1 : [4]
    %2 = input x : [3]
    %3 = param V : [7, 4]
    %4 = slice %1 from 0 to 2 : [2]
    %5 = slice %1 from 1 to 3 : [2]
    %6 = concat %4, %5 : [4]
    %7 = slice %3 from 0 to 4 : [4, 4]
    %8 = matmul %6, %7 : [4]
    %9 = slice %3 from 4 to 7 : [3, 4]
    %10 = matmul %2, %9 : [4]
    %11 = add %8, %10 : [4]
    next h = %11
    output y = %11
  )");
}

TEST(SplitProducts, ChoicesByOneNumberPerRow) {
  expect_split(R"(
    %1 = input r : []
    %2 = param D : [2, 2, 2]
    %3 = param a : [4]
    %4 = state h @ 1 : [4]
    %5 = where %1, %3, %4 : [4]
    %6 = matmul %2, %5 : [4]
    next h = %6
    output y = %6
  )",
               R"(
    %1 = input r : []
    %2 = param D : [2, 2, 2]
    %3 = param a : [4]
    %4 = state h @ 1 : [4]
    %5 = matmul %2, %3 : [4]
    %6 = matmul %2, %4 : [4]
    %7 = where %1, %5, %6 : [4]
    next h = %7
    output y = %7
  )");
  expect_split(R"(
    %1 = input r : []
    %2 = param R : [4, 4]
    %3 = state h @ 1 : [4]
    %4 = where %1, %3, %0 : [4]
    %5 = matmul %4, %2 : [4]
    next h = %5
    output y = %5
  )",
               R"(
    %1 = input r : []
    %2 = param R : [4, 4]
    %3 = state h @ 1 : [4]
    %4 = matmul %3, %2 : [4]
    %5 = broadcast %0 : [4]
    %6 = matmul %5, %2 : [4]
    %7 = where %1, %4, %6 : [4]
    next h = %7
    output y = %7
  )");
}

TEST(SplitProducts, WhatIsWhollyOnOneSideIsLeft) {
  // In the recurrence, a choice by element, and out of any.
  expect_unchanged(R"(
    %1 = param W : [4, 7]
    %2 = state h @ 1 : [4]
    %3 = slice %2 from 0 to 3 : [3]
    %4 = concat %3, %2 : [7]
    %5 = matmul %1, %4 : [4]
    next h = %5
    output y = %5
  )");
  expect_unchanged(R"(
    %1 = param R : [4, 4]
    %2 = param a : [4]
    %3 = state h @ 1 : [4]
    %4 = where %2, %0, %3 : [4]
    %5 = matmul %1, %4 : [4]
    next h = %5
    output y = %5
  )");
  expect_unchanged(R"(
    %1 = input x : [3]
    %2 = param W : [4, 7]
    %3 = param a : [4]
    %4 = concat %1, %3 : [7]
    %5 = matmul %2, %4 : [4]
    next h = %5
    output y = %5
  )");
}

}  // namespace
}  // namespace rnnc::test
