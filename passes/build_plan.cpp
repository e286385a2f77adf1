// 1. Give a copy of the Graph what the calls come with (passes/sequence_features.h), simplify it
//    (passes/pipeline.h) and refuse what cannot be planned yet.
// 2. Choose the chunk.
// 3. Find the stages (passes/dependence.h), order their work (passes/schedule.h), place its values
//    (passes/layout.h) and write the launches (passes/launches.h).
// 4. Verify the plan.
#include "passes/build_plan.h"

#include <algorithm>

#include "passes/dead_code.h"
#include "passes/delays.h"
#include "passes/dependence.h"
#include "passes/launches.h"
#include "passes/layout.h"
#include "passes/pipeline.h"
#include "passes/schedule.h"
#include "passes/sequence_features.h"

namespace rnnc {
namespace {

constexpr int64_t kRowsPerChunk = 1024;  // enough for time-parallel products to run at full rate
constexpr int64_t kLeastChunk = 32;
constexpr int64_t kMostChunk = 256;

int64_t choose_chunk(const PlanOptions& options) {
  const int64_t rows = (kRowsPerChunk + options.batch - 1) / options.batch;
  const int64_t chunk =
      options.chunk > 0 ? options.chunk : std::clamp(rows, kLeastChunk, kMostChunk);
  return std::min(chunk, options.max_steps);
}

Status check_options(const PlanOptions& options) {
  if (options.batch < 1) return fail("batch must be at least 1, got {}", options.batch);
  if (options.max_steps < 1) return fail("steps must be at least 1, got {}", options.max_steps);
  if (options.chunk < 0) return fail("chunk must not be negative, got {}", options.chunk);
  return {};
}

/// Matrices that vary over time are rows of their elements: what looks at their axes is refused.
Status check_matrices(const Graph& graph, const Dependence& dependence) {
  for (const Node& node : graph.nodes) {
    if (node.op != Op::MatMul && node.op != Op::Transpose && !is_reduction(node.op)) continue;
    for (NodeId operand : node.operands) {
      const Shape& shape = graph[operand].type.shape;
      if (shape.size() < 2 || dependence.variation[operand] == Variation::Invariant) continue;
      return fail(
          "'{}' of a value of shape {}: matrices that vary over time are only stored, "
          "indexed and changed element by element so far",
          info(node.op).name, to_string(shape));
    }
  }
  return {};
}

}  // namespace

Result<Plan> build_plan(const Graph& source, const PlanOptions& options) {
  if (Status status = check_options(options); !status) return tl::unexpected(status.error());
  Graph graph = source;
  run_dead_code(graph);  // unused delays make no states
  run_delays(graph);
  if (options.resets) run_resets(graph);
  if (options.lengths) run_lengths(graph);  // last: what stays past the end knows no resets
  if (Status status = run_pipeline(graph); !status) return tl::unexpected(status.error());
  const Dependence dependence = analyse_dependence(graph);
  if (Status status = check_matrices(graph, dependence); !status) {
    return tl::unexpected(status.error());
  }

  Plan plan;
  plan.name = graph.name;
  plan.dtype = options.dtype;
  plan.batch = options.batch;
  plan.chunk = choose_chunk(options);
  const bool narrow = plan.dtype != compute_type(plan.dtype);
  const Schedule schedule = make_schedule(graph, dependence, narrow);
  const Result<Layout> layout = make_layout(graph, dependence, schedule, plan);
  if (!layout) return tl::unexpected(layout.error());
  make_launches(graph, dependence, schedule, *layout, plan);
  if (Status status = verify(plan); !status) {
    return fail("this is a bug in rnnc: plan of {}: {}", plan.name, status.error().message);
  }
  return plan;
}

}  // namespace rnnc
