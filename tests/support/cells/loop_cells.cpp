#include "tests/support/cells/loop_cells.h"

#include <optional>
#include <utility>

#include "frontend/unit.h"
#include "passes/graph/delays.h"

namespace rnnc::test {
namespace {

constexpr const char* kCells = R"(
cell Gate[H](p: [H], n: [H]) -> h {
  state h: [H]
  z = sigmoid(p[t])
  h[t] = (1 - z) * h[t-1] + z * n[t]
}
cell Free[H](p: [H], n: [H]) -> h {
  state h: [H]
  h[t] = p[t] * h[t-1] + n[t]
}
cell Rotation[H](p: [H], n: [H]) -> (u, v) {
  state u, v: [H]
  c = 0.9 * cos(p[t])
  s = 0.9 * sin(p[t])
  u[t] = c * u[t-1] - s * v[t-1] + n[t]
  v[t] = s * u[t-1] + c * v[t-1] + p[t]
}
cell Deep[H](p: [H], n: [H]) -> h {
  state h: [H]
  param a: [H]
  u = n[t]
  for i in 0..200 { u = tanh(a * u) + p[t] }
  h[t] = tanh(u) * h[t-1] + n[t]
}
cell Cascade[H](p: [H], n: [H]) -> (h, y) {
  state v, h: [H]
  v[t] = 0.9 * v[t-1] + n[t]
  h[t] = sigmoid(p[t]) * h[t-1] + tanh(v[t]) * v[t-1]
  y = h[t] * p[t]
}
cell Own[H](p: [H], n: [H]) -> h {
  param u: [H]
  state h: [H]
  h[t] = tanh(p[t] + u * h[t-1] + n[t])
}
cell Pair[H](p: [H], n: [H]) -> (a, b) {
  state a, b: [H]
  a[t] = 0.5 * cos(p[t]) * b[t-1] + n[t]
  b[t] = 0.5 * a[t-1] - p[t]
}
cell Late[H](p: [H], n: [H]) -> h {
  state h: [H]
  h[t] = 0.5 * tanh(p[t]) * h[t-1] + 0.3 * h[t-2] + n[t]
}
cell Running[H](p: [H], n: [H]) -> (a, m, l) {
  state a: [H]
  state m: [H] = -1e30
  state l: [H] = 1e30
  m[t] = max(m[t-1] - 0.1, p[t])
  a[t] = exp(m[t-1] - 0.1 - m[t]) * a[t-1] + exp(p[t] - m[t]) * n[t]
  l[t] = min(l[t-1] + 0.1, n[t])
}
cell Sums[H](p: [H], n: [H]) -> y {
  state a, b: [H]
  state m: [H] = -1e30
  m[t] = max(m[t-1] - 0.1, p[t])
  kept = exp(m[t-1] - 0.1 - m[t])
  added = exp(p[t] - m[t])
  a[t] = kept * a[t-1] + added * n[t]
  b[t] = kept * b[t-1] + added
  y = a[t] / (b[t] + 0.5)
}
cell Rule[H](q: [20], k: [20], v: [H]) -> o {
  state S[20]: [H]
  old = zeros(H)
  for i in 0..20 { old = old + k[t][i] * S[i][t-1] }
  u = 0.1 * (v[t] - old)
  o = zeros(H)
  for i in 0..20 {
    S[i][t] = 0.9 * S[i][t-1] + k[t][i] * u
    o = o + q[t][i] * S[i][t]
  }
}
cell Slots[H](p: [H], n: [H]) -> (y, s) {
  state m[20]: [H]
  state s: [H]
  param a[20]: [H]
  c = 0.1 * s[t-1] + p[t]
  top = a[0] * c
  for i in 1..20 { top = max(top, a[i] * c) }
  z = zeros(H)
  for i in 0..20 {
    e[i] = exp(a[i] * c - top)
    z = z + e[i]
  }
  y = n[t]
  for j in 0..20 {
    w = e[19 - j] / z
    y = y + w * m[19 - j][t-1] - a[19 - j]
    m[19 - j][t] = m[19 - j][t-1] + w * (n[t] - m[19 - j][t-1])
  }
  s[t] = 0.5 * y
}
cell Bent[H](p: [H], n: [H]) -> h {
  state h: [H]
  h[t] = tanh(h[t-1] * p[t]) + n[t]
}
cell Floor[H](p: [H], n: [H]) -> y {
  state h: [H]
  param gamma, scale: [H]
  keep = gamma + (1 - gamma) * sigmoid(p[t])
  h[t] = keep * h[t-1] + (1 - keep) * n[t]
  y = scale * h[t]
}
cell Turning[H](p: [H], n: [H]) -> (u, v) {
  state u, v: [H]
  param nu, theta: [H]
  size = exp(-exp(nu))
  c = size * cos(theta)
  s = size * sin(theta)
  u[t] = c * u[t-1] - s * v[t-1] + p[t]
  v[t] = s * u[t-1] + c * v[t-1] + n[t]
}
cell Weighted[H](p: [H], n: [H]) -> y {
  state a, b: [H]
  state m: [H] = -1e30
  param w, u: [H]
  q = max(m[t-1], u + p[t])
  past = exp(m[t-1] - q)
  now = exp(u + p[t] - q)
  y = past * a[t-1] + now * n[t] - 0.3 * (past * b[t-1] + now)
  m[t] = max(m[t-1] - w, p[t])
  kept = exp(m[t-1] - w - m[t])
  added = exp(p[t] - m[t])
  a[t] = kept * a[t-1] + added * n[t]
  b[t] = kept * b[t-1] + added
}
cell Biased[H](p: [H], n: [H]) -> h {
  state h: [H]
  param W: [H, H]
  param b, c: [H]
  z = sigmoid(W @ p[t] + b)
  h[t] = (1 - z) * h[t-1] + z * (n[t] + c)
}
)";

}  // namespace

Graph loop_cell(const std::string& name, int64_t size) {
  Unit unit("loop_cells.rnn", kCells);
  std::optional<Graph> graph = unit.lower(name, {{"H", size}});
  RNNC_CHECK(graph.has_value(), "{}", unit.render());
  graph->bind({{"H", size}});
  run_delays(*graph);
  return *std::move(graph);
}

}  // namespace rnnc::test
