// For each value, from what else the backward half has: walk back through operands that it does not
// have, adding up what they would cost, to those that it has. The cut weighs all values together, so
// that what it saves is never dearer than that walk, and what it computes anew never than saving it.
#include "passes/gradient/residual_decisions.h"

#include <algorithm>

namespace rnnc {
namespace {

class Decisions {
 public:
  Decisions(const Graph& graph, const std::vector<bool>& varies, const std::vector<bool>& given,
            const std::vector<bool>& asked, const std::vector<bool>& used,
            const std::vector<bool>& saved, ResidualChoice choice, const ResidualCosts& costs)
      : graph_(graph),
        varies_(varies),
        asked_(asked),
        used_(used),
        saved_(saved),
        choice_(choice),
        prices_(graph, given, choice, costs),
        visit_(graph.nodes.size(), 0) {
    for (NodeId id = 0; id < graph.nodes.size(); ++id) {
      has_it_.push_back(prices_.is_free(id) || (used[id] && saved[id]));
      anew_.push_back(prices_.anew(id));
    }
  }

  std::vector<ResidualDecision> run() {
    std::vector<ResidualDecision> decisions;
    for (NodeId id = 0; id < graph_.nodes.size(); ++id) {
      if (varies_[id]) decisions.push_back(decide(id));
    }
    return decisions;
  }

 private:
  ResidualDecision decide(NodeId id) {
    ResidualDecision decision{.value = id, .asked = asked_[id]};
    if (!used_[id]) return decision;
    if (prices_.is_free(id) && !saved_[id]) {
      const Node& node = graph_[id];
      const bool follows = node.op == Op::State && has_it_[graph_.states[node.decl].next] &&
                           saved_[graph_.states[node.decl].next];
      decision.reason = follows ? ResidualReason::Follows : ResidualReason::Given;
      return decision;
    }
    decision.save_bytes = static_cast<double>(prices_.saving(id)) / kPriceOfByte;
    const std::optional<int64_t> own = anew_[id];
    if (prices_.is_free(id)) {
      decision.reason = ResidualReason::Followed;
    } else if (!own) {
      const bool state = graph_[id].op == Op::State;
      decision.reason = state ? ResidualReason::State : ResidualReason::Reversed;
    } else if (!saved_[id]) {
      decision.reason = ResidualReason::Cheaper;
      walk(id, decision);
      decision.anew_bytes = static_cast<double>(*own) / kPriceOfByte;
    } else if (choice_ == ResidualChoice::All) {
      decision.reason = ResidualReason::AskedFor;
    } else {
      decision.reason = ResidualReason::Dearer;
      walk(id, decision);
    }
    return decision;
  }

  /// What it takes to compute a value anew.
  void walk(NodeId value, ResidualDecision& decision) {
    int64_t price = 0;
    ++walk_;
    std::vector<NodeId> open{value};
    while (!open.empty()) {
      const NodeId id = open.back();
      open.pop_back();
      if (!varies_[id] || visit_[id] == walk_) continue;
      visit_[id] = walk_;
      if (id != value && has_it_[id]) {
        decision.from.push_back(id);
        continue;
      }
      const std::optional<int64_t> own = anew_[id];
      if (!own) {
        decision.instead.push_back(id);
        continue;
      }
      const bool is_there = id != value && used_[id];  // computed anew for others
      if (!is_there) price += *own;
      const bool counts = !is_there || decision.reason == ResidualReason::Cheaper;
      if (counts && graph_[id].op == Op::MatMul) ++decision.products;
      const std::vector<NodeId>& operands = graph_[id].operands;
      open.insert(open.end(), operands.begin(), operands.end());
    }
    std::ranges::sort(decision.from);
    std::ranges::sort(decision.instead);
    decision.anew_bytes = static_cast<double>(price) / kPriceOfByte;
  }

  const Graph& graph_;
  const std::vector<bool>& varies_;
  const std::vector<bool>& asked_;
  const std::vector<bool>& used_;
  const std::vector<bool>& saved_;
  const ResidualChoice choice_;
  const ResidualPrices prices_;
  std::vector<bool> has_it_;  // the backward half: of each node
  std::vector<std::optional<int64_t>> anew_;
  std::vector<uint32_t> visit_;  // the last walk that saw a node
  uint32_t walk_ = 0;
};

}  // namespace

bool ResidualDecision::is_saved() const {
  return reason == ResidualReason::State || reason == ResidualReason::Reversed ||
         reason == ResidualReason::AskedFor || reason == ResidualReason::Dearer ||
         reason == ResidualReason::Followed;
}

std::vector<ResidualDecision> explain_residuals(const Graph& graph, const std::vector<bool>& varies,
                                                const std::vector<bool>& given,
                                                const std::vector<bool>& asked,
                                                const std::vector<bool>& used,
                                                const std::vector<bool>& saved,
                                                ResidualChoice choice, const ResidualCosts& costs) {
  return Decisions(graph, varies, given, asked, used, saved, choice, costs).run();
}

}  // namespace rnnc
