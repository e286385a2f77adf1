// 1. For each stage, each group becomes a launch: products a GEMM; fused nodes a kernel that loads
//    what it did not compute, and stores each value right where it is made, to every place that
//    wants it.
// 2. Packing copies end the Once stage.
// 3. Each state gets its launches: both kinds of initial values go to every slot of its histories.
#include "passes/launches.h"

#include <map>
#include <utility>

#include "passes/kernel_builder.h"

namespace rnnc {
namespace {

class LaunchBuilder {
 public:
  LaunchBuilder(const Graph& graph, const Dependence& dependence, const Schedule& schedule,
                const Layout& layout, Plan& plan)
      : graph_(graph), dependence_(dependence), schedule_(schedule), layout_(layout), plan_(plan) {}

  void run() {
    for (const ScheduledStage& scheduled : schedule_.stages) {
      Stage stage = make_stage(scheduled);
      if (!stage.launches.empty()) plan_.stages.push_back(std::move(stage));
    }
    for (size_t i = 0; i < graph_.states.size(); ++i) plan_.states.push_back(make_state(i));
  }

 private:
  Stage make_stage(const ScheduledStage& scheduled) {
    Stage stage;
    stage.domain = scheduled.domain;
    if (scheduled.domain == Domain::Step) {
      const Recurrence& recurrence = dependence_.recurrences[scheduled.recurrence];
      stage.recurrence = recurrence.recurrence_class;
      for (uint32_t state : recurrence.states) {
        stage.name += (stage.name.empty() ? "" : ", ") + graph_.states[state].name;
      }
    }
    const bool once = scheduled.domain == Domain::Once;
    for (const Group& group : scheduled.groups) {
      if (const auto* product = std::get_if<ProductGroup>(&group)) {
        stage.launches.emplace_back(make_gemm(*product, once));
      } else {
        stage.launches.emplace_back(make_kernel(std::get<FusedGroup>(group), once));
      }
    }
    if (once) add_packs(stage);
    return stage;
  }

  GemmLaunch make_gemm(const ProductGroup& group, bool once) const {
    GemmLaunch launch;
    launch.left = layout_.storage[group.left];
    launch.weight = layout_.weight[group.members[0].node];
    launch.out = layout_.compute[group.members[0].node];
    for (const ProductGroup::Member& member : group.members) launch.n += member.n;
    launch.k = group.k;
    launch.transposed = group.transposed;
    launch.once_rows = group.rows;
    if (once && group.rows > 1) {
      launch.left.stride = launch.k;
      launch.out.stride = launch.n;
    }
    return launch;
  }

  ElementwiseLaunch make_kernel(const FusedGroup& group, bool once) {
    KernelBuilder builder(plan_, group.length);
    std::map<NodeId, uint32_t> computed;
    const auto value_of = [&](NodeId id) {
      if (const auto found = computed.find(id); found != computed.end()) return found->second;
      const Node& node = graph_[id];
      if (node.op == Op::Constant) return builder.constant(node.value);
      const bool vector = !node.type.is_scalar();
      return builder.load(along_rows(group, layout_.compute[id], vector ? group.length : 0),
                          vector);
    };
    for (NodeId id : group.nodes) {
      const Node& node = graph_[id];
      std::vector<uint32_t> operands;
      operands.reserve(node.operands.size());
      for (NodeId operand : node.operands) operands.push_back(value_of(operand));
      const uint32_t value = is_reduction(node.op) ? builder.reduce(node.op, operands[0])
                                                   : builder.scalar(node.op, std::move(operands));
      computed.emplace(id, value);
      store(builder, group, id, value, once);
    }
    for (NodeId id : group.copies) store(builder, group, id, value_of(id), once);
    return builder.finish(group.rows);
  }

  void store(KernelBuilder& builder, const FusedGroup& group, NodeId id, uint32_t value,
             bool once) const {
    const Node& node = graph_[id];
    const bool invariant = dependence_.variation[id] == Variation::Invariant;
    const bool vector = !node.type.is_scalar() && !(once && is_reduction(node.op));
    if (once || !invariant) {
      for (const Access& access : layout_.temporaries[id]) {
        builder.store(along_rows(group, access, vector ? group.length : 1), vector, value);
      }
    }
    if (once) return;
    for (const Access& access : layout_.results[id]) builder.store(access, vector, value);
  }

  /// The access of a launch that walks over the rows of a matrix, `elements` apart.
  static Access along_rows(const FusedGroup& group, Access access, int64_t elements) {
    if (group.rows > 1) access.stride = elements;
    return access;
  }

  void add_packs(Stage& stage) const {
    for (const Layout::Pack& pack : layout_.packs) {
      int64_t column = 0;
      for (NodeId weight : pack.weights) {
        CopyLaunch copy;
        copy.source = layout_.storage[weight];
        copy.target = {pack.buffer, 0, column, 0};
        copy.count = element_count(graph_[weight].type.shape);
        column += copy.count;
        stage.launches.emplace_back(copy);
      }
    }
  }

  StatePlan make_state(size_t index) {
    const StateDecl& state = graph_.states[index];
    const Layout::StateBuffers& buffers = layout_.states[index];
    const bool vector = !state.type.is_scalar();
    const int64_t width = element_count(state.type.shape);
    StatePlan result;
    result.name = state.name;

    KernelBuilder declared(plan_, width);
    const Node& init = graph_[state.init];
    store_history(declared, buffers, vector,
                  init.op == Op::Constant
                      ? declared.constant(init.value)
                      : declared.load(layout_.compute[state.init], !init.type.is_scalar()));
    result.init_declared = declared.finish();
    if (buffers.initial == kNoBuffer) return result;

    KernelBuilder given(plan_, width);
    store_history(given, buffers, vector, given.load({buffers.initial, 0, 0, width}, vector));
    result.init_given = given.finish();

    KernelBuilder final(plan_, width);
    const uint32_t last = final.load({buffers.compute, 1, 0, width}, vector);
    final.store({buffers.final, 0, 0, width}, vector, last);
    result.write_final = final.finish();
    return result;
  }

  void store_history(KernelBuilder& builder, const Layout::StateBuffers& buffers, bool vector,
                     uint32_t value) const {
    for (const BufferId id : {buffers.compute, buffers.storage}) {
      if (id == kNoBuffer) continue;
      const Buffer& buffer = plan_.buffers[id];
      for (uint32_t delay = 1; delay <= buffer.history; ++delay) {
        builder.store({id, delay, 0, buffer.width}, vector, value);
      }
    }
  }

  const Graph& graph_;
  const Dependence& dependence_;
  const Schedule& schedule_;
  const Layout& layout_;
  Plan& plan_;
};

}  // namespace

void make_launches(const Graph& graph, const Dependence& dependence, const Schedule& schedule,
                   const Layout& layout, Plan& plan) {
  LaunchBuilder(graph, dependence, schedule, layout, plan).run();
}

}  // namespace rnnc
