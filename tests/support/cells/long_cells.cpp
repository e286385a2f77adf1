#include "tests/support/cells/long_cells.h"

#include "tests/support/cells/graph_of_text.h"

namespace rnnc::test {

std::vector<LongCell> long_cells() {
  return {
      // One value crosses each cut.
      {"Chain",
       "(x: [H]) -> y {\nstate h: [H]\nparam a, b: [H]\ny = x[t] + h[t-1]\n"
       "for i in 0..N { y = tanh(y * a) + b }\nh[t] = y\n"},
      // Values per row and per element, and reductions, which blocks of a row join.
      {"Reduced",
       "(x: [H], s: []) -> y {\nstate h: [H]\nparam a: [H]\ny = x[t] + h[t-1]\nz = s[t]\n"
       "for i in 0..N {\nz = tanh(0.5 * z + 0.3 * mean(y))\ny = 0.6 * y + 0.3 * z * a\n}\nh[t] = "
       "y\n"},
      // States in place, each read by a later piece than the one that has changed others.
      {"States",
       "(x: [H]) -> y {\nstate s[N]: [H]\ny = x[t]\n"
       "for i in 0..N {\ny = tanh(0.5 * y + 0.3 * s[i][t-1] + 0.3 * s[N - 1 - i][t-1])\n"
       "s[i][t] = 0.5 * y - 0.3 * s[N - 1 - i][t-1]\n}\n"},
      // Of params alone: before all steps, and their gradients after them.
      {"Params",
       "(x: [H]) -> y {\nstate h: [H]\nparam a[N]: [H]\nw = ones(H)\n"
       "for i in 0..N { w = tanh(0.9 * w + a[N - 1 - i] * a[i]) }\nh[t] = w * h[t-1] + x[t]\n"
       "y = h[t]\n"},
      {"Matrices",
       "(x: [H]) -> y {\nstate h: [H]\nparam A[N]: [H, H]\nB = A[0]\n"
       "for i in 1..N { B = tanh(0.9 * B + A[N - i] * A[i]) }\nh[t] = tanh(B @ h[t-1] + x[t])\n"
       "y = h[t]\n"},
  };
}

Graph graph_of_turns(const LongCell& cell, int64_t turns) {
  return graph_of_text("cell Cell[N, H]" + cell.text + "}\n", "Cell", {{"N", turns}, {"H", 5}});
}

}  // namespace rnnc::test
