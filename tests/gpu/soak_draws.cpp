#include "tests/gpu/soak_draws.h"

#include <charconv>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "ir/base/status.h"
#include "passes/graph/delays.h"
#include "tests/support/cells/golden_cases.h"
#include "tests/support/cells/random_graph.h"

namespace rnnc::test {
namespace {

uint64_t setting(const char* name, uint64_t usual) {
  const char* text = std::getenv(name);
  if (text == nullptr) return usual;
  uint64_t value = usual;
  std::from_chars(text, text + std::string_view(text).size(), value);
  return value;
}

}  // namespace

SoakSeeds soak_seeds() {
  const SoakSeeds usual;
  return {setting("RNNC_SOAK_FIRST", usual.first), setting("RNNC_SOAK_DRAWS", usual.count)};
}

Graph shipped_cell(Dice& dice) {
  const std::vector<std::string>& cells = golden_cells();
  const std::string& cell = cells[static_cast<size_t>(dice.up_to(std::ssize(cells))) - 1];
  const std::vector<GoldenCase> cases = golden_cases(cell, {DType::f32});
  GoldenCase drawn = cases[0];
  for (auto& [name, size] : drawn.size.dims) {
    if (name == "H" || name == "I") size = dice.one_of<int64_t>({1, 3, 8, 16, 31, 48, 64, 72, 130});
  }
  Result<Graph> graph = golden_graph(drawn);
  if (!graph) graph = golden_graph(cases[0]);
  RNNC_CHECK(graph.has_value(), "{}: {}", cell, graph.error().message);
  return *std::move(graph);
}

Graph random_cell(uint64_t seed, Dice& dice) {
  Graph graph = random_graph(seed, {.operations = 30,
                                    .largest_size = dice.one_of<int64_t>({8, 24, 70}),
                                    .structure = true,
                                    .reversals = dice.one_in(4),
                                    .far = dice.one_in(4)});
  run_delays(graph);
  return graph;
}

}  // namespace rnnc::test
