#include "runtime/weights/weight_map.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "ir/graph/text.h"
#include "runtime/weights/weight_layout.h"

namespace rnnc {
namespace {

WeightMap map_of(std::string_view text) {
  Result<WeightMap> map = WeightMap::parse(text, "m.map");
  EXPECT_TRUE(map) << map.error().message;
  return map ? std::move(*map) : *WeightMap::parse("a = b", "m.map");
}

/// Every source as text: "W = w[0 of 2] + v[0 of 2] or zeros".
std::vector<std::string> sources(std::string_view text, const std::vector<std::string>& params) {
  const Result<std::vector<WeightSource>> resolved = map_of(text).resolve("Net", params);
  EXPECT_TRUE(resolved) << resolved.error().message;
  std::vector<std::string> texts;
  for (const WeightSource& source : resolved.value_or(std::vector<WeightSource>{})) {
    std::string line = source.param + " =";
    for (const WeightTerm& term : source.sum) line += " " + to_string(term);
    texts.push_back(line + (source.or_zeros ? " or zeros" : ""));
  }
  return texts;
}

std::string resolve_problem(std::string_view text, const std::vector<std::string>& params) {
  const Result<std::vector<WeightSource>> resolved = map_of(text).resolve("Net", params);
  EXPECT_FALSE(resolved);
  return resolved ? "" : resolved.error().message;
}

std::string parse_problem(std::string_view text) {
  const Result<WeightMap> map = WeightMap::parse(text, "m.map");
  EXPECT_FALSE(map);
  if (map) return "";
  const std::string prefix = "`m.map` is not a weight map that can be read:";
  EXPECT_EQ(map.error().message.substr(0, prefix.size()), prefix);
  return map.error().message.substr(prefix.size() + 1);
}

/// Values 0, 1, 2…
Array counting(std::vector<int64_t> shape, DType dtype = DType::f32) {
  const int64_t count =
      std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
  std::vector<double> values(static_cast<size_t>(count));
  std::iota(values.begin(), values.end(), 0.0);
  return Array::from_doubles(values, std::move(shape), dtype);
}

Graph graph_of(const std::string& params) {
  const Result<Graph> graph = parse_graph("graph Net(I, H) {\n  input x: [I]\n" + params +
                                          "  %0 = input x : [I]\n  output y = %0\n}\n");
  EXPECT_TRUE(graph) << graph.error().message;
  return graph.value_or(Graph{});
}

TEST(WeightMap, NamesParamsOneByOneAndInLists) {
  EXPECT_EQ(sources("# comment\n\n  W = weight # more\n[b, c]=x+y\r\n", {"b", "c", "W"}),
            (std::vector<std::string>{"b = x[0 of 2] y[0 of 2]", "c = x[1 of 2] y[1 of 2]",
                                      "W = weight"}));
  EXPECT_EQ(
      sources("W_[i, f] = lstm/kernel:0", {"W_i", "W_f"}),
      (std::vector<std::string>{"W_i = lstm/kernel:0[0 of 2]", "W_f = lstm/kernel:0[1 of 2]"}));
}

TEST(WeightMap, CutsPiecesOfPieces) {
  EXPECT_EQ(
      sources("a = x[2 of 3]\n[b, c] = transpose(y)[1 of 2] + z or zeros", {"a", "b", "c"}),
      (std::vector<std::string>{"a = x[2 of 3]", "b = transpose(y)[2 of 4] z[0 of 2] or zeros",
                                "c = transpose(y)[3 of 4] z[1 of 2] or zeros"}));
}

TEST(WeightMap, CountsLayers) {
  EXPECT_EQ(sources("L.{ 2 * l }.W = w{l}\nL.{2*l+1}.W = w{l}_reverse\nD.{l+3}.b = b{2*l}{l}",
                    {"L.0.W", "L.1.W", "L.2.W", "L.3.W", "D.3.b", "D.4.b"}),
            (std::vector<std::string>{"L.0.W = w0", "L.1.W = w0_reverse", "L.2.W = w1",
                                      "L.3.W = w1_reverse", "D.3.b = b00", "D.4.b = b21"}));
  // One tensor for every layer.
  EXPECT_EQ(sources("L.{l}.W = w", {"L.0.W", "L.1.W"}),
            (std::vector<std::string>{"L.0.W = w", "L.1.W = w"}));
}

TEST(WeightMap, WordsOfTheMapAreNamesElsewhere) {
  EXPECT_EQ(
      sources("of = zeros + transpose_x\ntranspose = or\nor = of or zeros",
              {"of", "or", "transpose"}),
      (std::vector<std::string>{"of = zeros transpose_x", "or = of or zeros", "transpose = or"}));
}

TEST(WeightMap, ListsEveryParamThatDoesNotFit) {
  EXPECT_EQ(resolve_problem("W = w\nL.{l}.[a, c] = x{l}\nW = v\nM.{l}.b = y{l}",
                            {"W", "L.0.a", "L.0.b", "L.1.b", "L.1.c"}),
            "the map `m.map` does not fit `Net`:\n"
            "  line 2: `Net` has no param `L.0.c` (did you mean `L.0.a`?)\n"
            "  line 2: `Net` has no param `L.1.a` (did you mean `L.0.a`?)\n"
            "  line 3: line 1 gives the param `W` already\n"
            "  line 4: `Net` has no param `M.0.b` (did you mean `L.0.b`?)\n"
            "  no line gives the param `L.0.b`\n"
            "  no line gives the param `L.1.b`");
  EXPECT_EQ(resolve_problem("W = w", {"W", "b"}),
            "the map `m.map` does not fit `Net`: no line gives the param `b`");
}

TEST(WeightMap, ErrorsHaveAPlaceAReasonAndAHint) {
  EXPECT_EQ(parse_problem("W = w\nb : x\n"),
            "m.map:2:3: error: expected `=`, but there is `:`\n"
            "  b : x\n    ^\n"
            "  hint: a line is `W = weight` or `[W_i, W_f] = weight_ih`");
  // Every line's first error.
  EXPECT_EQ(parse_problem("  = w\nW =\nb = x y\n"),
            "m.map:1:3: error: expected the name of a param, but there is `=`\n"
            "  = w\n  ^\n"
            "m.map:2:4: error: expected the name of a tensor, but the line ends\n"
            "  W =\n     ^\n"
            "m.map:3:7: error: expected `+`, `or zeros` or the end of the line, but there is `y`\n"
            "  b = x y\n        ^");
}

TEST(WeightMap, EveryMistakeIsExplained) {
  // The message and the hint of a line's error.
  const auto reason = [](std::string_view line) {
    const std::string text = parse_problem(line);
    const size_t begin = text.find("error: ") + 7;
    std::string result = text.substr(begin, text.find('\n') - begin);
    if (const size_t hint = text.find("hint: "); hint != std::string::npos) {
      result += "; " + text.substr(hint + 6);
    }
    return result;
  };
  EXPECT_EQ(reason("[a b] = x"),
            "expected `,` or `]`, but there is `b`; a list of params is `[W_i, W_f]`");
  EXPECT_EQ(reason("[a,] = x"), "expected the name of a param, but there is `]`");
  EXPECT_EQ(reason("a = x["), "expected a number, but the line ends");
  EXPECT_EQ(reason("a = x[1, 2]"),
            "expected `of`, but there is `,`; a piece is `[2 of 3]`: the last of three equal ones");
  EXPECT_EQ(reason("a = x[1 of 2"),
            "expected `]`, but the line ends; a piece is `[2 of 3]`: the last of three equal ones");
  EXPECT_EQ(reason("a = x[3 of 3]"), "there is no piece 3 of 3; pieces are counted from 0");
  EXPECT_EQ(reason("a = x[0 of 99999999999999999999999]"), "this number is greater than 1000000");
  EXPECT_EQ(reason("a = transpose x"),
            "expected `(`, but there is `x`; such as `transpose(kernel)`");
  EXPECT_EQ(reason("a = transpose(x"), "expected `)`, but the line ends");
  EXPECT_EQ(reason("a = x or ones"), "expected `zeros`, but there is `ones`");
  EXPECT_EQ(reason("a = \"x\""), "expected the name of a tensor, but there is `\"`");
  EXPECT_EQ(reason("a{l = x"),
            "expected `}`, but there is `=`; an index is `{l}`, `{2*l}` or `{2*l+1}`");
  EXPECT_EQ(reason("a{} = x"),
            "expected the name of an index, but there is `}`; such as `{l}` or `{2*l+1}`");
  EXPECT_EQ(reason("a{2} = x"),
            "expected `*` and the index's name, but there is `}`; such as `{2*l}`");
  EXPECT_EQ(reason("a{0*l} = x"), "an index is counted in steps of at least 1");
  EXPECT_EQ(reason("a{l} = x{k}"), "a line has one index, and this is a second one beside `l`");
  EXPECT_EQ(reason("a = x{l}"),
            "the index `l` is not in the name of the param `a`; it counts from 0 as long as there "
            "are such params");
  EXPECT_EQ(reason("[a{l}, b] = x{l}"),
            "the index `l` is not in the name of the param `b`; it counts from 0 as long as there "
            "are such params");
  EXPECT_EQ(reason(std::string("a\x1b[2J = x")),
            "expected `=`, but there is `\\x1b`; a line is "
            "`W = weight` or `[W_i, W_f] = weight_ih`");
  EXPECT_EQ(parse_problem("# nothing\n"), "it says nothing");
  EXPECT_EQ(parse_problem(std::string((1 << 20) + 1, ' ')),
            "it has 1048577 bytes, and a map has at most 1048576");
}

TEST(WeightMap, NoTextCrashes) {
  const std::string text = "L.{2*l+1}.[a, b] = transpose(x{l})[0 of 2] + y or zeros # end\n";
  for (size_t size = 0; size <= text.size(); ++size) {
    for (const std::string_view more : {"", "[", "{", "\xff", "\n=", "99999999999999999999"}) {
      const std::string changed = text.substr(0, size) + std::string(more) + text.substr(size);
      const Result<WeightMap> map = WeightMap::parse(changed, "m.map");
      if (map) (void)map->resolve("Net", {"L.1.a", "L.1.b", "L.3.a", "L.3.b"});
    }
  }
}

TEST(WeightMap, MakesParams) {
  const Graph graph = graph_of(
      "  param W: [H, I]\n  param V: [H, I]\n  param K: [I, H]\n  param b: [H]\n  param z: [H]\n");
  const WeightMap map =
      map_of("[W, V] = both\nK = transpose(kernel)\nb = b1 + b2[1 of 2]\nz = none or zeros");
  const std::vector<NamedArray> tensors = {{"both", counting({4, 3}, DType::bf16)},
                                           {"kernel", counting({2, 3}, DType::f64)},
                                           {"b1", counting({2})},
                                           {"b2", counting({4})}};
  const Result<std::vector<NamedArray>> params = map_weights(map, graph, {}, tensors);
  ASSERT_TRUE(params) << params.error().message;
  ASSERT_EQ(params->size(), 5U);
  const auto expect = [&](size_t index, const std::string& name, DType dtype,
                          std::vector<int64_t> shape, std::vector<double> values) {
    const NamedArray& param = (*params)[index];
    EXPECT_EQ(param.name, name);
    EXPECT_EQ(param.array.dtype, dtype) << name;
    EXPECT_EQ(param.array.shape, shape) << name;
    EXPECT_EQ(param.array.to_doubles(), values) << name;
  };
  expect(0, "W", DType::bf16, {2, 3}, {0, 1, 2, 3, 4, 5});
  expect(1, "V", DType::bf16, {2, 3}, {6, 7, 8, 9, 10, 11});
  expect(2, "K", DType::f64, {3, 2}, {0, 3, 1, 4, 2, 5});
  expect(3, "b", DType::f64, {2}, {2, 4});
  expect(4, "z", DType::f32, {2}, {0, 0});
}

TEST(WeightMap, MakesParamsOfASignature) {
  Signature signature;
  signature.name = "Net";
  signature.params = {{"W", {2, 3}, DType::f32}, {"b", {2}, DType::f32}};
  const WeightMap map = map_of("W = w\nb = bias or zeros");
  const auto params = map_weights(map, signature, {{"w", counting({2, 3})}});
  ASSERT_TRUE(params) << params.error().message;
  EXPECT_EQ((*params)[1].array.shape, (std::vector<int64_t>{2}));
  EXPECT_EQ(map_weights(map, signature, {{"w", counting({3, 2})}}).error().message,
            "tensor `w` [3, 2] looks transposed: as [2, 3] it fits");
}

TEST(WeightMap, ListsTensorsThatDoNotFit) {
  const Graph graph = graph_of(
      "  param W: [H, I]\n  param V: [H, I]\n  param b: [H]\n"
      "  param k: [H]\n");
  const WeightMap map = map_of("[W, V] = weight\nb = b1 + b2 or zeros\nk = transpose(kernel)");
  EXPECT_EQ(map_weights(map, graph, {},
                        {{"wieght", counting({4, 3})},
                         {"b1", counting({2})},
                         {"kernel", counting({3})},
                         {"other", counting({2, 2})}})
                .error()
                .message,
            "the arrays do not fit `Net`:\n"
            "  tensor `kernel` [3] cannot be transposed: it is not a matrix\n"
            "  tensor `weight`, for param `W` and 1 more, is missing (did you mean `wieght`?)\n"
            "  tensor `b2`, for param `b`, is missing\n"
            "  tensor `wieght` [4, 3] is not used by the map\n"
            "  tensor `other` [2, 2] is not used by the map");
  EXPECT_EQ(map_weights(map, graph, {},
                        {{"weight", counting({3, 3})},
                         {"b1", counting({2})},
                         {"b2", counting({3})},
                         {"kernel", counting({2, 1})},
                         {"kernel", counting({2, 1})}})
                .error()
                .message,
            "the arrays do not fit `Net`:\n"
            "  tensor `kernel` is given twice\n"
            "  tensor `weight` [3, 3] does not split into 2 equal pieces\n"
            "  param `b` is a sum of `b1` [2] and `b2` [3], whose shapes differ");
}

TEST(WeightMap, ShapesAreCheckedAgainstTheDims) {
  const Graph graph = graph_of("  param W: [H, I]\n  param b: [H]\n  param z: [I]\n");
  const WeightMap map = map_of("W = w\nb = b\nz = z or zeros");
  EXPECT_EQ(
      map_weights(map, graph, {}, {{"w", counting({2, 3})}, {"b", counting({4})}}).error().message,
      "param `b` is [4], expected [H] = [2]\n  where H = 2 from param `W`");
  const WeightMap zeros = map_of("W = w or zeros\nb = b\nz = z or zeros");
  EXPECT_EQ(map_weights(zeros, graph, {}, {{"b", counting({4})}}).error().message,
            "param `W` [H, I] is zeros, and its size does not follow from the tensors: dim `I` "
            "has no value");
}

TEST(WeightMap, TheOneTransposedTensorIsBlamedAlone) {
  const Graph graph = graph_of(
      "  param W_i: [H, I]\n  param W_f: [H, I]\n  param R_i: [H, H]\n  param R_f: [H, H]\n");
  const WeightMap map = map_of("W_[i, f] = w\nR_[i, f] = r");
  const auto problem = [&](const std::vector<NamedArray>& tensors) {
    const auto params = map_weights(map, graph, {}, tensors);
    EXPECT_FALSE(params);
    return params ? "" : params.error().message;
  };
  EXPECT_EQ(problem({{"w", counting({4, 6})}, {"r", counting({6, 3})}}),
            "tensor `w` [4, 6] looks transposed: as [6, 4] it fits");
  EXPECT_EQ(problem({{"w", counting({3, 6})}, {"r", counting({6, 3})}}),
            "tensor `w` [3, 6] looks transposed: as [6, 3] it fits");
  // Two that are wrong are listed as they are.
  EXPECT_EQ(problem({{"w", counting({5, 6})}, {"r", counting({3, 6})}}),
            "the arrays do not fit `Net`:\n"
            "  tensor `w` [5, 6] does not split into 2 equal pieces: it looks transposed\n"
            "  tensor `r` [3, 6] does not split into 2 equal pieces: it looks transposed");
}

TEST(WeightMap, ZerosThatMemoryCannotHoldAreRefused) {
  const Graph graph = graph_of("  param W: [H, H]\n  param b: [I]\n");
  const WeightMap map = map_of("W = w or zeros\nb = b");
  const auto problem = [&](int64_t size) {
    const auto params = map_weights(map, graph, {{"H", size}}, {{"b", counting({2})}});
    EXPECT_FALSE(params);
    return params ? "" : params.error().message;
  };
  const std::string begin =
      "not enough memory: with param `W` [2147483647, 2147483647], those that are zeros take ";
  EXPECT_EQ(problem(2147483647).substr(0, begin.size()), begin);
  EXPECT_EQ(problem(int64_t{1} << 40),
            "param `W` [H, H] is zeros, and its size does not follow from the tensors: `H` is too "
            "large with H = 1099511627776: 1099511627776 is above 2147483647");
}

TEST(WeightMap, ShapesAreMappedWithoutData) {
  const Graph graph = graph_of("  param W: [H, I]\n  param K: [I, H]\n  param z: [H]\n");
  const WeightMap map = map_of("W = w[1 of 2] + v[0 of 2]\nK = transpose(k)\nz = z or zeros");
  const auto shape = [](std::string name, std::vector<int64_t> sizes) {
    return NamedArray{std::move(name), Array{DType::f32, std::move(sizes), {}}};
  };
  const std::vector<NamedArray> tensors = {shape("w", {4, 3}), shape("v", {4, 3}),
                                           shape("k", {2, 3})};
  const auto params = map_weights(map, graph, {}, tensors, Compared::shapes);
  ASSERT_TRUE(params) << params.error().message;
  ASSERT_EQ(params->size(), 3U);
  EXPECT_EQ((*params)[0].array.shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ((*params)[1].array.shape, (std::vector<int64_t>{3, 2}));
  EXPECT_EQ((*params)[2].array.shape, (std::vector<int64_t>{2}));
  for (const NamedArray& param : *params) EXPECT_EQ(param.array.data.size(), 0U) << param.name;
  // Where data are wanted, tensors without are no tensors.
  EXPECT_EQ(map_weights(map, graph, {}, {tensors[0]}).error().message,
            "the arrays do not fit `Net`:\n"
            "  tensor `w` has 0 bytes, but [4, 3] in f32 takes 48\n"
            "  tensor `v`, for param `W`, is missing\n"
            "  tensor `k`, for param `K`, is missing");
}

TEST(WeightMap, LongListsAreCutAndSumsAreShort) {
  const Graph graph = graph_of("  param W: [H, I]\n");
  std::vector<NamedArray> tensors = {{"w", counting({2, 3})}};
  for (int i = 0; i < 50; ++i) tensors.push_back({fmt::format("more{}", i), counting({1})});
  const std::string text = map_weights(map_of("W = w"), graph, {}, tensors).error().message;
  EXPECT_EQ(std::ranges::count(text, '\n'), 41);
  EXPECT_TRUE(text.ends_with("  tensor `more39` [1] is not used by the map\n  and 10 more"))
      << text;
  std::string sum = "W = w";
  for (int i = 0; i < 64; ++i) sum += " + w";
  EXPECT_NE(parse_problem(sum).find("error: a sum has at most 64 terms"), std::string::npos);
}

TEST(WeightLayout, RefusesTensorsBeyondAnyMemory) {
  Signature signature;
  signature.name = "Net";
  signature.params = {{.name = "b", .shape = {int64_t{1} << 45}}};
  const Result<WeightLayout> layout = lay_out_weights(map_of("b = v[0 of 1000000]"), signature);
  ASSERT_FALSE(layout);
  EXPECT_EQ(layout.error().message,
            "param `b` [35184372088832] cannot be "
            "`v[0 of 1000000]`: the tensor would be too large");
}

}  // namespace
}  // namespace rnnc
