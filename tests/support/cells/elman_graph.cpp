#include "tests/support/cells/elman_graph.h"

#include <fmt/format.h>

#include "ir/base/status.h"
#include "ir/graph/text.h"

namespace rnnc::test {

std::string elman_text(std::string_view dims) {
  return fmt::format(R"(graph Elman({}) {{
  input x: [I]
  param W: [H, I]
  param R: [H, H]
  state h: [H]
  %0 = param W : [H, I]
  %1 = input x : [I]
  %2 = matmul %0, %1 : [H]
  %3 = param R : [H, H]
  %4 = state h @ 1 : [H]
  %5 = matmul %3, %4 : [H]
  %6 = add %2, %5 : [H]
  %7 = tanh %6 : [H]
  %8 = const 0 : []
  init h = %8
  next h = %7
  output h = %7
}}
)",
                     dims);
}

Graph elman_graph(int64_t inputs, int64_t size) {
  Result<Graph> graph = parse_graph(elman_text("I, H"));
  RNNC_CHECK(graph, "{}", graph.error().message);
  graph->bind({{"I", inputs}, {"H", size}});
  return *std::move(graph);
}

}  // namespace rnnc::test
