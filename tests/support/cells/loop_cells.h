/// Cells without products in their recurrences, of which most are linear: for loops over time and
/// scans.
#pragma once

#include <cstdint>
#include <string>

#include "ir/graph/graph.h"

namespace rnnc::test {

/// Of inputs p and n; one of those in loop_cells.cpp, bound and without delays.
Graph loop_cell(const std::string& name, int64_t size);

}  // namespace rnnc::test
