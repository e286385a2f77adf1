/// Cells of what shapes and values the language has, which every backend runs at odd sizes.
#pragma once

#include <string>
#include <vector>

#include "ir/graph/graph.h"

namespace rnnc::test {

/// All names.
std::vector<std::string> language_cells();

/// A bound Graph, with delays as states of its own; inputs are `size` wide. Where functions jump
/// they see values that every storage type holds exactly, of `random_args`.
///   Vectors    numbers and ranges in arithmetic, products, initial values, outputs and pieces
///   Pieces     concat of nothing, scalars and vectors; slices from the end
///   Rounded    halves, too
///   Heads      pieces made in a loop, by numbers of dims
///   Arrays     of values and of calls; fns that take dims
///   Tables     rows of tables, comparisons of integers
///   Steps      the number of the step
Graph language_cell(const std::string& name, int64_t size);

}  // namespace rnnc::test
