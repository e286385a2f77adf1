#include "tests/passes/cases.h"

#include <algorithm>
#include <filesystem>

#include "ir/graph/text.h"
#include "ir/graph/verify.h"
#include "passes/gradient/differentiate.h"
#include "passes/graph/pipeline.h"
#include "tests/support/reference/golden.h"

namespace rnnc::test {
namespace {

constexpr char kFolder[] = "tests/passes/cases";

}  // namespace

std::vector<std::string> case_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(data_root() / kFolder)) {
    if (entry.path().extension() == ".graph") names.push_back(entry.path().stem().string());
  }
  std::ranges::sort(names);
  return names;
}

Graph load_case(const std::string& name, const DimBindings& dims) {
  return graph_from(read_data(case_path(name + ".graph")), dims);
}

Graph load_backward_half(const std::string& name, const DimBindings& dims) {
  Graph graph = load_case(name, dims);
  RNNC_CHECK(run_pipeline(graph, {.training = true}), "{}", name);
  Graph half = differentiate(graph, DifferentiateOptions::all(graph, {})).backward;
  RNNC_CHECK(run_simplifications(half), "{}", name);
  return half;
}

Graph graph_from(const std::string& text, const DimBindings& dims) {
  Result<Graph> graph = parse_graph(text);
  RNNC_CHECK(graph.has_value(), "{}", graph.error().message);
  const Result<DimBindings> bindings = complete_bindings(*graph, dims);
  RNNC_CHECK(bindings.has_value(), "{}", bindings.error().message);
  graph->bind(*bindings);
  const Status status = verify(*graph);
  RNNC_CHECK(status.has_value(), "{}", status.error().message);
  return *std::move(graph);
}

std::string case_path(const std::string& file) {
  return fmt::format("{}/{}", kFolder, file);
}

}  // namespace rnnc::test
