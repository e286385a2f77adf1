#include "tests/support/cells/language_cells.h"

#include <map>

#include "frontend/unit.h"
#include "passes/graph/delays.h"

namespace rnnc::test {
namespace {

const std::map<std::string, std::string>& definitions() {
  static const std::map<std::string, std::string> all = {
      {"Vectors", R"(
cell Vectors[H](x: [H]) -> (y, ramp, fixed, mixed) {
  state h: [H] = range(H) / 1000
  state p: [5] = [0.5, -1, 0.25, 2, 0]
  param R: [H, H]
  param W: [H, 5]
  param V: [4, H]
  h[t] = tanh(R @ h[t-1] + W @ [1, -0.1, 0.7, 0, 2] + x[t])
  p[t] = 0.5 * p[t-1] + [1, 2, 3, 4, 5] * mean(h[t])
  y = h[t] * (range(H) + 1) / 300 + sin(R @ range(H) / 300) + ([1, 2, 4, 8] @ V) / 16
  ramp = range(H)
  fixed = concat([3, 1, 2], range(20)[17:], [7])
  mixed = [1, sum(p[t]), x[t][0]] * p[t][2:]
}
)"},
      {"Pieces", R"(
cell Pieces[H](x: [H]) -> (y, z) {
  state h: [H + 3]
  param W: [H + 3, H + 4]
  param u: [H + 3]
  pieces = concat(zeros(0), x[t], 0.5, mean(h[t-1]), dot(u, h[t-1]), 1)
  h[t] = tanh(W @ pieces + u * concat(h[t-1][-2:], h[t-1][:-2]))
  y = h[t][-H:] * h[t][-1] + h[t][:-3]
  z = concat(h[t][0], x[t][-1])
}
)"},
      {"Rounded", R"(
cell Rounded[H](x: [H]) -> (y, z) {
  state h: [H]
  param R: [H, H]
  h[t] = tanh(R @ h[t-1] + round(4 * x[t]) / 4)
  y = h[t] + round(x[t] * 32)
  z = round(x[t]) - round(-x[t] * 2)
}
)"},
      {"Heads", R"(
cell Heads[H, N = 3](x: [H]) -> (h, y) {
  state h: [N * H]
  state k: [3]
  param W[N]: [H, H]
  param R[N]: [H, H]
  param a, b, c: [N * H / N]
  heads = zeros(0)
  for n in 0..N {
    heads = concat(heads, tanh(W[n] @ x[t] + R[n] @ h[t-1][n * H:(n + 1) * H]))
  }
  h[t] = heads * concat(a, b, c)
  k[t] = 0.5 * k[t-1] + range(N) * mean(x[t])
  y = k[t] * [1, 2, 3]
}
)"},
      {"Arrays", R"(
fn part(v, index, size) = v[index * size:(index + 1) * size]
fn pad(v, n) = concat(v, zeros(n))

cell Unit[I, H](x: [I]) -> (h, gate) {
  state h: [H]
  param W, V: [H, I]
  gate = sigmoid(V @ x[t])
  h[t] = gate * h[t-1] + (1 - gate) * tanh(W @ x[t])
}
cell Fused[I, H](x: [I]) -> h {
  state h: [H]
  param W: [2 * H, I + H]
  a = W @ concat(x[t], h[t-1])
  h[t] = sigmoid(part(a, 0, H)) * tanh(part(a, 1, H)) + 0.5 * part(pad(h[t-1], H / 1), 0, H)
}
network Arrays[H](x: [H]) -> (y, gates) {
  seen[0] = x
  for l in 0..3 {
    (h[l], gates[l]) = Unit[H = H](seen[l]) as unit[2 - l]
    seen[l + 1] = concat(seen[l], h[l])
  }
  y = Fused[H = H](seen[-1] / 2) + h[0] * h[-1]
}
)"},
      {"Tables", R"(
cell Tables[H, V = 5](token: int [], x: [H]) -> y {
  state h: [H]
  param table: [V, H]
  param bias: [V]
  param W, R: [H, H]
  e = W @ table[token[t]] + (2 * table)[token[t]]
  h[t] = tanh(e + bias[token[t]] * x[t] + R @ h[t-1] + (token[t] < 2))
  y = concat(h[t], one_hot(token[t], V))
}
)"},
      {"Steps", R"(
cell Steps[H](x: [H]) -> h {
  state h: [H]
  param w: [H]
  h[t] = where(mod(step(), 3) == 0, tanh(x[t] + w * h[t-1]), h[t-1]) + 0.125 * step() * x[t-1]
}
)"},
  };
  return all;
}

}  // namespace

std::vector<std::string> language_cells() {
  std::vector<std::string> names;
  for (const auto& [name, text] : definitions()) names.push_back(name);
  return names;
}

Graph language_cell(const std::string& name, int64_t size) {
  Unit unit(name + ".rnn", definitions().at(name));
  std::optional<Graph> graph = unit.lower(name, {{"H", size}});
  RNNC_CHECK(graph.has_value(), "{}", unit.render());
  const Result<DimBindings> dims = complete_bindings(*graph, {{"H", size}});
  RNNC_CHECK(dims.has_value(), "{}", dims.error().message);
  graph->bind(*dims);
  run_delays(*graph);
  return *std::move(graph);
}

}  // namespace rnnc::test
