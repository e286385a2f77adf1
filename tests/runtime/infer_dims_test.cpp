#include <gtest/gtest.h>

#include "ir/graph/text.h"
#include "runtime/program/run.h"

namespace rnnc {
namespace {

/// An Elman cell with a block-diagonal matrix and a doubled vector: dims in every form.
constexpr std::string_view kGraph = R"(graph Elman(I, H, N, K = 5) {
  input x: [I]
  param W: [H, I]
  param R: [N, H / N, H / N]
  param v: [2 * H]
  param u: [K + 1]
  state h: [H]
  %0 = param W : [H, I]
  %1 = input x : [I]
  %2 = matmul %0, %1 : [H]
  %3 = state h @ 1 : [H]
  %4 = add %2, %3 : [H]
  %5 = const 0 : []
  init h = %5
  next h = %4
  output h = %4
}
)";

Graph graph() {
  Result<Graph> parsed = parse_graph(kGraph);
  EXPECT_TRUE(parsed) << parsed.error().message;
  return parsed.value_or(Graph{});
}

NamedArray array(std::string name, std::vector<int64_t> shape) {
  return {std::move(name), Array::zeros(DType::f32, std::move(shape))};
}

std::string problem(const DimBindings& given, const RunArgs& args) {
  const Result<DimBindings> dims = infer_dims(graph(), given, args);
  EXPECT_FALSE(dims);
  return dims ? "" : dims.error().message;
}

TEST(InferDims, FindsDimsInInputsParamsAndStates) {
  const RunArgs args{
      .inputs = {array("x", {7, 2, 3})},
      .params = {array("W", {4, 3}), array("R", {2, 2, 2}), array("v", {8}), array("u", {10})},
      .initial_states = {array("h", {2, 4})}};
  const Result<DimBindings> dims = infer_dims(graph(), {}, args);
  ASSERT_TRUE(dims) << dims.error().message;
  EXPECT_EQ(*dims, (DimBindings{{"H", 4}, {"I", 3}, {"K", 9}, {"N", 2}}));
}

TEST(InferDims, SolvesMultiplesQuotientsAndSums) {
  EXPECT_EQ(*infer_dims(graph(), {},
                        {.inputs = {array("x", {7, 2, 3})},
                         .params = {},
                         .initial_states = {array("h", {2, 4})}}),
            (DimBindings{{"H", 4}, {"I", 3}}));
  // v: [2 * H], then R: [N, H / N, H / N] gives N at once.
  const RunArgs doubled{
      .inputs = {array("x", {7, 2, 3})},
      .params = {array("v", {24}), array("R", {3, 4, 4}), array("W", {12, 3}), array("u", {6})},
      .initial_states = {}};
  EXPECT_EQ(*infer_dims(graph(), {}, doubled),
            (DimBindings{{"H", 12}, {"I", 3}, {"K", 5}, {"N", 3}}));
}

TEST(InferDims, KeepsWhatIsGivenAndLeavesDefaultsToCompile) {
  EXPECT_EQ(*infer_dims(graph(), {{"H", 9}, {"N", 1}},
                        {.inputs = {array("x", {7, 2, 3})}, .params = {}, .initial_states = {}}),
            (DimBindings{{"H", 9}, {"I", 3}, {"N", 1}}));
}

TEST(InferDims, AConflictNamesBothPlaces) {
  const RunArgs args{
      .inputs = {array("x", {7, 2, 3})},
      .params = {array("W", {4, 3}), array("R", {2, 2, 2}), array("v", {10}), array("u", {6})},
      .initial_states = {array("h", {2, 5})}};
  EXPECT_EQ(problem({}, args),
            "the arrays do not fit `Elman`:\n"
            "  param `v` is [10], expected [2 * H] = [8]\n"
            "  initial state `h` is [2, 5], expected [B, H] = [B, 4]\n"
            "  where H = 4 from param `W`");
}

TEST(InferDims, ASizeThatNoDimMakesIsNamed) {
  EXPECT_EQ(problem({}, {.inputs = {array("x", {7, 2, 3})},
                         .params = {array("v", {9})},
                         .initial_states = {}}),
            "the arrays do not fit `Elman`:\n"
            "  param `W` [H, I] = [H, 3] is missing\n"
            "  param `R` [N, H / N, H / N] is missing\n"
            "  param `u` [K + 1] is missing\n"
            "  param `v` is [9], expected [2 * H]");
}

TEST(InferDims, AConflictWithAGivenDimNamesIt) {
  EXPECT_EQ(problem({{"I", 80}, {"H", 1}, {"N", 1}},
                    {.inputs = {array("x", {7, 2, 3})}, .params = {}, .initial_states = {}}),
            "input `x` is [7, 2, 3], expected [T, B, I] = [T, B, 80]\n  where I = 80 as given");
}

TEST(InferDims, AWrongRankIsNamed) {
  EXPECT_EQ(problem({}, {.inputs = {array("x", {7, 3})}, .params = {}, .initial_states = {}}),
            "input `x` is [7, 3], expected [T, B, I]");
}

TEST(InferDims, NamesThatCouldHaveDecidedADimAreListed) {
  const RunArgs args{.inputs = {array("y", {7, 2, 3})},
                     .params = {array("w", {4, 3}), array("R", {2, 2, 2}), array("v", {8})},
                     .initial_states = {}};
  EXPECT_EQ(problem({}, args),
            "the arrays do not fit `Elman`:\n"
            "  input `x` [T, B, I] is missing\n"
            "  input `y` [7, 2, 3] is not in `Elman` (did you mean `x`?)\n"
            "  param `W` [H, I] = [4, I] is missing\n"
            "  param `u` [K + 1] is missing\n"
            "  param `w` [4, 3] is not in `Elman` (did you mean `W`?)");
}

/// Arrays of params and of states, blocks of two sizes, and delays.
constexpr std::string_view kArrays = R"(graph Arrays(I, H, N, L) {
  input x: [I]
  param R: [L, H, H]
  param B: [N, H / N, I / N]
  state s: [L, H]
  %0 = input x @ 2 : [I]
  %1 = param B : [N, H / N, I / N]
  %2 = matmul %1, %0 : [H]
  %3 = state s @ 1 : [L, H]
  init s = %3
  next s = %3
  output y = %2
}
)";

Result<DimBindings> infer_arrays(const DimBindings& given, const RunArgs& args) {
  const Result<Graph> arrays = parse_graph(kArrays);
  EXPECT_TRUE(arrays) << arrays.error().message;
  return infer_dims(*arrays, given, args);
}

TEST(InferDims, FindsDimsInArraysOfParamsAndStatesAndInBlocks) {
  const DimBindings all = {{"H", 12}, {"I", 6}, {"L", 5}, {"N", 3}};
  EXPECT_EQ(*infer_arrays({}, {.inputs = {array("x", {7, 2, 6})},
                               .params = {array("R", {5, 12, 12}), array("B", {3, 4, 2})},
                               .initial_states = {}}),
            all);
  // From blocks and a state; whoever runs the arrays will miss the other param.
  EXPECT_EQ(*infer_arrays({}, {.inputs = {array("x", {7, 2, 6})},
                               .params = {array("B", {3, 4, 2})},
                               .initial_states = {array("s", {2, 5, 12}), array("x@2", {2, 6})}}),
            all);
}

TEST(InferDims, ConflictsOfArraysNameBothPlaces) {
  const auto text = [](const DimBindings& given, const RunArgs& args) {
    const Result<DimBindings> dims = infer_arrays(given, args);
    EXPECT_FALSE(dims);
    return dims ? "" : dims.error().message;
  };
  EXPECT_EQ(text({}, {.inputs = {array("x", {7, 2, 6})},
                      .params = {array("R", {5, 12, 12}), array("B", {3, 5, 2})},
                      .initial_states = {array("s", {2, 4, 12}), array("x@1", {2, 7})}}),
            "the arrays do not fit `Arrays`:\n"
            "  param `B` is [3, 5, 2], expected [N, H / N, I / N] = [3, 4, 2]\n"
            "  initial state `s` is [2, 4, 12], expected [B, L, H] = [B, 5, 12]\n"
            "  initial state `x@1` is [2, 7], expected [B, I] = [B, 6]\n"
            "  where H = 12 from param `R`, I = 6 from input `x`, L = 5 from param `R`, "
            "N = 3 from param `B`");
  EXPECT_EQ(text({{"N", 4}}, {.inputs = {array("x", {7, 2, 8})},
                              .params = {array("R", {5, 12, 12}), array("B", {3, 4, 2})},
                              .initial_states = {}}),
            "param `B` is [3, 4, 2], expected [N, H / N, I / N] = [4, 3, 2]\n"
            "  where H = 12 from param `R`, I = 8 from input `x`, N = 4 as given");
}

TEST(InferDims, SolvesForADivisor) {
  const Result<Graph> divided = parse_graph(R"(graph Divided(H, N) {
  input x: [H]
  param v: [H / N]
  %0 = input x : [H]
  output y = %0
}
)");
  ASSERT_TRUE(divided) << divided.error().message;
  EXPECT_EQ(
      *infer_dims(
          *divided, {},
          {.inputs = {array("x", {7, 2, 12})}, .params = {array("v", {4})}, .initial_states = {}}),
      (DimBindings{{"H", 12}, {"N", 3}}));
  // 12 / N is never 5 or 0.
  for (const int64_t size : {5, 0}) {
    const Result<DimBindings> dims = infer_dims(
        *divided, {},
        {.inputs = {array("x", {7, 2, 12})}, .params = {array("v", {size})}, .initial_states = {}});
    ASSERT_FALSE(dims);
    EXPECT_EQ(dims.error().message, fmt::format("param `v` is [{}], expected [H / N]\n"
                                                "  where H = 12 from input `x`",
                                                size));
  }
}

/// As the gates of an LSTM: many arrays that agree.
constexpr std::string_view kGates = R"(graph Gates(I, H) {
  input x: [I]
  param W_i: [H, I]
  param W_f: [H, I]
  param W_o: [H, I]
  param R_i: [H, H]
  param R_f: [H, H]
  param b_i: [H]
  param b_f: [H]
  param s: []
  state h: [H]
  %0 = state h @ 1 : [H]
  init h = %0
  next h = %0
  output h = %0
}
)";

/// Arrays that fit with I = 3 and H = 4; those in `others` instead of the ones of their names, and
/// left out where they have no name.
std::string gates_problem(const std::vector<NamedArray>& others, const std::string& missing = "",
                          const DimBindings& given = {}) {
  const Result<Graph> gates = parse_graph(kGates);
  EXPECT_TRUE(gates) << gates.error().message;
  RunArgs args{.inputs = {array("x", {7, 2, 3})},
               .params = {array("W_i", {4, 3}), array("W_f", {4, 3}), array("W_o", {4, 3}),
                          array("R_i", {4, 4}), array("R_f", {4, 4}), array("b_i", {4}),
                          array("b_f", {4}), array("s", {})},
               .initial_states = {}};
  for (const NamedArray& other : others) {
    for (auto* list : {&args.inputs, &args.params}) {
      for (NamedArray& named : *list) {
        if (named.name == other.name) named = other;
      }
    }
  }
  std::erase_if(args.params, [&](const NamedArray& named) { return named.name == missing; });
  const Result<DimBindings> dims = infer_dims(*gates, given, args);
  if (dims) {
    EXPECT_EQ(*dims, (DimBindings{{"H", 4}, {"I", 3}}));
  }
  return dims ? "" : dims.error().message;
}

TEST(InferDims, OneWrongArrayIsBlamedAlone) {
  EXPECT_EQ(gates_problem({}), "");
  const std::string where = "\n  where H = 4 from param `W_f`, I = 3 from input `x`";
  EXPECT_EQ(gates_problem({array("W_i", {3, 4})}),
            "param `W_i` is [3, 4], expected [H, I] = [4, 3]: it looks transposed" + where);
  EXPECT_EQ(gates_problem({array("W_i", {5, 6})}),
            "param `W_i` is [5, 6], expected [H, I] = [4, 3]" + where);
  EXPECT_EQ(gates_problem({array("W_o", {3, 4})}),
            "param `W_o` is [3, 4], expected [H, I] = [4, 3]: it looks transposed\n"
            "  where H = 4 from param `W_i`, I = 3 from input `x`");
  EXPECT_EQ(gates_problem({array("x", {7, 2, 9})}),
            "input `x` is [7, 2, 9], expected [T, B, I] = [T, B, 3]\n"
            "  where I = 3 from param `W_i`");
  EXPECT_EQ(gates_problem({array("R_i", {9, 9})}),
            "param `R_i` is [9, 9], expected [H, H] = [4, 4]\n  where H = 4 from param `W_i`");
  EXPECT_EQ(gates_problem({array("b_f", {1, 4})}),
            "param `b_f` is [1, 4], expected [H] = [4]\n  where H = 4 from param `W_i`");
  EXPECT_EQ(gates_problem({array("b_f", {5})}, "W_f"),
            "the arrays do not fit `Gates`:\n"
            "  param `W_f` [H, I] = [4, 3] is missing\n"
            "  param `b_f` is [5], expected [H] = [4]\n"
            "  where H = 4 from param `W_i`");
}

TEST(InferDims, AllTransposedArraysAreBlamedAndNoOther) {
  EXPECT_EQ(gates_problem({array("W_i", {3, 4}), array("W_f", {3, 4}), array("W_o", {3, 4})}),
            "the arrays do not fit `Gates`:\n"
            "  param `W_i` is [3, 4], expected [H, I] = [4, 3]: it looks transposed\n"
            "  param `W_f` is [3, 4], expected [H, I] = [4, 3]: it looks transposed\n"
            "  param `W_o` is [3, 4], expected [H, I] = [4, 3]: it looks transposed\n"
            "  where H = 4 from param `R_i`, I = 3 from input `x`");
  // Nothing else says what H is.
  const Result<Graph> one = parse_graph(R"(graph One(I, H) {
  input x: [I]
  param W: [H, I]
  %0 = input x : [I]
  output y = %0
}
)");
  ASSERT_TRUE(one) << one.error().message;
  EXPECT_EQ(
      infer_dims(
          *one, {},
          {.inputs = {array("x", {7, 2, 3})}, .params = {array("W", {3, 4})}, .initial_states = {}})
          .error()
          .message,
      "param `W` is [3, 4], expected [H, I] = [H, 3]: it looks transposed\n"
      "  where I = 3 from input `x`");
}

TEST(InferDims, AMissingArrayIsLeftToWhoRuns) {
  for (const char* name : {"W_i", "R_f", "b_i", "s"}) EXPECT_EQ(gates_problem({}, name), "");
}

TEST(InferDims, AnAxisOfSizeOneAtTheEndChangesNothing) {
  EXPECT_EQ(gates_problem({array("s", {1}), array("b_i", {4, 1})}), "");
  EXPECT_EQ(gates_problem({array("s", {2})}), "param `s` is [2], expected []");
  EXPECT_EQ(gates_problem({array("s", {1, 1})}), "param `s` is [1, 1], expected []");
}

TEST(InferDims, AWrongDimIsBlamedForAll) {
  EXPECT_EQ(gates_problem({}, "", {{"H", 5}}),
            "the dim `H` is 5 as given, but the arrays have H = 4, such as param `W_i`");
}

TEST(InferDims, ZeroIsLeftToCompile) {
  const Result<DimBindings> dims =
      infer_dims(graph(), {{"H", 4}, {"N", 1}},
                 {.inputs = {array("x", {7, 2, 0})}, .params = {}, .initial_states = {}});
  ASSERT_TRUE(dims) << dims.error().message;
  EXPECT_EQ(dims->at("I"), 0);
}

}  // namespace
}  // namespace rnnc
