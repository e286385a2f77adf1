/// Cells whose step is as long as one likes: N turns of a loop over H elements.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "ir/graph/graph.h"

namespace rnnc::test {

struct LongCell {
  std::string name;
  std::string text;  // of a cell named Cell, of dims N and H
  friend void PrintTo(const LongCell& cell, std::ostream* out) { *out << cell.name; }
};

std::vector<LongCell> long_cells();

/// Of so many turns and 5 elements.
Graph graph_of_turns(const LongCell& cell, int64_t turns);

}  // namespace rnnc::test
