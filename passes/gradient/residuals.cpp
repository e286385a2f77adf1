// A minimum cut (Chen et al., "Training deep nets with sublinear memory cost", asks the question;
// the cut answers it for one step):
//
// 1. Each value v that varies has two vertices, `in` and `out`. The source's side of the cut is the
//    forward half, the sink's the backward half.
// 2. source → in(v), as dear as computing v anew: cut if the backward half does so.
//    in(v) → out(v), as dear as saving v: cut if it is saved.
//    out(operand) → in(v), without limit: what computes v anew needs its operands.
//    out(v) → sink, without limit, if v is needed.
// 3. Inputs, masks and what is given cost nothing to have. A state's earlier value and a reversed sequence are
//    never computed anew.
#include "passes/gradient/residuals.h"

#include <algorithm>
#include <array>
#include <utility>

namespace rnnc {
namespace {

constexpr int64_t kUnlimited = int64_t{1} << 50;

/// The greatest flow (Dinic, 1970): of all shortest ways from the source to the sink that have room
/// as much as they take at once, until no way is left.
class Flow {
 public:
  explicit Flow(size_t vertices) : edges_of_(vertices) {}

  void add_edge(uint32_t from, uint32_t to, int64_t room) {
    edges_of_[from].push_back(static_cast<uint32_t>(edges_.size()));
    edges_.push_back({to, room});
    edges_of_[to].push_back(static_cast<uint32_t>(edges_.size()));
    edges_.push_back({from, 0});  // back
  }

  /// By vertex: whether the source reaches it along edges that still have room in the end.
  std::vector<bool> run(uint32_t source, uint32_t sink) {
    while (measure(source, sink)) {
      next_.assign(edges_of_.size(), 0);
      while (push(source, sink)) {
      }
    }
    std::vector<bool> reached;
    for (const int64_t distance : distance_) reached.push_back(distance >= 0);
    return reached;
  }

 private:
  struct Edge {
    uint32_t to = 0;
    int64_t room = 0;
  };

  /// Distances from the source; whether it reaches the sink.
  bool measure(uint32_t source, uint32_t sink) {
    distance_.assign(edges_of_.size(), -1);
    distance_[source] = 0;
    std::vector<uint32_t> open{source};
    for (size_t i = 0; i < open.size(); ++i) {
      for (const uint32_t edge : edges_of_[open[i]]) {
        const auto [to, room] = edges_[edge];
        if (room == 0 || distance_[to] >= 0) continue;
        distance_[to] = distance_[open[i]] + 1;
        open.push_back(to);
      }
    }
    return distance_[sink] >= 0;
  }

  /// Along one shortest way; false if there is none any more.
  bool push(uint32_t source, uint32_t sink) {
    std::vector<uint32_t> way;  // edges
    for (uint32_t at = source; at != sink;) {
      if (next_[at] == edges_of_[at].size()) {  // leads nowhere
        if (way.empty()) return false;
        at = edges_[way.back() ^ 1].to;
        way.pop_back();
        ++next_[at];
        continue;
      }
      const uint32_t edge = edges_of_[at][next_[at]];
      const auto [to, room] = edges_[edge];
      if (room > 0 && distance_[to] == distance_[at] + 1) {
        way.push_back(edge);
        at = to;
      } else {
        ++next_[at];
      }
    }
    int64_t least = kUnlimited;
    for (const uint32_t edge : way) least = std::min(least, edges_[edge].room);
    for (const uint32_t edge : way) {
      edges_[edge].room -= least;
      edges_[edge ^ 1].room += least;
    }
    return true;
  }

  std::vector<Edge> edges_;  // each before the one back
  std::vector<std::vector<uint32_t>> edges_of_;
  std::vector<int64_t> distance_;  // from the source; -1: not reached
  std::vector<size_t> next_;       // of a vertex's edges, the first that may lead on
};

/// Work on single elements hides behind memory, nearly. The rest decides between equals.
constexpr int64_t kSpecial = 10;
constexpr int64_t kOperation = 1;

class Cut {
 public:
  Cut(const Graph& graph, const std::vector<bool>& varies, const ResidualPrices& prices)
      : graph_(graph),
        varies_(varies),
        prices_(prices),
        flow_(2 * graph.nodes.size() + 2),
        source_(2 * static_cast<uint32_t>(graph.nodes.size())),
        sink_(source_ + 1) {}

  std::vector<bool> run(const std::vector<bool>& needed) {
    for (NodeId id = 0; id < graph_.nodes.size(); ++id) {
      if (!varies_[id]) continue;
      if (needed[id]) add_edge(out(id), sink_, kUnlimited);
      if (prices_.is_free(id)) continue;
      add_edge(source_, in(id), prices_.anew(id).value_or(kUnlimited));
      add_edge(in(id), out(id), prices_.saving(id));
      for (const NodeId operand : graph_[id].operands) {
        if (varies_[operand]) add_edge(out(operand), in(id), kUnlimited);
      }
    }
    const std::vector<bool> is_forward = flow_.run(source_, sink_);
    std::vector<bool> saved(graph_.nodes.size(), false);
    for (NodeId id = 0; id < graph_.nodes.size(); ++id) {
      if (!varies_[id] || prices_.is_free(id)) continue;
      saved[id] = is_forward[in(id)] && !is_forward[out(id)];
    }
    return saved;
  }

 private:
  static uint32_t in(NodeId id) { return 2 * id; }
  static uint32_t out(NodeId id) { return 2 * id + 1; }

  void add_edge(uint32_t from, uint32_t to, int64_t room) { flow_.add_edge(from, to, room); }

  const Graph& graph_;
  const std::vector<bool>& varies_;
  const ResidualPrices& prices_;
  Flow flow_;
  const uint32_t source_;
  const uint32_t sink_;
};

constexpr std::array<std::pair<ResidualChoice, std::string_view>, 3> kNames = {
    {{ResidualChoice::All, "all"},
     {ResidualChoice::Least, "least"},
     {ResidualChoice::Auto, "auto"}}};

}  // namespace

ResidualPrices::ResidualPrices(const Graph& graph, const std::vector<bool>& given,
                               ResidualChoice choice, const ResidualCosts& costs)
    : graph_(graph),
      given_(given),
      choice_(choice),
      saved_element_(static_cast<int64_t>(2 * costs.element_bytes * kPriceOfByte)),
      product_operation_(static_cast<double>(kPriceOfByte) / costs.operations_per_byte),
      product_element_(static_cast<int64_t>(2 * costs.product_bytes * kPriceOfByte)) {}

bool ResidualPrices::is_free(NodeId id) const {
  const Op op = graph_[id].op;
  return op == Op::Input || op == Op::Valid || op == Op::Reset || given_[id];
}

int64_t ResidualPrices::elements(NodeId id) const {
  return element_count(graph_[id].type.shape);
}

int64_t ResidualPrices::saving(NodeId id) const {
  return elements(id) * saved_element_;
}

std::optional<int64_t> ResidualPrices::anew(NodeId id) const {
  const Node& node = graph_[id];
  if (node.op == Op::State) return std::nullopt;
  if (node.op == Op::Reverse) {
    if (graph_[node.operands[0]].op != Op::Input) return std::nullopt;
    return kOperation * elements(id);
  }
  if (node.op == Op::MatMul) {
    if (choice_ == ResidualChoice::Least) return kSpecial * elements(id);
    int64_t operations = 2 * elements(id);
    for (const NodeId operand : node.operands) {
      const Shape& shape = graph_[operand].type.shape;
      if (shape.size() > 1) operations = 2 * element_count(shape);
    }
    // Its result is written and read again, too. (LSTM 16x256 in bf16 on an H100, forward and
    // backward: 2.27 us a step with the gates computed anew, 1.86 with them saved.)
    return static_cast<int64_t>(static_cast<double>(operations) * product_operation_) +
           elements(id) * product_element_;
  }
  return elements(id) * (kOperation + info(node.op).specials * kSpecial);
}

std::string_view to_string(ResidualChoice choice) {
  return kNames[static_cast<size_t>(choice)].second;
}

std::optional<ResidualChoice> parse_residual_choice(std::string_view name) {
  for (const auto& [choice, text] : kNames) {
    if (text == name) return choice;
  }
  return std::nullopt;
}

std::vector<bool> choose_residuals(const Graph& graph, const std::vector<bool>& varies,
                                   const std::vector<bool>& given, const std::vector<bool>& needed,
                                   ResidualChoice choice, const ResidualCosts& costs) {
  if (choice == ResidualChoice::All) return needed;
  return Cut(graph, varies, ResidualPrices(graph, given, choice, costs)).run(needed);
}

}  // namespace rnnc
