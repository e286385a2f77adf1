/// A network for tests of `rnnc explain`.
#pragma once

#include "tests/tools/tools_test.h"

namespace rnnc::test {

/// Two gates, so that products merge; two layers, so that recurrences run side by side.
inline constexpr std::string_view kNetwork = R"(
cell Cell[H](x: [H]) -> h {
  state h: [H]
  param W, V, R, S: [H, H]
  param b: [H]
  z = sigmoid(W @ x[t] + R @ h[t-1])
  h[t] = z * h[t-1] + (1 - z) * tanh(V @ x[t] + S @ h[t-1] + b)
}
network Net[H](x: [H]) -> y {
  y = x
  for l in 0..2 { y = Cell[H = H](y) }
}
)";

}  // namespace rnnc::test
