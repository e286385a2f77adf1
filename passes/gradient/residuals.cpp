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

#include <array>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/edmonds_karp_max_flow.hpp>
#include <utility>

namespace rnnc {
namespace {

using Traits = boost::adjacency_list_traits<boost::vecS, boost::vecS, boost::directedS>;
using Flow = boost::adjacency_list<
    boost::vecS, boost::vecS, boost::directedS,
    boost::property<boost::vertex_color_t, boost::default_color_type,
                    boost::property<boost::vertex_predecessor_t, Traits::edge_descriptor>>,
    boost::property<
        boost::edge_capacity_t, int64_t,
        boost::property<boost::edge_residual_capacity_t, int64_t,
                        boost::property<boost::edge_reverse_t, Traits::edge_descriptor>>>>;

constexpr int64_t kUnlimited = int64_t{1} << 50;

/// In thousandths of the time that one byte takes to or from memory.
constexpr int64_t kByte = 1000;
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
        source_(2 * graph.nodes.size()),
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
    const auto colors = boost::get(boost::vertex_color, flow_);
    // Its last search for a path reaches and colours what is on the source's side.
    boost::edmonds_karp_max_flow(flow_, source_, sink_, boost::color_map(colors));
    const auto is_forward = [&](uint64_t vertex) { return colors[vertex] != boost::white_color; };
    std::vector<bool> saved(graph_.nodes.size(), false);
    for (NodeId id = 0; id < graph_.nodes.size(); ++id) {
      if (!varies_[id] || prices_.is_free(id)) continue;
      saved[id] = is_forward(in(id)) && !is_forward(out(id));
    }
    return saved;
  }

 private:
  static uint64_t in(NodeId id) { return 2 * uint64_t{id}; }
  static uint64_t out(NodeId id) { return 2 * uint64_t{id} + 1; }

  void add_edge(uint64_t from, uint64_t to, int64_t capacity) {
    const auto edge = boost::add_edge(from, to, flow_).first;
    const auto back = boost::add_edge(to, from, flow_).first;
    boost::put(boost::edge_capacity, flow_, edge, capacity);
    boost::put(boost::edge_capacity, flow_, back, 0);
    boost::put(boost::edge_reverse, flow_, edge, back);
    boost::put(boost::edge_reverse, flow_, back, edge);
  }

  const Graph& graph_;
  const std::vector<bool>& varies_;
  const ResidualPrices& prices_;
  Flow flow_;
  const uint64_t source_;
  const uint64_t sink_;
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
      saved_element_(static_cast<int64_t>(2 * costs.element_bytes * kByte)),
      product_operation_(static_cast<double>(kByte) / costs.operations_per_byte),
      product_element_(static_cast<int64_t>(2 * costs.product_bytes * kByte)) {}

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
