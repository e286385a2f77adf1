/// What a schedule does with each value outside the kernel that computes it.
#pragma once

#include <vector>

#include "ir/graph/sweeps.h"
#include "passes/schedule/schedule.h"

namespace rnnc {

struct Uses {
  bool loaded = false;        // by kernels
  bool multiplied = false;    // by products
  bool other_stages = false;  // by launches of another stage of its sweep
  bool kept_loaded = false;   // by kernels of later sweeps
  bool kept_multiplied = false;
};

/// Per node; of views, by their origin. `after`: of `graph`.
std::vector<Uses> find_uses(const Graph& graph, const Schedule& schedule,
                            const std::vector<After>& after);

}  // namespace rnnc
