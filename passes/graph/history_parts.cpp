// Of each state of a descending Graph:
// 1. Follow its next value to where its rows come from: the state's own rows, one place further or,
//    past a sequence's end, as they were; or new rows. Note the masks on the way.
// 2. If the former are all that there is but for few new rows, the rows from each new one to the
//    next are a part. Nothing but this may have more of the state than single rows.
// 3. Build the Graph anew with reads of the parts, and behind all else what becomes of these.
#include "passes/graph/history_parts.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "passes/graph/rebuild.h"

namespace rnnc {
namespace {

/// A mask, and whether it holds.
struct Guard {
  NodeId mask = kNoNode;
  bool holds = false;
};
using Guards = std::vector<Guard>;

/// What goes to a row of the next value.
struct NewRow {
  NodeId value = kNoNode;
  std::optional<int64_t> row;  // of the value; else all of it
  Guards guards;
};

/// A state's next value.
struct Rows {
  std::map<int64_t, std::vector<NewRow>> news;  // by where they go
  std::vector<bool> moved, kept;                // rows that come from the one before, or from there
  std::set<NodeId> wholes;                      // what has several of the state's own rows
  NodeId valid = kNoNode;                       // at which steps rows move, if not at all
  NodeId reset = kNoNode;                       // what keeps them from moving
};

int64_t count_of(const Node& node) {
  return *node.type.shape[0].constant();
}

class RowFinder {
 public:
  RowFinder(const Graph& graph, uint32_t state) : graph_(graph), state_(state) {}

  std::optional<Rows> find() {
    const StateDecl& state = graph_.states[state_];
    const size_t count = *state.type.shape[0].constant();
    rows_.moved.assign(count, false);
    rows_.kept.assign(count, false);
    Guards guards;
    if (!follow(state.next, 0, 0, static_cast<int64_t>(count), guards)) return std::nullopt;
    const bool all_kept = std::ranges::all_of(rows_.kept, std::identity());
    const bool none_kept = std::ranges::none_of(rows_.kept, std::identity());
    const bool all_moved =
        std::ranges::all_of(rows_.moved.begin() + 1, rows_.moved.end(), std::identity());
    if (!all_moved || !(rows_.valid == kNoNode ? none_kept : all_kept)) return std::nullopt;
    return std::move(rows_);
  }

 private:
  bool is_own(const Node& node) const { return node.op == Op::State && node.decl == state_; }
  bool is_same_mask(NodeId a, NodeId b) const {
    return graph_[a].op == graph_[b].op && graph_[a].decl == graph_[b].decl &&
           graph_[a].delay == graph_[b].delay;
  }

  /// Rows [begin, end) of a value go to those from `at` on. False: nothing is known of them.
  bool follow(NodeId id, int64_t at, int64_t begin, int64_t end, Guards& guards) {
    if (begin == end || is_zero(graph_, id)) return true;
    const Node& node = graph_[id];
    if (node.type.is_scalar()) return false;
    if (is_own(node)) return take_own(at, begin, end, guards);
    const size_t own = rows_.wholes.size();
    bool known = false;
    if (node.op == Op::Add) {
      known = follow(node.operands[0], at, begin, end, guards) &&
              follow(node.operands[1], at, begin, end, guards);
    } else if (node.op == Op::Where && graph_[node.operands[0]].type.is_scalar()) {
      known = follow_masked(node, at, begin, end, guards);
    } else if (node.op == Op::Slice) {
      const int64_t from = *node.begin.constant();
      known = follow(node.operands[0], at, begin + from, end + from, guards);
    } else if (node.op == Op::Concat) {
      known = follow_joined(node, at, begin, end, guards);
    } else if (node.op == Op::Stack) {
      for (int64_t row = begin; row < end; ++row) {
        rows_.news[at + row - begin].push_back({node.operands[row], std::nullopt, guards});
      }
      return true;
    } else if (end - begin == 1) {
      rows_.news[at].push_back({id, begin, guards});
      return true;
    }
    if (rows_.wholes.size() > own || reads_own(node)) rows_.wholes.insert(id);
    return known;
  }

  bool reads_own(const Node& node) const {
    return std::ranges::any_of(node.operands, [this](NodeId operand) {
      return is_own(graph_[operand]) || rows_.wholes.contains(operand);
    });
  }

  bool follow_masked(const Node& node, int64_t at, int64_t begin, int64_t end, Guards& guards) {
    bool known = true;
    for (const size_t side : {1, 2}) {
      guards.push_back({node.operands[0], side == 1});
      known = known && follow(node.operands[side], at, begin, end, guards);
      guards.pop_back();
    }
    return known;
  }

  bool follow_joined(const Node& node, int64_t at, int64_t begin, int64_t end, Guards& guards) {
    int64_t first = 0;  // row of the operand's
    for (const NodeId operand : node.operands) {
      const int64_t last = first + count_of(graph_[operand]);
      const int64_t from = std::max(begin, first);
      const int64_t to = std::min(end, last);
      if (from < to && !follow(operand, at + from - begin, from - first, to - first, guards)) {
        return false;
      }
      first = last;
    }
    return true;
  }

  /// The state's own.
  bool take_own(int64_t at, int64_t begin, int64_t end, const Guards& guards) {
    const bool keeps = at == begin;
    if (!keeps && at != begin + 1) return false;
    NodeId valid = kNoNode;
    NodeId reset = kNoNode;
    for (const Guard& guard : guards) {
      const Node& mask = graph_[guard.mask];
      const bool of_resets = mask.op == Op::Reset && mask.delay == 0 && !keeps && !guard.holds &&
                             (mask.decl != 0) == graph_.states[state_].reversed;
      const bool of_lengths = mask.op == Op::Valid && guard.holds != keeps;
      if (!of_resets && !of_lengths) return false;
      (of_resets ? reset : valid) = guard.mask;
    }
    const bool is_first = std::ranges::none_of(rows_.moved, std::identity());
    if (!agrees(rows_.valid, valid, is_first && !any_kept())) return false;
    if (!keeps && !agrees(rows_.reset, reset, is_first)) return false;
    std::vector<bool>& rows = keeps ? rows_.kept : rows_.moved;
    for (int64_t row = at; row < at + end - begin; ++row) {
      if (rows[row]) return false;
      rows[row] = true;
    }
    return true;
  }

  bool any_kept() const { return std::ranges::any_of(rows_.kept, std::identity()); }

  bool agrees(NodeId& known, NodeId mask, bool is_first) const {
    if (is_first) known = mask;
    if (known == kNoNode || mask == kNoNode) return known == mask;
    return is_same_mask(known, mask);
  }

  const Graph& graph_;
  const uint32_t state_;
  Rows rows_;
};

class Parting {
 public:
  Parting(Graph& graph, std::vector<StatePart>& parts) : graph_(graph), parts_(parts) {}

  void run(uint32_t state) {
    if (!find(state)) return;
    rebuild_with_reads();
    for (size_t part = 0; part < begins_.size(); ++part) declare(part);
  }

 private:
  bool find(uint32_t state) {
    const StateDecl& decl = graph_.states[state];
    if (decl.type.shape.empty() || !is_zero(graph_, decl.init)) return false;
    std::optional<Rows> rows = RowFinder(graph_, state).find();
    if (!rows) return false;
    state_ = state;
    rows_ = *std::move(rows);
    count_ = *decl.type.shape[0].constant();
    for (const auto& [row, news] : rows_.news) {
      begins_.push_back(row);
      const bool masked =
          std::ranges::all_of(news, [this](const NewRow& one) { return is_masked(one); });
      if (!masked) return false;
    }
    const bool few = 2 * std::ssize(begins_) <= count_;
    return begins_.size() > 1 && begins_[0] == 0 && few && is_read_by_rows();
  }

  /// With lengths, by these.
  bool is_masked(const NewRow& row) const {
    if (rows_.valid == kNoNode) return true;
    return std::ranges::any_of(row.guards, [this](const Guard& g) { return is_valid(g); });
  }
  bool is_valid(const Guard& guard) const {
    return guard.holds && graph_[guard.mask].op == Op::Valid &&
           graph_[guard.mask].decl == graph_[rows_.valid].decl;
  }

  bool is_read(NodeId id) const { return graph_[id].op == Op::State && graph_[id].decl == state_; }

  /// Whether nothing else has several of the state's rows.
  bool is_read_by_rows() const {
    const auto is_whole = [this](NodeId id) { return is_read(id) || rows_.wholes.contains(id); };
    for (NodeId id = 0; id < graph_.nodes.size(); ++id) {
      const Node& node = graph_[id];
      if (is_whole(id)) continue;
      for (const NodeId operand : node.operands) {
        if (is_whole(operand) && (node.op != Op::Index || !is_read(operand))) return false;
      }
    }
    const auto none = [&](const auto& decls) {
      return std::ranges::none_of(decls, [&](const auto& decl) { return is_whole(decl.value); });
    };
    for (uint32_t s = 0; s < graph_.states.size(); ++s) {
      if (s != state_ && is_whole(graph_.states[s].next)) return false;
    }
    return none(graph_.outputs) && none(graph_.results);
  }

  int64_t count_of_part(size_t part) const {
    return (part + 1 < begins_.size() ? begins_[part + 1] : count_) - begins_[part];
  }
  Type type_of_part(size_t part) const {
    Type type = type_;
    if (count_of_part(part) > 1) type.shape.insert(type.shape.begin(), count_of_part(part));
    return type;
  }
  uint32_t state_of_part(size_t part) const {
    return part == 0 ? state_ : static_cast<uint32_t>(first_ + part - 1);
  }

  void rebuild_with_reads() {
    first_ = graph_.states.size();
    type_ = graph_.states[state_].type;
    type_.shape.erase(type_.shape.begin());
    renumbered_.assign(graph_.nodes.size(), kNoNode);
    std::vector<bool> is_whole(graph_.nodes.size(), false);
    for (NodeId id = 0; id < graph_.nodes.size(); ++id) {
      is_whole[id] = is_read(id) || rows_.wholes.contains(id);
    }
    std::vector<NodeId> of_index(graph_.nodes.size(), kNoNode);
    for (NodeId id = 0; id < graph_.nodes.size(); ++id) {
      if (graph_[id].op == Op::Index) of_index[id] = graph_[id].operands[0];
    }
    rebuild(graph_, all_nodes(graph_), [&](Node node, NodeId id, const auto&) {
      NodeId result = kNoNode;
      if (is_whole[id]) {
        result = read_parts(node.location);
      } else if (of_index[id] != kNoNode && is_whole[of_index[id]]) {
        result = row_of_part(*node.begin.constant(), node.location);
      } else {
        result = append_node(graph_, std::move(node));
      }
      return renumbered_[id] = result;
    });
    for (StatePart& part : parts_) {
      if (part.is_part()) part.newest = renumbered_[part.newest];
    }
  }

  /// The first time. Nothing reads what stands for the whole.
  NodeId read_parts(SourceLocation location) {
    for (size_t part = 0; part < begins_.size() && reads_.size() < begins_.size(); ++part) {
      reads_.push_back(append_node(graph_, {.op = Op::State,
                                            .type = type_of_part(part),
                                            .operands = {},
                                            .decl = state_of_part(part),
                                            .delay = 1,
                                            .location = location}));
    }
    return reads_[0];
  }

  NodeId row_of_part(int64_t row, SourceLocation location) {
    const auto next = std::ranges::upper_bound(begins_, row);
    const auto part = static_cast<size_t>(next - begins_.begin()) - 1;
    if (count_of_part(part) == 1) return reads_[part];
    return graph_.index(reads_[part], row - begins_[part], location);
  }

  void declare(size_t part) {
    StateDecl state = graph_.states[state_];
    const SourceLocation location = state.location;
    const int64_t begin = begins_[part];
    const int64_t count = count_of_part(part);
    const NodeId newest = newest_of(part, location);
    NodeId next = newest;
    if (count > 1) {
      const NodeId rest = graph_.slice(reads_[part], 0, count - 1, location);
      const NodeId first = graph_.apply(Op::Stack, {newest}, location);
      next = graph_.apply(Op::Concat, {first, unless_reset(rest, location)}, location);
    }
    if (rows_.valid != kNoNode) {
      const NodeId valid = renumbered_[rows_.valid];
      next = graph_.apply(Op::Where, {valid, next, reads_[part]}, location);
    }
    if (part > 0) {
      state.name = fmt::format("{}.{}", state.name, begin);
      graph_.states.push_back(state);
      parts_.emplace_back();
    }
    StateDecl& declared = graph_.states[state_of_part(part)];
    declared.type = type_of_part(part);
    declared.init = graph_.constant(0, location);
    declared.next = next;
    const int64_t elements = element_count(type_.shape);
    parts_[state_of_part(part)] = {.of = state_,
                                   .before = begin * elements,
                                   .after = (count_ - begin - count) * elements,
                                   .newest = newest,
                                   .count = count,
                                   .is_hidden = rows_.reset != kNoNode};
  }

  /// What falls to the part, and behind it, in their order, what is new.
  NodeId newest_of(size_t part, SourceLocation location) {
    const int64_t begin = begins_[part];
    NodeId sum = kNoNode;
    if (part > 0) sum = unless_reset(row_of_part(begin - 1, location), location);
    for (const NewRow& row : rows_.news[begin]) {
      NodeId value = renumbered_[row.value];
      if (row.row) value = graph_.index(value, *row.row, location);
      for (const Guard& guard : row.guards) value = guarded(value, guard, location);
      sum = sum == kNoNode ? value : graph_.apply(Op::Add, {sum, value}, location);
    }
    return sum;
  }

  NodeId guarded(NodeId value, const Guard& guard, SourceLocation location) {
    const NodeId mask = renumbered_[guard.mask];
    const NodeId zero = graph_.constant(0, location);
    const bool of_lengths = guard.holds && graph_[mask].op == Op::Valid;
    // Else the state is left as it is.
    if (of_lengths && rows_.valid != kNoNode) return value;
    return guard.holds ? graph_.apply(Op::Where, {mask, value, zero}, location)
                       : graph_.apply(Op::Where, {mask, zero, value}, location);
  }

  NodeId unless_reset(NodeId value, SourceLocation location) {
    if (rows_.reset == kNoNode) return value;
    const NodeId zero = graph_.constant(0, location);
    return graph_.apply(Op::Where, {renumbered_[rows_.reset], zero, value}, location);
  }

  Graph& graph_;
  std::vector<StatePart>& parts_;
  uint32_t state_ = 0;
  Rows rows_;
  int64_t count_ = 0;            // the state's rows
  std::vector<int64_t> begins_;  // of parts
  Type type_;                    // of a row
  size_t first_ = 0;             // of the states that are parts but the first one
  std::vector<NodeId> renumbered_;
  std::vector<NodeId> reads_;  // per part
};

}  // namespace

std::vector<StatePart> part_histories(Graph& graph) {
  std::vector<StatePart> parts;
  for (uint32_t s = 0; s < graph.states.size(); ++s) parts.push_back({.of = s});
  const auto count = static_cast<uint32_t>(parts.size());
  for (uint32_t s = 0; s < count && graph.descending; ++s) Parting(graph, parts).run(s);
  return parts;
}

}  // namespace rnnc
