// 1. The caller's buffers: inputs, params, outputs, results, initial and final states. Params of
//    another type than the plan's have a place in that type, if products take them.
// 2. States: a history of one step, or of as many as are read, in the compute type. If products read
//    the state or what becomes of it and take another type, a buffer in that type too. States of a
//    loop have one row that is carried on, and these histories only if others read the state.
// 3. Leaves lie in those buffers, masks in one of their own. A value that becomes a state's is
//    found in the state's history. Views lie where their origin does.
// 4. Each product group with a launch of its own gets a buffer for its results side by side, of the
//    compute type, or of the plan's where recurrences alone read them.
// 5. Each other value that leaves its kernel gets a buffer: one for kernels, one for products if
//    they take another type. It holds one step if only its own stage, step by step, uses it, else a
//    chunk. Values that later sweeps use get such buffers of all steps, too. What is written to a
//    place of an assembly is its pieces.
// 6. Weights are read where they are, except that several are stacked, and that stages that run
//    step by step read the program's own only, and no transposed ones.
// 7. What totals add to, and what is computed after all steps, lies in the workspace.
// 8. In program memory are buffers of Once stages and those that products with launches of their
//    own touch step by step, because captured graphs need fixed addresses. Whole sequences they
//    multiply are copied chunk by chunk. All others go to the workspace.
#include "passes/lower/layout.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "ir/graph/sweeps.h"
#include "passes/lower/uses.h"

namespace rnnc {
namespace {

bool is_empty(const Access& access) {
  return access.buffer == kNoBuffer;
}

Layout::Place part_of(Layout::Place place, int64_t offset) {
  place.compute.column += offset;
  place.storage.column += offset;
  return place;
}

class LayoutBuilder {
 public:
  LayoutBuilder(const Graph& graph, const Dependence& dependence, const Schedule& schedule,
                const std::vector<StateSteps>& state_steps, const LayoutOptions& options,
                Plan& plan)
      : graph_(graph),
        dependence_(dependence),
        schedule_(schedule),
        values_(schedule.values),
        plan_(plan),
        state_steps_(state_steps),
        options_(options),
        narrow_(plan.dtype != compute_type(plan.dtype)),
        reads_of_state_(graph.states.size()),
        states_of_next_(graph.nodes.size()),
        after_(find_after(graph)),
        uses_(find_uses(graph, schedule, after_)) {
    layout_.places.resize(graph.nodes.size());
    layout_.kept.resize(graph.nodes.size());
    layout_.carried.resize(graph.nodes.size());
    layout_.left.resize(graph.nodes.size());
    layout_.weight.resize(graph.nodes.size());
    layout_.stores.resize(graph.nodes.size());
  }

  Layout run() {
    find_states();
    add_caller_buffers();
    for (uint32_t state = 0; state < graph_.states.size(); ++state) add_state(state);
    for (NodeId id = 0; id < graph_.nodes.size(); ++id) place_leaf(id);
    place_masks();
    for_each_product([this](GroupPlace, const ProductGroup& group, bool) {
      if (!group.accumulates) return;
      for (const ProductGroup::Member& member : group.members) summed_.insert(member.result);
    });
    for_each_product([this](GroupPlace place, const ProductGroup& group, bool fused) {
      if (!fused && !group.accumulates) place_product(place, group);
    });
    for (NodeId id = 0; id < graph_.nodes.size(); ++id) {
      place_value(id);
      place_kept(id);
    }
    for (const auto& [id, access] : results_) add_store(id, result_stage(id), access);
    for (const auto& [id, access] : last_results_) add_store(id, schedule_.last_stage(), access);
    for_each_product([this](GroupPlace place, const ProductGroup& group, bool fused) {
      place_weights(place.stage, group, fused);
      place_left(place.stage, group, fused);
    });
    return std::move(layout_);
  }

 private:
  /// Calls `visit(place, group, fused)`, `fused` telling whether it is part of the kernel there.
  template <typename Visit>
  void for_each_product(Visit visit) {
    for (uint32_t stage = 0; stage < schedule_.stages.size(); ++stage) {
      const std::vector<Group>& groups = schedule_.stages[stage].groups;
      for (size_t i = 0; i < groups.size(); ++i) {
        const GroupPlace place{stage, i};
        if (const auto* product = std::get_if<ProductGroup>(&groups[i])) {
          visit(place, *product, false);
        }
        const auto* kernel = std::get_if<FusedGroup>(&groups[i]);
        if (kernel == nullptr) continue;
        for (const ProductGroup& product : kernel->products) visit(place, product, true);
      }
    }
  }

  void find_states() {
    for (NodeId id = 0; id < graph_.nodes.size(); ++id) {
      if (graph_[id].op == Op::State) reads_of_state_[graph_[id].decl].push_back(id);
    }
    for (uint32_t i = 0; i < graph_.states.size(); ++i) {
      states_of_next_[graph_.states[i].next].push_back(i);
    }
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
                         bool after = false) {
    const Placement placement =
        extent == Extent::Invariant && !after ? Placement::Program : Placement::Workspace;
    return add_buffer({std::move(name), dtype, placement, Role::Temporary, extent, 0, width, 0, 0});
  }

  /// One step is enough for values of a stage that runs step by step and alone uses them.
  Extent extent_of(NodeId id) const {
    if (after_[id] == After::Batch) return Extent::Batch;
    const bool fixed = after_[id] == After::Steps;
    if (fixed || dependence_.variation[id] == Variation::Invariant) return Extent::Invariant;
    const bool local =
        schedule_.stages[schedule_.stage[id]].domain == Domain::Step && !uses_[id].other_stages;
    return local ? Extent::Batch : Extent::Chunk;
  }

  int64_t width_of(NodeId id) const { return element_count(graph_[id].type.shape); }

  Access access(BufferId id, int64_t column = 0, uint32_t delay = 0) const {
    const Buffer& buffer = plan_.buffers[id];
    return {id, delay, column, buffer.extent == Extent::Invariant ? 0 : buffer.width};
  }

  void add_caller_buffers() {
    for (size_t i = 0; i < graph_.inputs.size(); ++i) {
      const InputDecl& input = graph_.inputs[i];
      inputs_.push_back(add_caller_buffer(input.name, input.integer ? DType::i32 : plan_.dtype,
                                          Role::Input, Extent::Steps, i, input.type));
    }
    for (size_t i = 0; i < graph_.params.size(); ++i) {
      params_.push_back(add_caller_buffer(graph_.params[i].name, options_.param_dtype, Role::Param,
                                          Extent::Invariant, i, graph_.params[i].type));
    }
    for (size_t i = 0; i < graph_.outputs.size(); ++i) {
      const NodeId value = graph_.outputs[i].value;
      const BufferId buffer = add_caller_buffer(graph_.outputs[i].name, plan_.dtype, Role::Output,
                                                Extent::Steps, i, graph_[value].type);
      results_.emplace_back(value, access(buffer));
    }
    for (size_t i = 0; i < graph_.results.size(); ++i) {
      const NodeId value = graph_.results[i].value;
      const bool of_batch = after_[value] == After::Batch;
      const BufferId buffer = add_caller_buffer(
          graph_.results[i].name, of_batch ? compute_type(plan_.dtype) : options_.param_dtype,
          Role::Result, of_batch ? Extent::Batch : Extent::Invariant, i, graph_[value].type);
      last_results_.emplace_back(value, access(buffer));
    }
    layout_.states.resize(graph_.states.size());
    for (size_t i = 0; i < graph_.states.size(); ++i) {
      const StateDecl& state = graph_.states[i];
      const DType dtype = compute_type(plan_.dtype);
      const StateSteps& steps = state_steps_[i];
      Layout::StateBuffers& buffers = layout_.states[i];
      buffers.steps = steps;
      if (steps.of != i) {
        buffers.initial = layout_.states[steps.of].initial;
        buffers.final = layout_.states[steps.of].final;
        continue;
      }
      buffers.initial =
          add_caller_buffer(state.name, dtype, Role::InitialState, Extent::Batch, i, state.type);
      buffers.final =
          add_caller_buffer(state.name, dtype, Role::FinalState, Extent::Batch, i, state.type);
      for (const BufferId id : {buffers.initial, buffers.final}) {
        int64_t& width = plan_.buffers[id].width;
        width = steps.before + steps.count * width + steps.after;
      }
    }
  }

  void add_state(uint32_t index) {
    const StateDecl& state = graph_.states[index];
    const DType compute = compute_type(plan_.dtype);
    Uses read;
    Layout::StateBuffers& buffers = layout_.states[index];
    for (NodeId id : reads_of_state_[index]) {
      read.loaded = read.loaded || uses_[id].loaded;
      read.multiplied = read.multiplied || uses_[id].multiplied;
      if (!schedule_.stages[schedule_.stage[id]].loop) continue;
      const int64_t newest = buffers.steps.newest() * element_count(state.type.shape);
      if (buffers.carry == kNoBuffer) {
        buffers.carry = add_carry(state, buffers.steps.count);
        results_.emplace_back(state.next, access(buffers.carry, newest));
      }
      layout_.carried[id] = access(buffers.carry, newest);
    }
    const bool varies = dependence_.variation[state.next] != Variation::Invariant;
    const bool carried = buffers.carry != kNoBuffer;
    const bool next_multiplied =
        !carried && varies && is_stored(state.next) && uses_[state.next].multiplied;
    if (!carried || buffers.steps.count > 1 || read.loaded || (read.multiplied && !narrow_)) {
      buffers.compute = add_history(state, compute, buffers.steps.count);
    }
    if (narrow_ && (read.multiplied || next_multiplied)) {
      buffers.storage = add_history(state, plan_.dtype, read.multiplied ? buffers.steps.count : 0);
    }
  }

  BufferId add_carry(const StateDecl& state, int64_t steps) {
    return add_temporary(state.name, compute_type(plan_.dtype), Extent::Batch,
                         steps * element_count(state.type.shape));
  }

  BufferId add_history(const StateDecl& state, DType dtype, int64_t history) {
    const BufferId id =
        add_temporary(state.name, dtype, Extent::Chunk, element_count(state.type.shape));
    plan_.buffers[id].history = static_cast<uint32_t>(history);
    plan_.buffers[id].sweep = schedule_.sweep_of(state.next);
    results_.emplace_back(state.next, access(id));
    return id;
  }

  // ---- Places of values ----

  void place_leaf(NodeId id) {
    const Node& node = graph_[id];
    Layout::Place& place = layout_.places[id];
    if (node.op == Op::Input || node.op == Op::Param) {
      const BufferId buffer = node.op == Op::Input ? inputs_[node.decl] : params_[node.decl];
      place = {access(buffer), access(buffer)};
      const bool other = plan_.buffers[buffer].dtype != plan_.dtype;
      if (other && uses_[id].multiplied) place.storage = add_rounded(id, place.compute);
    } else if (node.op == Op::State) {
      const Layout::StateBuffers& buffers = layout_.states[node.decl];
      const BufferId storage = buffers.storage == kNoBuffer ? buffers.compute : buffers.storage;
      if (buffers.compute != kNoBuffer) place.compute = access(buffers.compute, 0, node.delay);
      if (storage != kNoBuffer) place.storage = access(storage, 0, node.delay);
    } else if (node.op == Op::Final) {
      place.compute = access(layout_.states[node.decl].final);
    }
  }

  /// A param in the type in which products take it.
  Access add_rounded(NodeId id, const Access& param) {
    const Access rounded =
        access(add_temporary(name_of(id), plan_.dtype, Extent::Invariant, width_of(id)));
    layout_.rounded.push_back({id, param, rounded});
    return rounded;
  }

  /// One for each sweep that reads them: each makes its own.
  void place_masks() {
    for (const ScheduledStage& stage : schedule_.stages) {
      for (const Group& group : stage.groups) {
        const auto* move = std::get_if<MoveGroup>(&group);
        if (move == nullptr || !is_mask(graph_[move->node].op)) continue;
        layout_.masks[{move->node, stage.sweep}] =
            access(add_temporary(name_of(move->node), compute_type(plan_.dtype), Extent::Chunk, 1));
      }
    }
  }

  /// A sum of several products stays in the compute type.
  bool is_narrow(GroupPlace place, const ProductGroup& group) const {
    if (!narrow_ || !options_.narrow_products) return false;
    return schedule_.product_readers.contains(place) &&
           std::ranges::none_of(group.members, [&](const ProductGroup::Member& member) {
             return summed_.contains(member.result);
           });
  }

  void place_product(GroupPlace at, const ProductGroup& group) {
    int64_t width = 0;
    Extent extent = Extent::Batch;
    for (const ProductGroup::Member& member : group.members) {
      width += member.n * group.rows * group.blocks;
      if (extent_of(member.result) != Extent::Batch) extent = extent_of(member.result);
    }
    const DType dtype = is_narrow(at, group) ? plan_.dtype : compute_type(plan_.dtype);
    const BufferId buffer = add_temporary("products of " + name_of(group.left), dtype, extent,
                                          width, is_after(group.members[0].node));
    int64_t column = 0;
    for (const ProductGroup::Member& member : group.members) {
      Layout::Place& place = layout_.places[member.result];
      place.compute = access(buffer, column);
      if (!narrow_) place.storage = place.compute;
      column += member.n * group.blocks;
    }
  }

  bool is_after(NodeId id) const { return after_[id] != After::Nothing; }

  /// Whether kernels fill the places of a value.
  bool is_stored(NodeId id) const {
    const ValueKind kind = values_.kind[id];
    return kind != ValueKind::Leaf && kind != ValueKind::View && kind != ValueKind::Moved;
  }

  /// What kernels store, products' results that other products need in the storage type included,
  /// and moves.
  void place_value(NodeId id) {
    if (!is_stored(id)) {
      if (values_.kind[id] == ValueKind::Moved) place_move(id);
      return;
    }
    place_in_history(id);
    Layout::Place& place = layout_.places[id];
    const Uses& uses = uses_[id];
    if (is_empty(place.compute) && (uses.loaded || (uses.multiplied && !narrow_))) {
      place.compute = add_value(id, compute_type(plan_.dtype), extent_of(id));
    }
    if (!uses.multiplied || !is_empty(place.storage)) return;
    place.storage = narrow_ ? add_value(id, plan_.dtype, extent_of(id)) : place.compute;
  }

  /// A value that a kernel stores as a state's is read from there.
  void place_in_history(NodeId id) {
    if (dependence_.variation[id] == Variation::Invariant) return;
    Layout::Place& place = layout_.places[id];
    for (uint32_t state : states_of_next_[id]) {
      const Layout::StateBuffers& buffers = layout_.states[state];
      if (buffers.compute == kNoBuffer) continue;
      if (is_empty(place.compute)) place.compute = access(buffers.compute);
      if (!is_empty(place.storage)) continue;
      if (buffers.storage != kNoBuffer) place.storage = access(buffers.storage);
    }
  }

  /// A Transpose or Reverse has a place for each one that it moves, an Eye one for all; numbers are
  /// rounded for products alone, and a Range is made where kernels read it.
  void place_move(NodeId id) {
    const Op op = graph_[id].op;
    if (op == Op::Total) return place_total(id);
    const Layout::Place source =
        is_known(op) ? Layout::Place{} : layout_.source(graph_, schedule_, id);
    const auto dtype = [&](const Access& from) {
      return is_empty(from) ? plan_.dtype : plan_.buffers[from.buffer].dtype;
    };
    const bool numbers = op == Op::Vector || op == Op::Range || op == Op::Real;
    const DType loaded = numbers ? compute_type(plan_.dtype) : dtype(source.compute);
    const DType multiplied = dtype(source.storage);
    const auto add = [&](DType type) {
      return access(add_temporary(name_of(id), type, extent_of(id), width_of(id), is_after(id)));
    };
    Layout::Place& place = layout_.places[id];
    const Uses& uses = uses_[id];
    if (uses.loaded || op == Op::Range) place.compute = add(loaded);
    if (!uses.multiplied) return;
    const bool shared = !is_empty(place.compute) && loaded == multiplied;
    place.storage = shared ? place.compute : add(multiplied);
  }

  /// What products take, in another type, a kernel stores after all steps.
  void place_total(NodeId id) {
    Layout::Place& place = layout_.places[id];
    place.compute = access(add_temporary(name_of(id), compute_type(plan_.dtype), Extent::Invariant,
                                         width_of(id), /*after=*/true));
    if (!uses_[id].multiplied) return;
    place.storage = place.compute;
    if (!narrow_) return;
    place.storage = access(
        add_temporary(name_of(id), plan_.dtype, Extent::Invariant, width_of(id), /*after=*/true));
    add_store(id, schedule_.last_stage(), place.storage);
  }

  void place_kept(NodeId id) {
    const Uses& uses = uses_[id];
    if (values_.in_every_sweep[id] && !is_mask(graph_[id].op)) return;
    Layout::Place& kept = layout_.kept[id];
    if (uses.kept_loaded || (uses.kept_multiplied && !narrow_)) {
      kept.compute = add_value(id, compute_type(plan_.dtype), Extent::Steps);
    }
    if (!uses.kept_multiplied) return;
    kept.storage = narrow_ ? add_value(id, plan_.dtype, Extent::Steps) : kept.compute;
  }

  Access add_value(NodeId id, DType dtype, Extent extent) {
    const Access place =
        access(add_temporary(name_of(id), dtype, extent, width_of(id), is_after(id)));
    add_store(id, schedule_.stage[id], place);
    return place;
  }

  /// Where a state or an output takes the value.
  uint32_t result_stage(NodeId id) const {
    const bool invariant = dependence_.variation[id] == Variation::Invariant;
    return invariant ? kFirstParallelStage : schedule_.stage[id];
  }

  /// An assembly's own stage stores it piece by piece; others copy the whole.
  void add_store(NodeId id, uint32_t stage, Access place) {
    if (values_.kind[id] != ValueKind::Assembly || schedule_.stage[id] != stage) {
      layout_.stores[id].push_back({stage, place});
      return;
    }
    for (NodeId piece : graph_[id].operands) {
      layout_.stores[piece].push_back({stage, place});
      place.column += width_of(piece);
    }
  }

  // ---- Operands of products ----

  void place_weights(uint32_t stage, const ProductGroup& group, bool fused) {
    const bool step = schedule_.stages[stage].domain == Domain::Step;
    const ProductGroup::Member& first = group.members[0];
    const bool several = group.members.size() > 1;
    const Access one = layout_.read(schedule_, first.weight, stage).storage;
    const bool foreign = step && plan_.buffers[one.buffer].placement == Placement::Caller;
    const bool as_rows = several || fused || step;
    const bool turned = first.transposed && as_rows;
    const bool in_place = !foreign && !turned && are_neighbours(group);
    layout_.weight[first.node] = in_place ? one : access(add_pack(group, as_rows));
  }

  /// Whether the weights lie one after the other in one value as they are.
  bool are_neighbours(const ProductGroup& group) const {
    Origin next = values_.origin[group.members[0].weight];
    for (const ProductGroup::Member& member : group.members) {
      const Origin& origin = values_.origin[member.weight];
      if (origin.value != next.value || origin.offset != next.offset) return false;
      if (member.transposed && group.members.size() > 1) return false;
      next.offset += width_of(member.weight);
    }
    return true;
  }

  void place_left(uint32_t stage, const ProductGroup& group, bool fused) {
    Access& left = layout_.left[group.members[0].node];
    left = layout_.read(schedule_, group.left, stage).storage;
    if (schedule_.stages[stage].domain != Domain::Step || fused) return;
    if (plan_.buffers[left.buffer].extent == Extent::Steps) {
      left = stage_chunk(stage, left, group.k * group.blocks);
    }
    fix_address(left.buffer);
    fix_address(layout_.places[group.members[0].result].compute.buffer);
  }

  /// Of a whole sequence, in the stage before.
  Access stage_chunk(uint32_t stage, const Access& source, int64_t width) {
    const uint32_t sweep = schedule_.stages[stage].sweep;
    const std::tuple key(sweep, source.buffer, source.column, width);
    const auto [found, fresh] = staged_.emplace(key, kNoBuffer);
    if (fresh) {
      RNNC_CHECK(schedule_.stages[stage - 1].domain == Domain::Sequence,
                 "a recurrence multiplies the sequence '{}'", plan_.buffers[source.buffer].name);
      found->second =
          add_temporary(plan_.buffers[source.buffer].name, plan_.dtype, Extent::Chunk, width);
      layout_.staged.push_back({stage - 1, source, access(found->second), width});
    }
    return access(found->second);
  }

  void fix_address(BufferId buffer) {
    RNNC_CHECK(plan_.buffers[buffer].placement != Placement::Caller,
               "a recurrence multiplies the caller's '{}'", plan_.buffers[buffer].name);
    plan_.buffers[buffer].placement = Placement::Program;
  }

  BufferId add_pack(const ProductGroup& group, bool transpose) {
    std::vector<Layout::Pack::Part> parts;
    std::string name;
    int64_t width = 0;
    for (const ProductGroup::Member& member : group.members) {
      parts.push_back({member.weight, transpose && member.transposed});
      name += (name.empty() ? "" : "|") + weight_name(member.weight);
      width += width_of(member.weight);
    }
    const auto [found, fresh] = pack_of_parts_.emplace(parts, kNoBuffer);
    if (fresh) {
      found->second = add_temporary(name, plan_.dtype, Extent::Invariant, width);
      layout_.packs.push_back({found->second, parts});
    }
    return found->second;
  }

  std::string name_of(NodeId id) const { return value_name(graph_, id, schedule_.number(id)); }

  /// "W", "R[2]" in an array of params.
  std::string weight_name(NodeId id) const {
    const Node& node = graph_[id];
    if (values_.kind[id] != ValueKind::View) return name_of(id);
    std::string of = weight_name(node.operands[0]);
    if (node.op == Op::Reverse) return of;
    const std::string end = node.op == Op::Slice ? ":" + node.end.to_string() : "";
    return fmt::format("{}[{}{}]", of, node.begin.to_string(), end);
  }

  const Graph& graph_;
  const Dependence& dependence_;
  const Schedule& schedule_;
  const Values& values_;
  Plan& plan_;
  const std::vector<StateSteps>& state_steps_;  // per state
  LayoutOptions options_;
  bool narrow_;
  std::vector<std::vector<NodeId>> reads_of_state_;    // per state
  std::vector<std::vector<uint32_t>> states_of_next_;  // per node: the states that it becomes
  std::vector<After> after_;                           // per node
  std::vector<Uses> uses_;                             // per node
  std::vector<BufferId> inputs_, params_;
  std::vector<std::pair<NodeId, Access>> results_;       // outputs and histories that take a value
  std::vector<std::pair<NodeId, Access>> last_results_;  // those that take one after all steps
  std::map<std::vector<Layout::Pack::Part>, BufferId> pack_of_parts_;
  std::map<std::tuple<uint32_t, BufferId, int64_t, int64_t>, BufferId> staged_;  // by sweep, place
  std::set<NodeId> summed_;  // what several products add up to
  Layout layout_;
};

}  // namespace

Layout::Place Layout::read(const Schedule& schedule, NodeId id, uint32_t stage) const {
  const Origin& origin = schedule.values.origin[id];
  if (schedule.stages[stage].loop && schedule.stage[origin.value] == stage &&
      !is_empty(carried[origin.value])) {
    return part_of({carried[origin.value], {}}, origin.offset);
  }
  const auto mask = masks.find({origin.value, schedule.stages[stage].sweep});
  if (mask != masks.end()) return {mask->second, {}};
  const bool late = schedule.is_late(origin.value, stage);
  return part_of(late ? kept[origin.value] : places[origin.value], origin.offset);
}

Layout::Place Layout::source(const Graph& graph, const Schedule& schedule, NodeId move) const {
  const Origin& origin = schedule.values.origin[graph[move].operands[0]];
  const bool all_steps = graph[move].op == Op::Reverse && graph[origin.value].op != Op::Input;
  return part_of(all_steps ? kept[origin.value] : places[origin.value], origin.offset);
}

Layout make_layout(const Graph& graph, const Dependence& dependence, const Schedule& schedule,
                   const std::vector<StateSteps>& state_steps, const LayoutOptions& options,
                   Plan& plan) {
  return LayoutBuilder(graph, dependence, schedule, state_steps, options, plan).run();
}

std::string value_name(const Graph& graph, NodeId id) {
  return value_name(graph, id, id);
}

std::string value_name(const Graph& graph, NodeId id, NodeId number) {
  const Node& node = graph[id];
  if (node.op == Op::Input) return graph.inputs[node.decl].name;
  if (node.op == Op::Param) return graph.params[node.decl].name;
  if (node.op == Op::State || node.op == Op::Final) return graph.states[node.decl].name;
  return fmt::format("{}.{}", info(node.op).name, number);
}

}  // namespace rnnc
