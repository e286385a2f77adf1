/// The search behind IntegerProblem.
#pragma once

#include "passes/solver/integer_problem.h"

namespace rnnc {

struct SearchResult {
  std::vector<Solution> best;
  bool is_complete = true;
  int64_t nodes = 0;
  int64_t work = 0;
};

/// The best solutions of `constraints`, by cost. `choices` has those of each variable.
SearchResult search_integers(std::vector<std::vector<int64_t>> choices,
                             std::span<const IntegerConstraint* const> constraints,
                             const Search& search);

}  // namespace rnnc
