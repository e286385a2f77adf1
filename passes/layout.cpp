// 1. The caller's buffers: inputs, params, outputs, initial and final states.
// 2. States: a history of as many steps as the greatest delay, at least one, in the compute type.
// If
//    products read the state and take another type, a history in that type too.
// 3. Leaves lie in those buffers. A value that becomes a state's is found in the state's history.
// 4. Each product group gets a buffer for its results side by side.
// 5. Each other value that leaves its kernel gets a buffer: one for kernels, one for products if
//    they take another type. It holds one step if only its own recurrence uses it, else a chunk.
// 6. Weights are read where they are, except that several are stacked, and that recurrences read
//    resident ones only.
// 7. Resident are buffers of Once stages and those that products of recurrences touch, because
//    captured graphs need fixed addresses. All others go to the workspace.
#include "passes/layout.h"

#include <algorithm>
#include <map>

namespace rnnc {
namespace {

constexpr int64_t kAlignment = 256;
constexpr int64_t kMostBytes = int64_t{1} << 50;

/// What the schedule does with a value outside the kernel that computes it.
struct Uses {
  bool loaded = false;        // by kernels
  bool multiplied = false;    // by products
  bool other_stages = false;  // by launches of another stage
};

class LayoutBuilder {
 public:
  LayoutBuilder(const Graph& graph, const Dependence& dependence, const Schedule& schedule,
                size_t caller_states, Plan& plan)
      : graph_(graph),
        dependence_(dependence),
        schedule_(schedule),
        caller_states_(caller_states),
        plan_(plan),
        narrow_(plan.dtype != compute_type(plan.dtype)),
        uses_(graph.nodes.size()) {
    layout_.compute.resize(graph.nodes.size());
    layout_.storage.resize(graph.nodes.size());
    layout_.weight.resize(graph.nodes.size());
    layout_.temporaries.resize(graph.nodes.size());
    layout_.results.resize(graph.nodes.size());
  }

  Result<Layout> run() {
    find_uses();
    add_caller_buffers();
    for (uint32_t state = 0; state < graph_.states.size(); ++state) add_state(state);
    for (NodeId id = 0; id < graph_.nodes.size(); ++id) place_leaf(id);
    for (const ScheduledStage& stage : schedule_.stages) {
      for (const Group& group : stage.groups) {
        if (const auto* product = std::get_if<ProductGroup>(&group)) place_product(*product);
      }
    }
    for (NodeId id = 0; id < graph_.nodes.size(); ++id) place_computed(id);
    for (const ScheduledStage& stage : schedule_.stages) {
      for (const Group& group : stage.groups) {
        if (const auto* product = std::get_if<ProductGroup>(&group))
          place_operands(stage, *product);
      }
    }
    if (Status status = assign_offsets(); !status) return tl::unexpected(status.error());
    return std::move(layout_);
  }

 private:
  // ---- Uses ----

  void find_uses() {
    for (uint32_t stage = 0; stage < schedule_.stages.size(); ++stage) {
      for (const Group& group : schedule_.stages[stage].groups) {
        std::visit([&](const auto& g) { find_uses(stage, g); }, group);
      }
    }
    for (const StateDecl& state : graph_.states) uses_[state.init].loaded = true;
  }

  void find_uses(uint32_t stage, const ProductGroup& group) {
    use(stage, group.left).multiplied = true;
    for (const ProductGroup::Member& member : group.members) {
      use(stage, member.weight).multiplied = true;
    }
  }

  void find_uses(uint32_t stage, const FusedGroup& group) {
    for (NodeId id : group.nodes) {
      for (NodeId operand : graph_[id].operands) {
        if (!std::ranges::binary_search(group.nodes, operand)) use(stage, operand).loaded = true;
      }
    }
    for (NodeId id : group.copies) use(stage, id).loaded = true;
  }

  Uses& use(uint32_t stage, NodeId id) {
    uses_[id].other_stages = uses_[id].other_stages || schedule_.stage[id] != stage;
    return uses_[id];
  }

  // ---- Buffers ----

  BufferId add_buffer(Buffer buffer) {
    plan_.buffers.push_back(std::move(buffer));
    return static_cast<BufferId>(plan_.buffers.size() - 1);
  }

  BufferId add_caller_buffer(const std::string& name, DType dtype, Role role, Extent extent,
                             size_t slot, const Type& type) {
    return add_buffer({name, dtype, Placement::Caller, role, extent, static_cast<uint32_t>(slot),
                       element_count(type.shape), 0, 0});
  }

  BufferId add_temporary(std::string name, DType dtype, Extent extent, int64_t width,
                         uint32_t history = 0) {
    const Placement placement =
        extent == Extent::Invariant ? Placement::Resident : Placement::Workspace;
    return add_buffer(
        {std::move(name), dtype, placement, Role::Temporary, extent, 0, width, history, 0});
  }

  /// One step is enough for values of a recurrence that nothing outside it uses.
  Extent extent_of(NodeId id) const {
    if (dependence_.variation[id] == Variation::Invariant) return Extent::Invariant;
    const bool local =
        schedule_.stages[schedule_.stage[id]].domain == Domain::Step && !uses_[id].other_stages;
    return local ? Extent::Batch : Extent::Chunk;
  }

  Access access(BufferId id, int64_t column = 0, uint32_t delay = 0) const {
    const Buffer& buffer = plan_.buffers[id];
    return {id, delay, column, buffer.extent == Extent::Invariant ? 0 : buffer.width};
  }

  void add_caller_buffers() {
    for (size_t i = 0; i < graph_.inputs.size(); ++i) {
      inputs_.push_back(add_caller_buffer(graph_.inputs[i].name, plan_.dtype, Role::Input,
                                          Extent::Steps, i, graph_.inputs[i].type));
    }
    for (size_t i = 0; i < graph_.params.size(); ++i) {
      params_.push_back(add_caller_buffer(graph_.params[i].name, plan_.dtype, Role::Param,
                                          Extent::Invariant, i, graph_.params[i].type));
    }
    for (size_t i = 0; i < graph_.outputs.size(); ++i) {
      const NodeId value = graph_.outputs[i].value;
      const BufferId buffer = add_caller_buffer(graph_.outputs[i].name, plan_.dtype, Role::Output,
                                                Extent::Steps, i, graph_[value].type);
      layout_.results[value].push_back(access(buffer));
    }
    layout_.states.resize(graph_.states.size());
    for (size_t i = 0; i < caller_states_; ++i) {
      const StateDecl& state = graph_.states[i];
      const DType dtype = compute_type(plan_.dtype);
      layout_.states[i].initial =
          add_caller_buffer(state.name, dtype, Role::InitialState, Extent::Batch, i, state.type);
      layout_.states[i].final =
          add_caller_buffer(state.name, dtype, Role::FinalState, Extent::Batch, i, state.type);
    }
  }

  void add_state(uint32_t index) {
    const StateDecl& state = graph_.states[index];
    const bool kept = dependence_.variation[state.next] != Variation::Invariant;
    uint32_t delay = 1;
    uint32_t product_delay = 0;
    bool multiplied = kept && uses_[state.next].multiplied;
    for (NodeId id = 0; id < graph_.nodes.size(); ++id) {
      if (graph_[id].op != Op::State || graph_[id].decl != index) continue;
      delay = std::max(delay, graph_[id].delay);
      if (!uses_[id].multiplied) continue;
      multiplied = true;
      product_delay = std::max(product_delay, graph_[id].delay);
    }

    Layout::StateBuffers& buffers = layout_.states[index];
    const int64_t width = element_count(state.type.shape);
    buffers.compute =
        add_temporary(state.name, compute_type(plan_.dtype), Extent::Chunk, width, delay);
    layout_.results[state.next].push_back(access(buffers.compute));
    if (!narrow_ || !multiplied) return;
    buffers.storage = add_temporary(state.name, plan_.dtype, Extent::Chunk, width, product_delay);
    layout_.results[state.next].push_back(access(buffers.storage));
  }

  // ---- Places of values ----

  void place_leaf(NodeId id) {
    const Node& node = graph_[id];
    if (node.op == Op::Input || node.op == Op::Param) {
      const BufferId buffer = node.op == Op::Input ? inputs_[node.decl] : params_[node.decl];
      layout_.compute[id] = layout_.storage[id] = access(buffer);
    } else if (node.op == Op::State) {
      const Layout::StateBuffers& buffers = layout_.states[node.decl];
      layout_.compute[id] = access(buffers.compute, 0, node.delay);
      layout_.storage[id] = layout_.compute[id];
      if (buffers.storage != kNoBuffer) {
        layout_.storage[id] = access(buffers.storage, 0, node.delay);
      }
    }
  }

  void place_product(const ProductGroup& group) {
    int64_t width = 0;
    Extent extent = Extent::Batch;
    for (const ProductGroup::Member& member : group.members) {
      width += member.n * group.rows;
      if (extent_of(member.node) != Extent::Batch) extent = extent_of(member.node);
    }
    const BufferId buffer =
        add_temporary(product_name(group), compute_type(plan_.dtype), extent, width);
    int64_t column = 0;
    for (const ProductGroup::Member& member : group.members) {
      layout_.compute[member.node] = access(buffer, column);
      if (!narrow_) layout_.storage[member.node] = layout_.compute[member.node];
      column += member.n;
    }
  }

  /// Values of kernels, and products' results that other products need in the storage type.
  void place_computed(NodeId id) {
    const Node& node = graph_[id];
    const bool leaf = node.op == Op::Input || node.op == Op::Param || node.op == Op::State ||
                      node.op == Op::Constant;
    if (leaf) return;
    place_in_history(id);
    const std::string name = fmt::format("{}.{}", info(node.op).name, id);
    if (layout_.compute[id].buffer == kNoBuffer &&
        (uses_[id].loaded || (uses_[id].multiplied && !narrow_))) {
      layout_.compute[id] = add_value(id, name, compute_type(plan_.dtype));
    }
    if (!uses_[id].multiplied || layout_.storage[id].buffer != kNoBuffer) return;
    layout_.storage[id] = narrow_ ? add_value(id, name, plan_.dtype) : layout_.compute[id];
  }

  /// A value that a kernel stores as a state's is read from there.
  void place_in_history(NodeId id) {
    if (dependence_.variation[id] == Variation::Invariant) return;
    for (size_t i = 0; i < graph_.states.size(); ++i) {
      if (graph_.states[i].next != id) continue;
      const Layout::StateBuffers& buffers = layout_.states[i];
      if (layout_.compute[id].buffer == kNoBuffer) {
        layout_.compute[id] = access(buffers.compute);
      }
      if (layout_.storage[id].buffer != kNoBuffer) continue;
      if (buffers.storage != kNoBuffer) layout_.storage[id] = access(buffers.storage);
    }
  }

  Access add_value(NodeId id, const std::string& name, DType dtype) {
    const int64_t width = element_count(graph_[id].type.shape);
    const Access place = access(add_temporary(name, dtype, extent_of(id), width));
    layout_.temporaries[id].push_back(place);
    return place;
  }

  // ---- Operands of products ----

  void place_operands(const ScheduledStage& stage, const ProductGroup& group) {
    const bool step = stage.domain == Domain::Step;
    const NodeId first = group.members[0].node;
    const Access& only = layout_.storage[group.members[0].weight];
    const bool in_place = group.members.size() == 1 &&
                          !(step && plan_.buffers[only.buffer].placement == Placement::Caller);
    layout_.weight[first] = in_place ? only : access(add_pack(group));
    if (!step) return;
    make_resident(layout_.storage[group.left].buffer);
    make_resident(layout_.compute[first].buffer);
  }

  void make_resident(BufferId buffer) {
    RNNC_CHECK(plan_.buffers[buffer].placement != Placement::Caller,
               "a recurrence multiplies the caller's '{}'", plan_.buffers[buffer].name);
    plan_.buffers[buffer].placement = Placement::Resident;
  }

  BufferId add_pack(const ProductGroup& group) {
    std::vector<NodeId> weights;
    std::string name;
    int64_t width = 0;
    for (const ProductGroup::Member& member : group.members) {
      weights.push_back(member.weight);
      name += (name.empty() ? "" : "|") + weight_name(member.weight);
      width += member.n * group.k;
    }
    const auto [found, fresh] = pack_of_weights_.emplace(weights, kNoBuffer);
    if (fresh) {
      found->second = add_temporary(name, plan_.dtype, Extent::Invariant, width);
      layout_.packs.push_back({found->second, weights});
    }
    return found->second;
  }

  std::string weight_name(NodeId id) const {
    return plan_.buffers[layout_.storage[id].buffer].name;
  }

  /// "products of x".
  std::string product_name(const ProductGroup& group) const {
    const Node& left = graph_[group.left];
    const std::string of = left.op == Op::Input   ? graph_.inputs[left.decl].name
                           : left.op == Op::State ? graph_.states[left.decl].name
                           : left.op == Op::Param
                               ? graph_.params[left.decl].name
                               : fmt::format("{}.{}", info(left.op).name, group.left);
    return "products of " + of;
  }

  // ---- Memory ----

  Status assign_offsets() {
    for (Buffer& buffer : plan_.buffers) {
      if (buffer.placement == Placement::Caller) continue;
      int64_t& end =
          buffer.placement == Placement::Resident ? plan_.resident_bytes : plan_.workspace_bytes;
      buffer.offset = end;
      const double bytes = 8.0 * static_cast<double>(buffer.width) *
                           static_cast<double>(plan_.chunk + buffer.history + 1) *
                           static_cast<double>(plan_.batch);
      if (bytes + static_cast<double>(end) > static_cast<double>(kMostBytes)) {
        return fail("batch {} needs more memory than any device has", plan_.batch);
      }
      end += (byte_size(plan_, buffer) + kAlignment - 1) / kAlignment * kAlignment;
    }
    return {};
  }

  const Graph& graph_;
  const Dependence& dependence_;
  const Schedule& schedule_;
  size_t caller_states_;
  Plan& plan_;
  bool narrow_;
  std::vector<Uses> uses_;  // per node
  std::vector<BufferId> inputs_, params_;
  std::map<std::vector<NodeId>, BufferId> pack_of_weights_;
  Layout layout_;
};

}  // namespace

Result<Layout> make_layout(const Graph& graph, const Dependence& dependence,
                           const Schedule& schedule, size_t caller_states, Plan& plan) {
  return LayoutBuilder(graph, dependence, schedule, caller_states, plan).run();
}

}  // namespace rnnc
