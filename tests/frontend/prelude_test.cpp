/// The prelude's fns: their values, their precision, and that they stand alone.
#include "frontend/prelude.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "frontend/unit.h"
#include "ir/graph/interpreter.h"
#include "ir/graph/text.h"

namespace rnnc {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
const double kNan = std::nan("");

/// Each fn's name and a call of it that gives a vector.
const std::vector<std::pair<std::string, std::string>> kCalls = {
    {"layernorm", "layernorm(x[t], 3, 0.5)"},
    {"rmsnorm", "rmsnorm(x[t], 3)"},
    {"normalize", "normalize(x[t])"},
    {"logsumexp", "x[t] * 0 + logsumexp(x[t])"},
    {"softmax", "softmax(x[t])"},
    {"log_softmax", "log_softmax(x[t])"},
    {"cross_entropy", "x[t] * 0 + cross_entropy(x[t], x[t])"},
    {"logsigmoid", "logsigmoid(x[t])"},
    {"leaky_relu", "leaky_relu(x[t], 0.01)"},
    {"celu", "celu(x[t], 2)"},
    {"selu", "selu(x[t])"},
    {"mish", "mish(x[t])"},
    {"swish", "swish(x[t], 1.5)"},
    {"gelu_tanh", "gelu_tanh(x[t])"},
    {"hardtanh", "hardtanh(x[t])"},
    {"hardsigmoid", "hardsigmoid(x[t])"},
    {"hardswish", "hardswish(x[t])"},
    {"relu6", "relu6(x[t])"},
    {"squared_relu", "squared_relu(x[t])"},
    {"softsign", "softsign(x[t])"},
};

/// The graph of one such call, beside other items.
std::optional<Graph> lower(const std::string& call, const std::string& items = "") {
  Unit unit("case.rnn", items + "cell A[H](x: [H]) -> y { y = " + call + " }\n");
  auto graph = unit.lower("A", {});
  EXPECT_EQ(unit.render(), "");
  return graph;
}

std::vector<double> evaluate(const std::string& call, const std::vector<double>& x) {
  std::optional<Graph> graph = lower(call);
  if (!graph) return {};
  graph->bind({{"H", static_cast<int64_t>(x.size())}});
  InterpreterArgs args;
  args.steps = args.batch = 1;
  args.inputs = {x};
  return interpret(*graph, args).outputs[0];
}

void expect_near(const std::string& call, const std::vector<double>& x,
                 const std::vector<double>& expected) {
  SCOPED_TRACE(call);
  const std::vector<double> got = evaluate(call, x);
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::isfinite(expected[i])) {
      EXPECT_NEAR(got[i], expected[i], 1e-12 * std::max(1.0, std::abs(expected[i]))) << i;
    } else {
      EXPECT_TRUE(got[i] == expected[i] || (std::isnan(got[i]) && std::isnan(expected[i])))
          << got[i];
    }
  }
}

// Expected values are those of torch.nn.functional in float64.
TEST(Prelude, HasTheValuesOfPyTorch) {
  const std::vector<double> v = {-7, -1, -0.25, 0, 0.5, 3, 8};
  expect_near("layernorm(x[t], 3, 0.5)", v,
              {-4.868196362392457, -0.553091152431056, -0.01370300118588097, 0.16609304922917734,
               0.5256851500592941, 2.3236456542098773, 5.919566662511045});
  expect_near("rmsnorm(x[t], 3)", v,
              {-5.003394549487301, -0.7147706499267573, -0.17869266248168933, 0,
               0.35738532496337866, 2.144311949780272, 5.7181651994140585});
  expect_near("normalize(x[t])", v,
              {-0.6303684792765927, -0.09005263989665609, -0.02251315997416402, 0,
               0.04502631994832804, 0.2701579196899683, 0.7204211191732487});
  expect_near("x[t] * 0 + logsumexp(x[t])", v,
              {8.007979546827357, 8.007979546827357, 8.007979546827357, 8.007979546827357,
               8.007979546827357, 8.007979546827357, 8.007979546827357});
  expect_near(
      "softmax(x[t])", v,
      {3.0347107164327115e-07, 0.00012242896829299228, 0.00025918212791013723,
       0.00033279643978782953, 0.000548688569091469, 0.00668439517926385, 0.9920522052445819});
  expect_near("log_softmax(x[t])", v,
              {-15.007979546827357, -9.007979546827357, -8.257979546827357, -8.007979546827357,
               -7.507979546827358, -5.007979546827358, -0.00797954682735808});
  const double loss = 8.632979546827357;
  expect_near("x[t] * 0 + cross_entropy(x[t], where(x[t] * (x[t] + 1.5) < 0, 0.5, 0))", v,
              {loss, loss, loss, loss, loss, loss, loss});
  expect_near("logsigmoid(x[t])", v,
              {-7.000911466453775, -1.3132616875182228, -0.8259394198788436, -0.6931471805599453,
               -0.4740769841801067, -0.04858735157374206, -0.00033540637289576885});
  expect_near("leaky_relu(x[t], 0.01)", v, {-0.07, -0.01, -0.0025, 0, 0.5, 3, 8});
  expect_near("celu(x[t], 2)", v,
              {-1.939605233155363, -0.7869386805747332, -0.2350061948308092, 0, 0.5, 3, 8});
  expect_near("selu(x[t])", v,
              {-1.7564961617648047, -1.1113307378125625, -0.388890197478119, 0, 0.5253504936777402,
               3.1521029620664414, 8.405607898843844});
  expect_near("mish(x[t])", v,
              {-0.006380263409573668, -0.30340146137410895, -0.129926963679141, 0,
               0.3752452113048951, 2.9865350049679575, 7.999998200644843});
  expect_near("swish(x[t], 1.5)", v,
              {-0.0001927498378020843, -0.18242552380635635, -0.10183335001148257, 0,
               0.3395893495876965, 2.9670391721082203, 7.999950846603182});
  expect_near("gelu_tanh(x[t])", v,
              {-2.3314683517128287e-15, -0.15880800939172324, -0.100324649298315, 0,
               0.34571400982514394, 2.996362607918227, 8});
  expect_near("hardtanh(x[t])", v, {-1, -1, -0.25, 0, 0.5, 1, 1});
  expect_near("hardsigmoid(x[t])", v,
              {0, 0.3333333333333333, 0.4583333333333333, 0.5, 0.5833333333333334, 1, 1});
  expect_near("hardswish(x[t])", v,
              {0, -0.3333333333333333, -0.11458333333333333, 0, 0.2916666666666667, 3, 8});
  expect_near("relu6(x[t])", v, {0, 0, 0, 0, 0.5, 3, 6});
  expect_near("squared_relu(x[t])", v, {0, 0, 0, 0, 0.25, 9, 64});
  expect_near("softsign(x[t])", v,
              {-0.875, -0.5, -0.2, 0, 0.3333333333333333, 0.75, 0.8888888888888888});
}

TEST(Prelude, DoesNotOverflow) {
  expect_near("softmax(x[t])", {-1e300, 0, 1e300}, {0, 0, 1});
  expect_near("softmax(x[t])", {1e4, 1e4}, {0.5, 0.5});
  expect_near("log_softmax(x[t])", {0, -1e4, 1e4}, {-1e4, -2e4, 0});
  expect_near("x[t] * 0 + logsumexp(x[t])", {1e4, 1e4}, {1e4 + std::log(2), 1e4 + std::log(2)});
  const std::string target = "where(x[t] < 0, 1, 0)";
  expect_near("x[t] * 0 + cross_entropy(x[t], " + target + ")", {-1e4, 0, 1e4}, {2e4, 2e4, 2e4});
  expect_near("x[t] * 0 + cross_entropy(1e4 - x[t], " + target + ")", {-1e4, 1e4}, {0, 0});
  expect_near("logsigmoid(x[t])", {-1e4, 1e4}, {-1e4, 0});
  const double scale = 1.0507009873554805;
  expect_near("selu(x[t])", {-1e4, 1e4}, {-scale * 1.6732632423543772, scale * 1e4});
  expect_near("celu(x[t], 2)", {-1e4, 1e4}, {-2, 1e4});
  for (const char* call : {"mish(x[t])", "gelu_tanh(x[t])", "swish(x[t], 1)"}) {
    expect_near(call, {-1e4, 1e4}, {0, 1e4});
  }
  expect_near("normalize(x[t])", {0, 0}, {0, 0});
  expect_near("layernorm(x[t], 1, 0)", {5, 5}, {0, 0});
}

TEST(Prelude, LetsNaNThrough) {
  for (const auto& [name, call] : kCalls) {
    SCOPED_TRACE(name);
    const std::vector<double> result = evaluate(call, {kNan, 1});
    EXPECT_TRUE(std::isnan(result[0]));
  }
}

TEST(Prelude, IsCheckedAndTestedAsAWhole) {
  Unit unit("prelude.rnn", std::string(kPrelude));
  EXPECT_TRUE(unit.check());
  EXPECT_EQ(unit.render(), "");
  EXPECT_EQ(unit.definitions().size(), 0u);
  std::vector<std::string> names;
  const std::string text = unit.print_ast();
  for (size_t at = 0; (at = text.find("\nfn ", at)) != std::string::npos; ++at) {
    names.push_back(text.substr(at + 4, text.find('(', at) - at - 4));
  }
  ASSERT_EQ(names.size(), kCalls.size());
  for (size_t i = 0; i < names.size(); ++i) EXPECT_EQ(names[i], kCalls[i].first);
}

TEST(Prelude, SeesNothingOfTheUsers) {
  for (const auto& [name, call] : kCalls) {
    std::string items = "const v = 1\nconst gain = 2\nconst bias = 3\nconst slope = 4\n";
    items += "const alpha = 5\nconst beta = 6\n";
    for (const auto& [other, unused] : kCalls) {
      if (other != name) items += "fn " + other + "() = 0\n";
    }
    const auto alone = lower(call);
    const auto among = lower(call, items);
    ASSERT_TRUE(alone && among) << name;
    EXPECT_EQ(to_string(*among), to_string(*alone));
  }
}

}  // namespace
}  // namespace rnnc
