#include "ir/graph/dim.h"

#include <gtest/gtest.h>

#include <limits>

#include "tests/support/expect_bug.h"

namespace rnnc {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
constexpr int64_t kMin = std::numeric_limits<int64_t>::min();

Dim dim(std::string_view text) {
  Result<Dim> result = Dim::parse(text);
  EXPECT_TRUE(result) << text << ": " << result.error().message;
  return result.value_or(Dim());
}

std::string parse_error(std::string_view text) {
  const Result<Dim> result = Dim::parse(text);
  return result ? "no error: " + result->to_string() : result.error().message;
}

std::string evaluate_error(const Dim& value, const DimBindings& bindings) {
  const Result<int64_t> result = value.evaluate(bindings);
  return result ? fmt::format("no error: {}", *result) : result.error().message;
}

TEST(Dim, NumbersAndSymbols) {
  EXPECT_EQ(Dim(), Dim(0));
  EXPECT_EQ(Dim(7).constant(), 7);
  EXPECT_EQ(Dim().constant(), 0);
  EXPECT_EQ(Dim::symbol("H").constant(), std::nullopt);
  EXPECT_EQ(dim("1 / 2").constant(), std::nullopt);
  EXPECT_EQ(Dim::symbol("H").bare_symbol(), "H");
  EXPECT_EQ(dim("2 * H").bare_symbol(), std::nullopt);
  EXPECT_EQ(dim("H * H").bare_symbol(), std::nullopt);
  EXPECT_EQ(dim("H / 2").bare_symbol(), std::nullopt);
  EXPECT_EQ(dim("H + I").bare_symbol(), std::nullopt);
  EXPECT_EQ(Dim(3).bare_symbol(), std::nullopt);
  EXPECT_EQ(dim("N * H / I + H + 2").symbols(), (std::vector<std::string>{"H", "I", "N"}));
}

TEST(Dim, NormalForm) {
  const Dim h = Dim::symbol("H");
  const Dim i = Dim::symbol("I");
  EXPECT_EQ(h + h, 2 * h);
  EXPECT_EQ(h + i, i + h);
  EXPECT_EQ(h * i, i * h);
  EXPECT_EQ(h - h, 0);
  EXPECT_EQ((h + 1) * (h - 1), h * h - 1);
  EXPECT_EQ((h + i) * (h + i), h * h + 2 * h * i + i * i);
  EXPECT_EQ(dim("H / 3") + dim("H / 6"), dim("H / 2"));
  EXPECT_EQ(dim("H / I") * i, h);
  EXPECT_NE(h, i);
  EXPECT_NE(h, 2 * h);
  EXPECT_NE(h, h * h);
}

TEST(Dim, Divide) {
  const Dim h = Dim::symbol("H");
  const Dim n = Dim::symbol("N");
  EXPECT_EQ(Dim::divide(4 * h, 2), 2 * h);
  EXPECT_EQ(Dim::divide(h * n, n), h);
  EXPECT_EQ(Dim::divide(h * h + h, h), h + 1);
  EXPECT_EQ(Dim::divide(*Dim::divide(h, -4), -2), dim("H / 8"));
  EXPECT_EQ(Dim::divide(0, h), 0);
  EXPECT_EQ(Dim::divide(h, 0), std::nullopt);
  EXPECT_EQ(Dim::divide(h, n - n), std::nullopt);
  EXPECT_EQ(Dim::divide(h, n + 1), std::nullopt);
}

TEST(Dim, PrintsAsPeopleWrite) {
  const Dim h = Dim::symbol("H");
  EXPECT_EQ(Dim(0).to_string(), "0");
  EXPECT_EQ(Dim(-3).to_string(), "-3");
  EXPECT_EQ((1 + h).to_string(), "H + 1");
  EXPECT_EQ((h - 1).to_string(), "H - 1");
  EXPECT_EQ((2 - h).to_string(), "2 - H");
  EXPECT_EQ((0 - h).to_string(), "-H");
  EXPECT_EQ((0 - h - 2).to_string(), "-H - 2");
  EXPECT_EQ((h * 2).to_string(), "2 * H");
  EXPECT_EQ((h * h * 3).to_string(), "3 * H * H");
  EXPECT_EQ(dim("H / N * 3 / 2").to_string(), "3 * H / 2 / N");
  EXPECT_EQ(dim("1 / N").to_string(), "1 / N");
  EXPECT_EQ(to_string(Shape{}), "[]");
  EXPECT_EQ(to_string(Shape{2 * h, Dim::symbol("I")}), "[2 * H, I]");
}

TEST(Dim, PrintedTextReadsBack) {
  for (const char* text :
       {"0", "7", "-7", "H", "-H", "2 - H", "H + 1", "2 * H + I - 3", "H / 2", "3 * H / 2 / N",
        "H * H * I / N / N - 5 / 7", "-H * I", "LSTM.0.H + 1", "1 / N", "9223372036854775807"}) {
    EXPECT_EQ(dim(text).to_string(), text);
    EXPECT_EQ(dim(dim(text).to_string()), dim(text));
  }
  EXPECT_EQ(dim("  1+H *2 "), 2 * Dim::symbol("H") + 1);
}

TEST(Dim, ParseErrors) {
  EXPECT_EQ(parse_error(""), "expected a dim's name or a number at the end of ``");
  EXPECT_EQ(parse_error("H +"), "expected a dim's name or a number at the end of `H +`");
  EXPECT_EQ(parse_error("H * ?"), "expected a dim's name or a number at `?`");
  EXPECT_EQ(parse_error("H I"), "expected `+`, `-`, `*` or `/` at `I`");
  EXPECT_EQ(parse_error("H / 0"), "division by zero in `H / 0`");
  EXPECT_EQ(parse_error("9223372036854775808"), "the number at `9223372036854775808` is too large");
  EXPECT_EQ(parse_error("9223372036854775807 * 2"),
            "the dim `9223372036854775807 * 2` is too large");
}

TEST(Dim, Substitute) {
  const Dim h = Dim::symbol("H");
  EXPECT_EQ(dim("H * I / 2").substitute({{"H", 2 * h}, {"I", h + 1}}), h * h + h);
  EXPECT_EQ(dim("H / N").substitute({{"N", 4 * h}}), dim("1 / 4"));
  EXPECT_EQ(dim("H + I").substitute({{"H", Dim::symbol("I")}, {"I", h}}), h + Dim::symbol("I"));
  EXPECT_EQ(dim("H * I + 1").bind({{"H", 3}}), 3 * Dim::symbol("I") + 1);
  EXPECT_EQ(dim("H * I + 1").bind({{"H", 3}, {"I", 5}, {"K", 1}}), 16);
}

TEST(Dim, Evaluate) {
  EXPECT_EQ(dim("2 * H + I / N").evaluate({{"H", 3}, {"I", 8}, {"N", 2}}).value(), 10);
  EXPECT_EQ(dim("H / 2 + I / 2").evaluate({{"H", 3}, {"I", 5}}).value(), 4);
  EXPECT_EQ(dim("H - 3").evaluate({{"H", 3}}).value(), 0);
  EXPECT_EQ(Dim(2147483647).evaluate({}).value(), 2147483647);
}

TEST(Dim, EvaluateErrors) {
  EXPECT_EQ(evaluate_error(dim("H * I"), {{"H", 3}}), "dim `I` has no value");
  EXPECT_EQ(evaluate_error(dim("H / N"), {{"H", 7}, {"N", 2}}),
            "`H / N` is not a whole number with H = 7, N = 2: 7 / 2 leaves 1");
  EXPECT_EQ(evaluate_error(dim("7 / 2"), {}), "`7 / 2` is not a whole number: 7 / 2 leaves 1");
  EXPECT_EQ(evaluate_error(dim("H - 8"), {{"H", 7}}), "`H - 8` is negative with H = 7: -1");
  EXPECT_EQ(evaluate_error(dim("H / N"), {{"H", 7}, {"N", 0}}),
            "`H / N` divides by zero with H = 7, N = 0");
  EXPECT_EQ(evaluate_error(dim("H * H"), {{"H", 65536}}),
            "`H * H` is too large with H = 65536: 4294967296 is above 2147483647");
  EXPECT_EQ(evaluate_error(dim("H * H * H"), {{"H", 1 << 30}}),
            "`H * H * H` is too large with H = 1073741824");
  EXPECT_EQ(evaluate_error(dim("H / N").substitute({{"N", dim("A + B")}}), {}),
            "a dim divides by a sum of dims");
}

TEST(Dim, OverflowIsAnErrorAndStays) {
  const Dim h = Dim::symbol("H");
  for (const Dim& large : {Dim(kMin), Dim(kMax) + 1, Dim(kMax) * 2, Dim(-kMax) - 2,
                           kMax * h + kMax * h, *Dim::divide(*Dim::divide(1, kMax), 2)}) {
    EXPECT_EQ(large.constant(), std::nullopt);
    EXPECT_EQ((large + 1).constant(), std::nullopt);
    EXPECT_EQ((large - large).constant(), std::nullopt);
    EXPECT_EQ((0 * large).constant(), std::nullopt);
    EXPECT_EQ(Dim::divide(1, large)->constant(), std::nullopt);
    EXPECT_EQ(evaluate_error(large, {{"H", 1}}), "a dim is too large");
    EXPECT_FALSE(Dim::parse(large.to_string()));
  }
  EXPECT_EQ((Dim(kMax) - 1).constant(), kMax - 1);
  EXPECT_EQ(Dim(-kMax).to_string(), "-9223372036854775807");
}

TEST(Dim, SizeIsBounded) {
  Dim square = Dim::symbol("H");
  for (int i = 0; i < 40; ++i) square = square * square;
  EXPECT_EQ(evaluate_error(square, {{"H", 1}}), "a dim is too large");
  Dim product = 1;  // would have 2^40 terms
  for (int i = 0; i < 40; ++i) product = product * (Dim::symbol(fmt::format("a{}", i)) + 1);
  EXPECT_EQ(product.constant(), std::nullopt);
  Dim many = 1;
  for (int i = 0; i < 100; ++i) many = many * Dim::symbol(fmt::format("a{}", i));
  EXPECT_EQ(many.to_string(), "(too large)");
}

TEST(Dim, ElementCount) {
  EXPECT_EQ(element_count({}), 1);
  EXPECT_EQ(element_count({3, 4, 5}), 60);
  EXPECT_EQ(element_count({3, 0}), 0);
  EXPECT_EQ(element_count({kMax, kMax, kMax}), int64_t{1} << 62);
  EXPECT_BUG(element_count({Dim::symbol("H")}), "this is a bug in rnnc.*\\[H\\] is not bound");
}

}  // namespace
}  // namespace rnnc
