#include "tests/support/cells/networks.h"

#include <map>

#include "frontend/unit.h"
#include "passes/graph/delays.h"

namespace rnnc::test {
namespace {

constexpr std::string_view kNetworkCells = R"(
cell Dense[I, H](x: [I]) -> h {
  state h: [H]
  param W: [H, I]
  param R: [H, H]
  h[t] = tanh(W @ x[t] + R @ h[t-1])
}
cell Normed[I, H](x: [I]) -> h {
  state h: [H]
  param W: [H, I]
  param R: [H, H]
  param gain, bias: [H]
  h[t] = tanh(W @ x[t] + layernorm(R @ h[t-1], gain, bias))
}
cell Elementwise[I, H](x: [I]) -> h {
  state h: [H]
  param W: [H, I]
  param u: [H]
  h[t] = tanh(W @ x[t] + u * h[t-1])
}
cell Gated[I, H](x: [I]) -> h {
  state h: [H]
  state c: [H]
  param W_i, W_f, W_g, W_o: [H, I]
  param R_i, R_f, R_g, R_o: [H, H]
  param b_i, b_f, b_g, b_o: [H]
  i = sigmoid(W_i @ x[t] + R_i @ h[t-1] + b_i)
  f = sigmoid(W_f @ x[t] + R_f @ h[t-1] + b_f)
  g = tanh(W_g @ x[t] + R_g @ h[t-1] + b_g)
  o = sigmoid(W_o @ x[t] + R_o @ h[t-1] + b_o)
  c[t] = f * c[t-1] + i * g
  h[t] = o * tanh(c[t])
}
cell Projected[I, H](x: [I]) -> h {
  state h: [H]
  state c: [2 * H]
  param W_f, W_g, W_o: [2 * H, I]
  param R_f, R_g, R_o: [2 * H, H]
  param P: [H, 2 * H]
  f = sigmoid(W_f @ x[t] + R_f @ h[t-1])
  g = tanh(W_g @ x[t] + R_g @ h[t-1])
  o = sigmoid(W_o @ x[t] + R_o @ h[t-1])
  c[t] = f * c[t-1] + (1 - f) * g
  h[t] = P @ (o * tanh(c[t]))
}
cell Update[I, H](x: [I]) -> h {
  state h: [H]
  param W_r, W_z, W_n: [H, I]
  param R_r, R_z, R_n: [H, H]
  param b: [H]
  r = sigmoid(W_r @ x[t] + R_r @ h[t-1])
  z = sigmoid(W_z @ x[t] + R_z @ h[t-1])
  n = tanh(W_n @ x[t] + r * (R_n @ h[t-1] + b))
  h[t] = (1 - z) * n + z * h[t-1]
}
cell ResetBefore[I, H](x: [I]) -> h {
  state h: [H]
  param W_r, W_z, W_n: [H, I]
  param R_r, R_z, R_n: [H, H]
  r = sigmoid(W_r @ x[t] + R_r @ h[t-1])
  z = sigmoid(W_z @ x[t] + R_z @ h[t-1])
  n = tanh(W_n @ x[t] + R_n @ (r * h[t-1]))
  h[t] = (1 - z) * h[t-1] + z * n
}
cell Many[I, H](x: [I]) -> h {
  state h: [H]
  param W: [H, I]
  param R: [H, H]
  param u[60]: [H]
  y = W @ x[t] + R @ h[t-1]
  for k in 0..60 { y = y + u[k] * (0.02 * h[t-1]) }
  h[t] = tanh(y)
}
cell Dilated[I, H](x: [I]) -> h {
  state h: [H]
  state c: [H]
  param W_f, W_g, W_o: [H, I]
  param R_f, R_g, R_o: [H, H]
  f = sigmoid(W_f @ x[t] + R_f @ h[t-11])
  g = tanh(W_g @ x[t] + R_g @ h[t-11])
  o = sigmoid(W_o @ x[t] + R_o @ h[t-11])
  c[t] = f * c[t-11] + (1 - f) * g
  h[t] = o * tanh(c[t])
}
cell Skip[I, H](x: [I]) -> h {
  state h: [H]
  param W: [H, I]
  param R, S: [H, H]
  h[t] = 0.5 * tanh(W @ x[t] + R @ h[t-1] + S @ h[t-9]) + 0.25 * h[t-9] + 0.25 * h[t-10]
}
cell Lags[I, H](x: [I]) -> h {
  state h: [H]
  param W, V: [H, I]
  param R, S: [H, H]
  y = W @ x[t] + V @ (x[t-12] - 0.5 * x[t-30]) + R @ h[t-1] + S @ h[t-20]
  h[t] = 0.5 * tanh(y) + 0.25 * h[t-3] - 0.25 * h[t-9] + 0.125 * h[t-10]
}
cell Echoes[I, H](x: [I]) -> h {
  state h: [H]
  param W: [H, I]
  param u, v: [H]
  h[t] = tanh(W @ x[t] + u * h[t-1] + v * h[t-12]) - 0.25 * h[t-20]
}
)";

const std::map<std::string, std::string_view>& network_definitions() {
  static const std::map<std::string, std::string_view> all = {
      {"Stack", R"(
network Stack[H](x: [H]) -> y {
  y = x
  for l in 0..3 { y = Gated[H = H](y) }
}
)"},
      {"Mixed", R"(
network Mixed[H](x: [H]) -> y {
  y = Dense[H = H](x)
  y = Normed[H = H](y)
  y = Elementwise[H = H](y)
  y = Dense[H = H](y)
}
)"},
      {"Both", R"(
network Both[H](x: [H]) -> y {
  y = x
  for l in 0..2 { y = concat(Gated[H = H](y), reverse Gated[H = H](y)) }
}
)"},
      {"Branches", R"(
network Branches[H](x: [H]) -> y {
  a = Gated[H = H](x)
  b = Gated[H = H](x)
  y = Dense[H = H](concat(a, b))
}
)"},
  };
  return all;
}

}  // namespace

std::vector<std::string> networks() {
  std::vector<std::string> names;
  for (const auto& [name, text] : network_definitions()) names.push_back(name);
  return names;
}

namespace {

Graph network_of(const std::string& name, std::string_view definition, int64_t size) {
  Unit unit(name + ".rnn", std::string(kNetworkCells) + std::string(definition));
  std::optional<Graph> graph = unit.lower(name, {{"H", size}});
  RNNC_CHECK(graph.has_value(), "{}", unit.render());
  graph->bind({{"H", size}});
  run_delays(*graph);
  return *std::move(graph);
}

}  // namespace

Graph network(const std::string& name, int64_t size) {
  return network_of(name, network_definitions().at(name), size);
}

Graph tower(const std::vector<std::string>& cells, int64_t size) {
  std::string text = "network Tower[H](x: [H]) -> y {\n  y = x\n";
  for (const std::string& cell : cells) text += "  y = " + cell + "[H = H](y)\n";
  return network_of("Tower", text + "}\n", size);
}

}  // namespace rnnc::test
