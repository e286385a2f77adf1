#include "tests/support/cells/graph_of_text.h"

#include "frontend/unit.h"

namespace rnnc::test {

Graph graph_of_text(const std::string& text, const std::string& name, const DimBindings& dims) {
  Unit unit("cell.rnn", text);
  std::optional<Graph> graph = unit.lower(name, dims);
  RNNC_CHECK(graph.has_value(), "{}", unit.render());
  graph->bind(dims);
  return *std::move(graph);
}

}  // namespace rnnc::test
