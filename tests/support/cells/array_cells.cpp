#include "tests/support/cells/array_cells.h"

#include <fmt/format.h>

#include <optional>
#include <random>
#include <vector>

#include "frontend/unit.h"
#include "passes/graph/delays.h"

namespace rnnc::test {
namespace {

constexpr const char* kDeltaRule = R"(
cell Cell[K, H](q: [K], k: [K], v: [H], b: []) -> o {
  state S[K]: [H]
  old = zeros(H)
  for i in 0..K {
    old = old + k[t][i] * S[i][t-1]
  }
  u = b[t] * (v[t] - old)
  o = zeros(H)
  for i in 0..K {
    S[i][t] = 0.9 * S[i][t-1] + k[t][i] * u
    o = o + q[t][i] * S[i][t]
  }
}
)";

Graph lowered(const std::string& text, const DimBindings& dims) {
  Unit unit("cell.rnn", text);
  const std::optional<Graph> made = unit.lower("Cell", dims);
  RNNC_CHECK(made.has_value(), "{}", unit.render());
  Graph graph = *made;
  graph.bind(dims);
  run_delays(graph);
  return graph;
}

/// `text` with `value` in each place of `name`, which is not in it.
std::string put(std::string text, std::string_view name, std::string_view value) {
  for (size_t at = text.find(name); at != std::string::npos; at = text.find(name)) {
    text.replace(at, name.size(), value);
  }
  return text;
}

}  // namespace

Graph delta_rule(int64_t count, int64_t size) {
  return lowered(kDeltaRule, {{"K", count}, {"H", size}});
}

std::string random_array_cell(uint64_t seed) {
  std::mt19937_64 engine(seed);
  const auto pick = [&engine](const std::vector<std::string>& list) {
    return list[engine() % list.size()];
  };
  const std::vector<std::string> rows = {"i", "K - 1 - i"};
  const std::string weight = pick({"a[#]", "k[t][#]", "w[#]", "sigmoid(k[t][#])"});
  // What the first loop reads: sums of rows, of what is summed within rows, or the greatest.
  const std::string read = pick({
      "r = r + WEIGHT * S[#][t-1]\n",
      "e[#] = exp(0.3 * tanh(dot(S[#][t-1], v[t])))\nz = z + e[#]\n",
      "e[#] = exp(0.3 * tanh(mean(S[#][t-1] * c[t-1])))\nz = z + e[#]\nr = r + e[#] * a[#]\n",
      "r = max(r, S[#][t-1] - WEIGHT)\n",
      "r = r + tanh(WEIGHT * S[#][t-1]) * max(S[#][t-1])\n",
  });
  const bool scored = read.find("e[#]") != std::string::npos;
  const std::string change = scored ? pick({"(e[#] / z) * (u - S[#][t-1])", "e[#] * u"})
                                    : pick({"WEIGHT * u", "tanh(WEIGHT) * u"});
  const std::string kept = pick({"0.8", "sigmoid(w[#])", "cos(k[t][#])"});
  const std::string out = pick({"o = o + WEIGHT * S[#][t]\n", "o = o - 0.1 * S[#][t] * S[#][t-1]\n",
                                "o = o + dot(S[#][t], u) * w[#]\n", "o = min(o, S[#][t])\n"});
  std::string text =
      "cell Cell[K, H](k: [K], v: [H]) -> o {\nstate S[K]: [H]\nstate c: [H]\nparam a[K]: []\n"
      "param w[K]: [H]\nr = v[t]\nz = 0.5\n";
  text += "for i in 0..K {\nREAD}\n";
  text +=
      pick({"u = tanh(r + v[t])\n", "u = 0.3 * (v[t] - r)\n", "u = v[t] * tanh(mean(r)) + z\n"});
  text += "o = 0.1 * c[t-1]\nfor i in 0..K {\n";
  text += "S[#][t] = KEPT * S[#][t-1] + 0.2 * CHANGE\nOUT";
  text += "}\nc[t] = 0.5 * tanh(o) + 0.1 * v[t]\n}\n";
  const std::string row = pick(rows);
  text = put(text, "KEPT", kept);
  text = put(text, "CHANGE", change);
  text = put(text, "OUT", out);
  text = put(text, "READ", put(put(read, "WEIGHT", weight), "#", pick(rows)));
  text = put(text, "WEIGHT", weight);
  return put(text, "#", row);
}

Graph random_array_graph(uint64_t seed, int64_t count, int64_t size) {
  return lowered(random_array_cell(seed), {{"K", count}, {"H", size}});
}

std::string random_nest_cell(uint64_t seed) {
  std::mt19937_64 engine(seed);
  const auto pick = [&engine](const std::vector<std::string>& list) {
    return list[engine() % list.size()];
  };
  // Of its own in each turn of both loops, the same in all turns of the outer one, or a product of
  // one that the inner and one that the outer loop goes through.
  const std::string weight =
      pick({"a[#]", "k[t][#]", "w[#]", "c[t][i]", "sigmoid(c[t][i])", "c[t][i] * g[t][n]"});
  const std::string read = pick({
      "r = r + WEIGHT * S[#][t-1]\n",
      "r = r + tanh(WEIGHT * S[#][t-1])\n",
      "r = max(r, S[#][t-1] - WEIGHT)\n",
      "e = exp(0.3 * tanh(a[#] * S[#][t-1]))\nz = z + e\nr = r + e * w[#]\n",
      "r = r + 0.1 * dot(S[#][t-1], v[t]) * WEIGHT\n",
  });
  const std::string between = pick({"u = tanh(r + b[n] * v[t])\n", "u = g[t][n] * (v[t] - r)\n",
                                    "u = r / z + g[t][n]\n", "u = tanh(r) * h[n]\n"});
  const std::string change = pick({"WEIGHT * u", "tanh(WEIGHT) * u", "u - S[#][t-1]"});
  const std::string out =
      pick({"o = o + WEIGHT * S[#][t]\n", "y = y + WEIGHT * S[#][t]\n", "y = max(y, S[#][t])\n"});
  std::string text =
      "cell Cell[N, K, H](k: [N * K], c: [K], g: [N], v: [H]) -> o {\nstate S[N * K]: [H]\n"
      "param a[N * K], b[N]: []\nparam w[N * K], h[N]: [H]\no = v[t]\nfor n in 0..N {\n"
      "r = 0.1 * v[t]\nz = 0.5\ny = zeros(H)\nfor i in 0..K {\nREAD}\n";
  text += between;
  text += "for i in 0..K {\nS[#][t] = 0.8 * S[#][t-1] + 0.2 * CHANGE\nOUT}\n";
  text += pick({"o = o + 0.1 * y\n", "o = o + h[n] * tanh(y)\n", "o = max(o, y - u)\n"});
  text += "}\n}\n";
  text = put(text, "READ", put(read, "#", pick({"n * K + i", "n * K + K - 1 - i"})));
  text = put(text, "CHANGE", change);
  text = put(text, "OUT", out);
  text = put(text, "WEIGHT", weight);
  return put(text, "#", "n * K + i");
}

Graph random_nest_graph(uint64_t seed, int64_t outer, int64_t inner, int64_t size) {
  return lowered(random_nest_cell(seed), {{"N", outer}, {"K", inner}, {"H", size}});
}

}  // namespace rnnc::test
