// 1. From first to last, for each cheap value that kernels of other stages read, too: find for each
//    of these stages the way to make it there that loads the fewest bytes. Of what the way starts
//    with, inputs are in memory, and others are or have to be stored for it.
// 2. Where all of them together load and store less than with the value stored, they do so: what
//    they load is at hand for the values behind it.
// 3. Build the graph anew: behind each such value stands one for each of these stages, whose nodes
//    read that.
#include "passes/schedule/rematerialize.h"

#include <algorithm>
#include <map>
#include <ranges>
#include <set>

#include "passes/graph/rebuild.h"

namespace rnnc {
namespace {

/// That a value is made of where it is made anew, by kernels over all steps and by a recurrence's,
/// whose steps wait for them. (The forward half of a layer-norm LSTM 16x1024 on an H200, whose
/// inputs' four gates the recurrence would scale and shift: 6 % slower.)
constexpr size_t kMostNodes = 4;
constexpr size_t kMostNodesOfSteps = 2;

/// How a stage comes by a value.
struct Way {
  int64_t bytes = 0;           // that are moved for it, of a row
  std::set<NodeId> made = {};  // by the stage's kernels
  std::set<NodeId> loaded = {};

  void add(const Way& part) {
    bytes += part.bytes;
    made.insert(part.made.begin(), part.made.end());
    loaded.insert(part.loaded.begin(), part.loaded.end());
  }
};

class Rematerialize {
 public:
  Rematerialize(const Graph& graph, const Dependence& dependence, const Schedule& schedule,
                DType dtype)
      : graph_(graph),
        dependence_(dependence),
        schedule_(schedule),
        values_(schedule.values),
        dtype_(dtype),
        made_(graph.nodes.size()) {
    for (NodeId id = 0; id < graph.nodes.size(); ++id) {
      if (values_.kind[id] != ValueKind::Fused) continue;
      for (const NodeId operand : graph[id].operands) {
        at_hand_.emplace(values_.read[operand], schedule.stage[id]);
      }
    }
  }

  std::optional<Rematerialized> run() {
    bool changed = false;
    for (NodeId id = 0; id < graph_.nodes.size(); ++id) changed = visit(id) || changed;
    if (!changed) return std::nullopt;
    return build();
  }

 private:
  /// Its row in memory, as what a kernel computes or as an array of the caller's.
  int64_t row_bytes(NodeId id) const {
    const bool given = values_.kind[id] == ValueKind::Leaf;
    return element_count(graph_[id].type.shape) * size_of(given ? dtype_ : compute_type(dtype_));
  }

  bool varies(NodeId id) const {
    return dependence_.variation[id] == Variation::Sequence ||
           dependence_.variation[id] == Variation::Recurrent;
  }

  /// Kernels alone need it, and make it of little.
  bool is_cheap(NodeId id) const {
    return is_sum_or_product(graph_[id].op) && values_.kind[id] == ValueKind::Fused &&
           !values_.is_stored[id] && varies(id);
  }

  /// Whether it can be in memory, for a kernel of another stage to load.
  bool can_be_loaded(NodeId id) const {
    const ValueKind kind = values_.kind[id];
    return kind == ValueKind::Fused || kind == ValueKind::Product ||
           (graph_[id].op == Op::Input && !is_integer(graph_, id));
  }

  /// Whatever is decided here.
  bool is_in_memory(NodeId id) const {
    const bool is_parallel = is_time_parallel(schedule_.stages[schedule_.stage[id]]);
    const bool is_library_product = values_.kind[id] == ValueKind::Product && is_parallel;
    return values_.kind[id] == ValueKind::Leaf || is_library_product || values_.is_stored[id] ||
           !elsewhere(id).empty();
  }

  /// Other stages than its own whose kernels load it.
  std::set<uint32_t> elsewhere(NodeId id) const {
    std::set<uint32_t> stages;
    for (const NodeId reader : values_.readers[id]) stages.insert(schedule_.stage[reader]);
    stages.erase(schedule_.stage[id]);
    std::erase_if(stages, [&](uint32_t stage) { return made_[id].contains(stage); });
    return stages;
  }

  bool may_make(uint32_t stage, NodeId id) const {
    const ScheduledStage& its = schedule_.stages[stage];
    return is_of_sweeps(its.domain) && !its.loop && its.sweep == schedule_.sweep_of(id);
  }

  std::optional<Way> load(NodeId id, uint32_t stage) const {
    if (!varies(id)) return Way{};
    if (at_hand_.contains({id, stage}) || made_[id].contains(stage)) return Way{};
    if (!can_be_loaded(id) || schedule_.sweep_of(id) != schedule_.stages[stage].sweep) return {};
    return Way{row_bytes(id) * (is_in_memory(id) ? 1 : 2), {}, {id}};
  }

  size_t most_nodes(uint32_t stage) const {
    return is_time_parallel(schedule_.stages[stage]) ? kMostNodes : kMostNodesOfSteps;
  }

  /// Of its operands, each by the way that moves the fewest bytes, and at most so many nodes.
  std::optional<Way> make(NodeId id, uint32_t stage, size_t most) const {
    if (most == 0 || !is_cheap(id)) return {};
    Way way{0, {id}, {}};
    for (const NodeId operand : graph_[id].operands) {
      const NodeId read = values_.read[operand];
      std::optional<Way> best = load(read, stage);
      if (best && best->bytes == 0) continue;
      const bool is_spread = read != operand;
      const std::optional<Way> made = is_spread ? std::nullopt : make(read, stage, most - 1);
      if (made && (!best || made->bytes < best->bytes)) best = made;
      if (!best) return {};
      way.add(*best);
    }
    if (way.made.size() > most) return {};
    return way;
  }

  bool visit(NodeId id) {
    if (!is_cheap(id) || graph_[id].type.is_scalar() ||
        schedule_.stages[schedule_.stage[id]].loop) {
      return false;
    }
    const std::set<uint32_t> stages = elsewhere(id);
    if (stages.empty()) return false;
    std::map<uint32_t, Way> ways;
    int64_t bytes = 0;
    for (const uint32_t stage : stages) {
      std::optional<Way> way =
          may_make(stage, id) ? make(id, stage, most_nodes(stage)) : std::nullopt;
      if (!way) return false;
      bytes += way->bytes;
      ways.emplace(stage, *std::move(way));
    }
    if (bytes >= row_bytes(id) * static_cast<int64_t>(1 + stages.size())) return false;
    for (const auto& [stage, way] : ways) {
      for (const NodeId made : way.made) made_[made].insert(stage);
      for (const NodeId loaded : way.loaded) at_hand_.emplace(loaded, stage);
    }
    return true;
  }

  Rematerialized build() const {
    Rematerialized result{graph_, {}, {}};
    std::map<std::pair<NodeId, uint32_t>, NodeId> anew;  // by the old node and the stage
    Graph& graph = result.graph;
    rebuild(graph, all_nodes(graph_),
            [&](Node node, NodeId id, const std::vector<NodeId>& renumbered) {
              const auto operands_in = [&](uint32_t stage) {
                std::vector<NodeId> operands;
                for (const NodeId operand : graph_[id].operands) {
                  const auto made = anew.find({operand, stage});
                  operands.push_back(made == anew.end() ? renumbered[operand] : made->second);
                }
                return operands;
              };
              const bool in_kernel = values_.kind[id] == ValueKind::Fused;
              if (in_kernel) node.operands = operands_in(schedule_.stage[id]);
              result.numbers.insert(result.numbers.end(), 1 + made_[id].size(), id);
              const NodeId own = append_node(graph, node);
              for (const uint32_t stage : made_[id]) {
                node.operands = operands_in(stage);
                const NodeId copy = append_node(graph, node);
                anew.emplace(std::pair(id, stage), copy);
                result.homes.emplace(copy, stage);
              }
              return own;
            });
    return result;
  }

  const Graph& graph_;
  const Dependence& dependence_;
  const Schedule& schedule_;
  const Values& values_;
  DType dtype_;
  std::set<std::pair<NodeId, uint32_t>> at_hand_;  // of kernels of the stage
  std::vector<std::set<uint32_t>> made_;           // per node: where it is made anew
};

}  // namespace

std::optional<Rematerialized> rematerialize(const Graph& graph, const Dependence& dependence,
                                            const Schedule& schedule, DType dtype) {
  return Rematerialize(graph, dependence, schedule, dtype).run();
}

}  // namespace rnnc
