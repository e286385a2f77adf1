// 1. Give each launch a node.
// 2. What a launch reads comes from the launches before it that write it at the same step; else it
//    is a leaf: an input, params, or a value of an earlier step, which what writes it reaches
//    through time.
// 3. Each output of the call gets a node behind the launch that writes it.
// 4. Order the nodes so that each comes before those that use it.
#include "runtime/explain/launch_picture.h"

#include <algorithm>
#include <map>

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

class LaunchPicture {
 public:
  LaunchPicture(const Plan& plan, const LaunchDescriber& describer)
      : plan_(plan), describer_(describer) {}

  GraphPicture run() {
    for (size_t at = 0; at < plan_.stages.size(); ++at) {
      const Stage& stage = plan_.stages[at];
      for (size_t number = 0; number < stage.launches.size(); ++number) {
        const Launch& launch = stage.launches[number];
        const LaunchInfo info = describer_.describe(stage, launch);
        if (stage.domain == Domain::Once && info.arranges) continue;
        const uint32_t node = add_launch(stage, launch, info);
        picture_.nodes[node].launch = fmt::format("{}.{}", at + 1, number + 1);
      }
    }
    for (const auto& [buffer, leaf] : pending_) {
      for (const Writer& writer : writers_[buffer]) add_edge(writer.node, leaf, true);
    }
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

  /// Leaves first, then launches, then outputs.
  GraphPicture in_order() const {
    const auto rank = [&](uint32_t id) {
      const Kind kind = picture_.nodes[id].kind;
      const bool leaf = kind == Kind::Param || kind == Kind::Input || kind == Kind::State;
      return leaf ? 0 : kind == Kind::Output ? 2 : 1;
    };
    std::vector<uint32_t> order(picture_.nodes.size());
    for (uint32_t i = 0; i < order.size(); ++i) order[i] = i;
    std::ranges::stable_sort(order, {}, rank);
    std::vector<uint32_t> place(order.size());
    GraphPicture sorted;
    for (uint32_t i = 0; i < order.size(); ++i) {
      place[order[i]] = i;
      sorted.nodes.push_back(picture_.nodes[order[i]]);
    }
    for (const GraphPicture::Edge& edge : picture_.edges) {
      sorted.edges.push_back({place[edge.from], place[edge.to], edge.through_time});
    }
    return sorted;
  }

  const Plan& plan_;
  const LaunchDescriber& describer_;
  GraphPicture picture_;
  std::map<BufferId, std::vector<Writer>> writers_;
  std::map<std::tuple<BufferId, std::string, std::string>, uint32_t> leaves_;
  std::map<BufferId, uint32_t> outputs_;
  std::vector<std::pair<BufferId, uint32_t>> pending_;  // leaves of earlier steps
};

}  // namespace

GraphPicture picture_of(const Plan& plan, const LaunchDescriber& describer) {
  return LaunchPicture(plan, describer).run();
}

}  // namespace rnnc::explain
