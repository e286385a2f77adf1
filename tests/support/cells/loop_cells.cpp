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
cell Bent[H](p: [H], n: [H]) -> h {
  state h: [H]
  h[t] = tanh(h[t-1] * p[t]) + n[t]
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
