// 1. Simplify a copy of the Graph (passes/pipeline.h) and refuse what cannot be planned yet.
// 2. Choose the chunk.
// 3. Find the stages (passes/dependence.h), order their work (passes/schedule.h), place its values
//    (passes/layout.h) and write the launches (passes/launches.h).
// 4. Verify the plan.
#include "passes/build_plan.h"

#include <algorithm>

#include "passes/dependence.h"
#include "passes/launches.h"
#include "passes/layout.h"
#include "passes/pipeline.h"
#include "passes/schedule.h"

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

/// What a node is to the user: "input 'x'", "the result of mul".
std::string describe(const Graph& graph, const Node& node) {
  if (node.op == Op::Input) return fmt::format("input '{}'", graph.inputs[node.decl].name);
  if (node.op == Op::State) return fmt::format("state '{}'", graph.states[node.decl].name);
  return fmt::format("the result of '{}'", info(node.op).name);
}

/// Only scalars and vectors may vary over time so far.
Status check_ranks(const Graph& graph, const Dependence& dependence) {
  const auto refuse = [](const std::string& what, const Type& type) {
    return fail("{} has shape {}: matrices that vary over time are not compiled yet", what,
                to_string(type.shape));
  };
  for (const StateDecl& state : graph.states) {
    if (state.type.rank() > 1) return refuse(fmt::format("state '{}'", state.name), state.type);
  }
  for (NodeId id = 0; id < graph.nodes.size(); ++id) {
    const Node& node = graph[id];
    const bool varies = dependence.variation[id] != Variation::Invariant;
    if (varies && node.type.rank() > 1) return refuse(describe(graph, node), node.type);
  }
  for (const OutputDecl& output : graph.outputs) {
    const Type& type = graph[output.value].type;
    if (type.rank() > 1) return refuse(fmt::format("output '{}'", output.name), type);
  }
  return {};
}

}  // namespace

Result<Plan> build_plan(const Graph& source, const PlanOptions& options) {
  if (Status status = check_options(options); !status) return tl::unexpected(status.error());
  Graph graph = source;
  if (Status status = run_pipeline(graph); !status) return tl::unexpected(status.error());
  const Dependence dependence = analyse_dependence(graph);
  if (Status status = check_ranks(graph, dependence); !status) {
    return tl::unexpected(status.error());
  }

  Plan plan;
  plan.name = graph.name;
  plan.dtype = options.dtype;
  plan.batch = options.batch;
  plan.chunk = choose_chunk(options);
  const bool narrow = plan.dtype != compute_type(plan.dtype);
  const Schedule schedule = make_schedule(graph, dependence, narrow);
  const Result<Layout> layout =
      make_layout(graph, dependence, schedule, source.states.size(), plan);
  if (!layout) return tl::unexpected(layout.error());
  make_launches(graph, dependence, schedule, *layout, plan);
  if (Status status = verify(plan); !status) {
    return fail("this is a bug in rnnc: plan of {}: {}", plan.name, status.error().message);
  }
  return plan;
}

}  // namespace rnnc
