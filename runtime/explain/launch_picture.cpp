// 1. Give each launch a node.
// 2. What a launch reads comes from the launches before it that write it at the same step; else it
//    is a leaf: an input, params, or a value of an earlier step, which what writes it reaches
//    through time.
// 3. Each output of the call gets a node behind the launch that writes it.
// 4. Order the nodes so that each comes before those that use it, and what a layer or a turn of a
//    loop has for itself is together: in the order of launches, each behind what it alone reads.
// 5. Launches that compute the same lines of the text are marked alike, and so is what they read.
#include "runtime/explain/launch_picture.h"

#include <algorithm>
#include <map>

#include "runtime/explain/repeats.h"

namespace rnnc::explain {
namespace {

using Kind = GraphPicture::Kind;

Kind kind_of(const LaunchInfo& info) {
  switch (info.looks) {
    case LaunchWords::Looks::Product:
      return Kind::Product;
    case LaunchWords::Looks::Elementwise:
      return Kind::Elementwise;
    case LaunchWords::Looks::Structure:
      break;
  }
  return Kind::Structure;
}

std::string key_of(const Stage& stage) {
  if (stage.recurrence != RecurrenceClass::None) return stage.name;
  if (stage.domain == Domain::Last) return "last";
  return stage.domain == Domain::Once ? "once" : "parallel";
}

/// "[2048, 512]" for the weights of a product, else "[512]".
std::string shape_of(const Touch& touch) {
  return touch.k == 1 ? fmt::format("[{}]", touch.count)
                      : fmt::format("[{}, {}]", touch.count / touch.k, touch.k);
}

bool is_leaf(Kind kind) {
  return kind == Kind::Param || kind == Kind::Input || kind == Kind::State;
}

class LaunchPicture {
 public:
  LaunchPicture(const Plan& plan, const LaunchDescriber& describer, const LaunchLines& lines)
      : plan_(plan), describer_(describer), lines_(lines) {}

  GraphPicture run() {
    for (size_t at = 0; at < plan_.stages.size(); ++at) {
      const Stage& stage = plan_.stages[at];
      for (size_t number = 0; number < stage.launches.size(); ++number) {
        const Launch& launch = stage.launches[number];
        const LaunchInfo info = describer_.describe(stage, launch);
        if (stage.domain == Domain::Once && info.arranges) continue;
        const uint32_t node = add_launch(stage, launch, info);
        picture_.nodes[node].launch = fmt::format("{}.{}", at + 1, number + 1);
        const std::vector<std::string> lines =
            lines_.of(describer_.touches_of_step(stage, launch), info.weights);
        marks_[node] =
            fmt::format("{} {} {}", info.kind, stage.domain == Domain::Once, fmt::join(lines, " "));
      }
    }
    for (const auto& [buffer, leaf] : pending_) {
      for (const Writer& writer : writers_[buffer]) add_edge(writer.node, leaf, true);
    }
    mark_leaves();
    return in_order();
  }

 private:
  struct Writer {
    uint32_t node = 0;
    int64_t begin = 0;  // columns
    int64_t end = 0;
  };

  uint32_t add_node(Kind kind, std::string label, std::string detail, std::string stage) {
    picture_.nodes.push_back({kind, std::move(label), std::move(detail), std::move(stage)});
    marks_.emplace_back();
    return static_cast<uint32_t>(picture_.nodes.size() - 1);
  }

  void add_edge(uint32_t from, uint32_t to, bool through_time) {
    const GraphPicture::Edge edge{from, to, through_time};
    if (std::ranges::find(picture_.edges, edge) == picture_.edges.end()) {
      picture_.edges.push_back(edge);
    }
  }

  uint32_t add_launch(const Stage& stage, const Launch& launch, const LaunchInfo& info) {
    const std::string key = key_of(stage);
    const uint32_t node = add_node(kind_of(info), join_names(info.writes), info.summary, key);
    const std::vector<Touch> all = describer_.outer_touches(stage, launch);
    for (const Touch& touch : all) {
      if (!touch.write) add_read(stage, touch, shape_of(touch), node);
    }
    for (const Touch& touch : all) {
      if (touch.write) add_write(key, touch, node);
    }
    return node;
  }

  void add_read(const Stage& stage, const Touch& touch, const std::string& shape, uint32_t node) {
    const Access& access = touch.access;
    const Buffer& buffer = plan_.buffers[access.buffer];
    const int64_t end = access.column + touch.count;
    bool found = false;
    if (describer_.delay(stage, access) == 0) {
      for (const Writer& writer : writers_[access.buffer]) {
        if (writer.begin >= end || writer.end <= access.column) continue;
        add_edge(writer.node, node, false);
        found = true;
      }
    }
    if (found) return;
    const std::string label = describer_.value(stage, access, touch.count);
    const std::string key = key_of(stage);
    const bool param = buffer.extent == Extent::Invariant;
    const bool input = !param && buffer.role == Role::Input;
    auto [leaf, is_new] = leaves_.try_emplace({access.buffer, label, param ? "" : key});
    if (is_new) {
      const Kind kind = param ? Kind::Param : input ? Kind::Input : Kind::State;
      const std::string stage_key = param ? "once" : input ? "parallel" : key;
      leaf->second = add_node(kind, label, shape, stage_key);
      if (kind == Kind::State) pending_.emplace_back(access.buffer, leaf->second);
    }
    add_edge(leaf->second, node, false);
  }

  void add_write(const std::string& key, const Touch& touch, uint32_t node) {
    const Access& access = touch.access;
    const Buffer& buffer = plan_.buffers[access.buffer];
    writers_[access.buffer].push_back({node, access.column, access.column + touch.count});
    if (buffer.role != Role::Output) return;
    auto [output, is_new] = outputs_.try_emplace(access.buffer);
    if (is_new) {
      output->second = add_node(Kind::Output, buffer.name, fmt::format("[{}]", buffer.width), key);
    }
    add_edge(node, output->second, false);
  }

  /// A leaf is marked as those that read it. What launches of the same mark read is common to
  /// turns, and what no other leaf is like only the first one reads: those have no mark.
  void mark_leaves() {
    std::vector<std::vector<std::string>> readers(marks_.size());
    for (const GraphPicture::Edge& edge : picture_.edges) {
      if (is_leaf(picture_.nodes[edge.from].kind)) readers[edge.from].push_back(marks_[edge.to]);
    }
    std::map<std::string, std::vector<uint32_t>> alike;
    for (uint32_t id = 0; id < marks_.size(); ++id) {
      std::vector<std::string>& of_leaf = readers[id];
      std::ranges::sort(of_leaf);
      const bool common = std::ranges::adjacent_find(of_leaf) != of_leaf.end();
      if (of_leaf.empty() || common) continue;
      const std::string_view kind = name_of(picture_.nodes[id].kind);
      alike[fmt::format("{} of {}", kind, fmt::join(of_leaf, ", "))].push_back(id);
    }
    for (const auto& [mark, leaves] : alike) {
      if (leaves.size() == 1) continue;
      for (const uint32_t leaf : leaves) marks_[leaf] = mark;
    }
  }

  /// Unmarked leaves first, then launches, outputs last.
  GraphPicture in_order() const {
    const auto count = static_cast<uint32_t>(picture_.nodes.size());
    std::vector<std::vector<uint32_t>> operands(count);
    for (const GraphPicture::Edge& edge : picture_.edges) {
      if (!edge.through_time) operands[edge.to].push_back(edge.from);
    }
    std::vector<uint32_t> place(count, count);
    std::vector<uint32_t> order;
    const auto add = [&](auto& self, uint32_t id) -> void {
      if (place[id] != count) return;
      for (const uint32_t operand : operands[id]) self(self, operand);
      place[id] = static_cast<uint32_t>(order.size());
      order.push_back(id);
    };
    const auto add_all = [&](auto chosen) {
      for (uint32_t id = 0; id < count; ++id) {
        if (chosen(picture_.nodes[id], marks_[id])) add(add, id);
      }
    };
    using Node = GraphPicture::Node;
    add_all([](const Node& node, const std::string& mark) {
      return is_leaf(node.kind) && mark.empty();
    });
    // What runs once a call comes with the launch that reads it.
    add_all([](const Node& node, const std::string&) {
      return node.kind != Kind::Output && !is_leaf(node.kind) && node.stage != "once";
    });
    add_all([](const Node& node, const std::string&) { return node.kind != Kind::Output; });
    add_all([](const Node&, const std::string&) { return true; });
    GraphPicture sorted;
    std::vector<std::string> marks;
    for (const uint32_t id : order) {
      sorted.nodes.push_back(picture_.nodes[id]);
      marks.push_back(marks_[id]);
    }
    for (const GraphPicture::Edge& edge : picture_.edges) {
      sorted.edges.push_back({place[edge.from], place[edge.to], edge.through_time});
    }
    find_repeats(sorted, marks);
    return sorted;
  }

  const Plan& plan_;
  const LaunchDescriber& describer_;
  const LaunchLines& lines_;
  GraphPicture picture_;
  std::vector<std::string> marks_;  // of its nodes, for find_repeats
  std::map<BufferId, std::vector<Writer>> writers_;
  std::map<std::tuple<BufferId, std::string, std::string>, uint32_t> leaves_;
  std::map<BufferId, uint32_t> outputs_;
  std::vector<std::pair<BufferId, uint32_t>> pending_;  // leaves of earlier steps
};

}  // namespace

GraphPicture picture_of(const Plan& plan, const LaunchDescriber& describer,
                        const LaunchLines& lines) {
  return LaunchPicture(plan, describer, lines).run();
}

}  // namespace rnnc::explain
