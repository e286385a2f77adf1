// 1. For each stage, each group becomes a launch: products a GEMM; fused nodes a kernel that loads
//    what it did not compute, and stores each value right where it is made, to every place that
//    wants it; moves a launch of their own for each place of the value. A kernel with products
//    takes their results as its first arguments; a loop first loads what it carries. Which products
//    a recurrence may make its own, and where it may be put on top of others, its stage says in
//    terms of what launches write.
// 2. Packing copies end the Once stage, and copies of sequences the stage before their users.
// 3. Each state gets its launches: both kinds of initial values go to its histories and carries.
//    Of several steps they are of the earliest (ir/plan/state_steps.h).
#include "passes/lower/launches.h"
#include "passes/graph/linear_recurrence.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <unordered_set>
#include <utility>

#include "ir/plan/buffer_uses.h"
#include "passes/lower/kernel_builder.h"

namespace rnnc {
namespace {

constexpr size_t kNumbersPerLaunch = 16;

class LaunchBuilder {
 public:
  LaunchBuilder(const Graph& graph, const Dependence& dependence, const Schedule& schedule,
                const Layout& layout, Plan& plan)
      : graph_(graph), dependence_(dependence), schedule_(schedule), layout_(layout), plan_(plan) {
    for (const Layout::StateBuffers& state : layout.states) {
      if (state.carry != kNoBuffer) carries_.insert(state.carry);
    }
    has_stacks_ = std::ranges::any_of(
        schedule.stages, [](const ScheduledStage& stage) { return !stage.stack.below.empty(); });
  }

  void run() {
    for (uint32_t index = 0; index < schedule_.stages.size(); ++index) {
      stage_ = index;
      Stage stage = make_stage(schedule_.stages[index]);
      plan_.sweeps = stage.sweep + 1;
      if (!stage.launches.empty()) plan_.stages.push_back(std::move(stage));
    }
    for (size_t i = 0; i < graph_.states.size(); ++i) plan_.states.push_back(make_state(i));
  }

 private:
  Stage make_stage(const ScheduledStage& scheduled) {
    Stage stage;
    stage.domain = scheduled.domain;
    stage.sweep = scheduled.sweep;
    stage.name = stage_name(graph_, dependence_, scheduled);
    for (uint32_t number : scheduled.recurrences) {
      const Recurrence& recurrence = dependence_.recurrences[number];
      if (recurrence.recurrence_class > stage.recurrence) {
        stage.recurrence = recurrence.recurrence_class;
        stage.reason = recurrence.reason;
      } else if (stage.recurrence == RecurrenceClass::Linear) {
        stage.reason += "; " + recurrence.reason.substr(kAffineReason.size());
      }
      stage.phases = std::max(stage.phases, recurrence.phases);
    }
    if (scheduled.recurrences.size() > 1 && stage.recurrence != RecurrenceClass::Linear) {
      stage.reason = "recurrences of which one uses the other, element by element";
    }
    if (stage_ == 0) add_rounded(stage);
    for (size_t group = 0; group < scheduled.groups.size(); ++group) {
      const size_t first = stage.launches.size();
      std::visit([&](const auto& g) { add_launches(stage, g); }, scheduled.groups[group]);
      if (!has_stacks_) continue;
      TouchedBuffers touched;
      for (size_t i = first; i < stage.launches.size(); ++i) touched.add(plan_, stage.launches[i]);
      written_[{stage_, group}] = std::move(touched.written);
    }
    if (scheduled.domain == Domain::Once) add_packs(stage);
    add_staged(stage);
    for (const auto& [product, readers] : schedule_.product_readers) {
      if (readers.contains(stage_)) add_all({results_of(product)}, stage.products);
    }
    if (!scheduled.stack.below.empty()) stage.stack = stack_place(scheduled.stack);
    return stage;
  }

  BufferId results_of(GroupPlace product) const {
    const Group& group = schedule_.stages[product.stage].groups[product.group];
    return layout_.places[std::get<ProductGroup>(group).members[0].result].compute.buffer;
  }

  /// Nothing where what goes ahead is not all that writes where it does.
  StackPlace stack_place(const ScheduledStack& stack) const {
    StackPlace place{.below = static_cast<uint32_t>(stack.below.size())};
    for (const GroupPlace group : stack.ahead) {
      const std::set<BufferId> own = written_by_these(group, stack.ahead);
      if (own.empty() && !written_.at(group).empty()) return {};
      add_all(own, place.ahead);
    }
    for (const Layout::Staged& staged : layout_.staged) {
      if (staged.stage + 1 == stage_) place.ahead.push_back(staged.target.buffer);
    }
    return place;
  }

  static void add_all(const std::set<BufferId>& from, std::vector<BufferId>& to) {
    std::ranges::copy_if(from, std::back_inserter(to),
                         [&](BufferId id) { return std::ranges::find(to, id) == to.end(); });
  }

  /// What the group writes, and no group but these.
  std::set<BufferId> written_by_these(GroupPlace group,
                                      const std::vector<GroupPlace>& these) const {
    std::set<BufferId> buffers = written_.at(group);
    for (const auto& [other, written] : written_) {
      if (std::ranges::count(these, other) > 0) continue;
      std::erase_if(buffers, [&, &w = written](BufferId id) { return w.contains(id); });
    }
    return buffers;
  }

  Layout::Place read(NodeId id) const { return layout_.read(schedule_, id, stage_); }

  void add_launches(Stage& stage, const ProductGroup& group) const {
    const ProductGroup::Member& first = group.members[0];
    GemmLaunch launch;
    launch.left = layout_.left[first.node];
    launch.weight = layout_.weight[first.node];
    launch.out = layout_.places[first.result].compute;
    launch.n = first.n;
    launch.k = group.k;
    launch.transposed =
        group.members.size() == 1 && first.transposed && stage.domain != Domain::Step;
    launch.once_rows = group.rows;
    launch.blocks = group.blocks;
    launch.accumulate = group.accumulates;
    if (group.blocks > 1) {
      launch.repeats = static_cast<int64_t>(group.members.size());
    } else {
      for (size_t i = 1; i < group.members.size(); ++i) launch.n += group.members[i].n;
    }
    if (!is_of_sweeps(stage.domain) && group.rows > 1) {
      launch.left.stride = launch.k;
      launch.out.stride = launch.n;
    }
    stage.launches.emplace_back(launch);
  }

  void add_launches(Stage& stage, const FusedGroup& group) {
    KernelBuilder builder(plan_, group.length);
    std::vector<NodeId> results;          // of products: the first arguments
    std::map<NodeId, uint32_t> computed;  // values by what they are of
    std::vector<FusedLaunch::Product> products;
    for (const ProductGroup& product : group.products) {
      add_products(product, builder, results, products);
    }
    for (uint32_t i = 0; i < results.size(); ++i) {
      if (!group.takes_late || is_stored_here(results[i])) {
        computed.emplace(results[i], builder.load_result(i));
      }
    }
    if (schedule_.stages[stage_].loop) load_carries(group, builder);
    const auto value_of = [&](NodeId id) {
      id = schedule_.values.read[id];
      if (const auto found = computed.find(id); found != computed.end()) return found->second;
      if (const auto late = std::ranges::find(results, id); late != results.end()) {
        const auto argument = static_cast<uint32_t>(late - results.begin());
        return computed.emplace(id, builder.load_result(argument)).first->second;
      }
      const Node& node = graph_[id];
      if (node.op == Op::Constant) return builder.constant(node.value);
      const bool vector = !node.type.is_scalar();
      return builder.load(along_rows(group, read(id).compute, vector ? group.length : 0), vector);
    };
    for (const auto& [id, value] : computed) store(builder, group, id, value, /*vector=*/true);
    for (NodeId id : group.nodes) {
      const Node& node = graph_[id];
      std::vector<uint32_t> operands;
      operands.reserve(node.operands.size());
      for (NodeId operand : node.operands) operands.push_back(value_of(operand));
      const uint32_t value = is_reduction(node.op) ? builder.reduce(node.op, operands[0])
                                                   : builder.scalar(node.op, std::move(operands));
      computed.emplace(id, value);
      const bool per_row = !is_of_sweeps(stage.domain) && is_reduction(node.op);
      store(builder, group, id, value, !node.type.is_scalar() && !per_row);
    }
    for (NodeId id : group.copies) {
      if (is_stored_here(id)) {
        store(builder, group, id, value_of(id), !graph_[id].type.is_scalar());
      }
    }
    if (!builder.stores()) return;
    ElementwiseLaunch launch = builder.finish(group.rows);
    if (schedule_.stages[stage_].loop) {
      stage.launches.emplace_back(loop_of(std::move(launch)));
    } else if (!products.empty()) {
      stage.launches.emplace_back(
          FusedLaunch{launch.kernel, std::move(launch.accesses), std::move(products)});
    } else {
      stage.launches.emplace_back(std::move(launch));
    }
  }

  /// The results as arguments of the kernel. Members whose results are neighbours go together.
  void add_products(const ProductGroup& group, KernelBuilder& builder, std::vector<NodeId>& results,
                    std::vector<FusedLaunch::Product>& products) const {
    FusedLaunch::Product product{layout_.left[group.members[0].node],
                                 layout_.weight[group.members[0].node],
                                 group.k,
                                 group.blocks,
                                 0,
                                 0};
    for (const ProductGroup::Member& member : group.members) {
      const auto found = std::ranges::find(results, member.result);
      const auto argument = static_cast<uint32_t>(found - results.begin());
      if (found == results.end()) {
        results.push_back(member.result);
        builder.add_result();
      }
      if (product.members == 0) product.first_argument = argument;
      if (argument != product.first_argument + product.members) {
        products.push_back(product);
        product.weight.column += product.members * builder.length() * group.k;
        product.first_argument = argument;
        product.members = 0;
      }
      ++product.members;
    }
    products.push_back(product);
  }

  bool is_carry(BufferId id) const { return carries_.contains(id); }

  /// Of all places that the loop will store to.
  void load_carries(const FusedGroup& group, KernelBuilder& builder) const {
    for (const std::vector<NodeId>* values : {&group.nodes, &group.copies}) {
      for (NodeId id : *values) {
        for (const Layout::Store& store : layout_.stores[id]) {
          if (store.stage != stage_ || !is_carry(store.access.buffer)) continue;
          builder.load(store.access, !graph_[id].type.is_scalar());
        }
      }
    }
  }

  LoopLaunch loop_of(ElementwiseLaunch launch) const {
    LoopLaunch loop{launch.kernel, std::move(launch.accesses), {}};
    const std::vector<Kernel::Argument>& arguments = plan_.kernels[loop.kernel].arguments;
    std::multimap<std::pair<BufferId, int64_t>, uint32_t> stores;  // of carries, by place
    for (uint32_t to = 0; to < loop.accesses.size(); ++to) {
      const Access& access = loop.accesses[to];
      if (!arguments[to].written || !is_carry(access.buffer)) continue;
      stores.emplace(std::pair(access.buffer, access.column), to);
    }
    for (uint32_t from = 0; from < loop.accesses.size(); ++from) {
      const Access& access = loop.accesses[from];
      if (arguments[from].written) continue;
      const auto [first, last] = stores.equal_range({access.buffer, access.column});
      for (auto to = first; to != last; ++to) loop.carries.push_back({from, to->second});
    }
    return loop;
  }

  bool is_stored_here(NodeId id) const {
    return std::ranges::find(layout_.stores[id], stage_, &Layout::Store::stage) !=
           layout_.stores[id].end();
  }

  void store(KernelBuilder& builder, const FusedGroup& group, NodeId id, uint32_t value,
             bool vector) const {
    for (const Layout::Store& store : layout_.stores[id]) {
      if (store.stage != stage_) continue;
      builder.store(along_rows(group, store.access, vector ? group.length : 1), vector, value);
    }
  }

  /// The access of a launch that walks over the rows of a matrix, `elements` apart.
  static Access along_rows(const FusedGroup& group, Access access, int64_t elements) {
    if (group.rows > 1 && !group.of_batch) access.stride = elements;
    return access;
  }

  void add_launches(Stage& stage, const MoveGroup& group) {
    const Node& node = graph_[group.node];
    if (is_mask(node.op)) {
      const auto kind = node.op == Op::Valid ? MaskLaunch::Kind::Valid
                        : node.decl == 0     ? MaskLaunch::Kind::Reset
                                             : MaskLaunch::Kind::ResetReverse;
      stage.launches.emplace_back(MaskLaunch{kind, read(group.node).compute, node.delay});
      return;
    }
    const Layout::Place& place = layout_.places[group.node];
    if (node.op == Op::Total) return add_total(stage, group.node, place.compute);
    if (node.op == Op::Vector) return add_vector(stage, node.values, place);
    if (node.op == Op::Range) return add_range(stage, element_count(node.type.shape), place);
    const Layout::Place source =
        node.op == Op::Eye ? Layout::Place{} : layout_.source(graph_, schedule_, group.node);
    if (place.compute.buffer != kNoBuffer) add_move(stage, node, source.compute, place.compute);
    if (place.storage.buffer != kNoBuffer && place.storage.buffer != place.compute.buffer) {
      add_move(stage, node, source.storage, place.storage);
    }
  }

  void add_total(Stage& stage, NodeId id, const Access& out) {
    const Node& node = graph_[id];
    const bool outer = node.operands.size() == 2;
    if (outer && is_integer(graph_, node.operands[0])) return add_row_total(stage, node, out);
    const bool steps = is_of_sweeps(stage.domain);
    const auto operand = [&](size_t i) {
      const Layout::Place place = read(node.operands[i]);
      return outer || steps ? place.storage : place.compute;
    };
    const auto width = [&](NodeId value) { return element_count(graph_[value].type.shape); };
    TotalLaunch total{.left = operand(0), .out = out, .accumulate = steps};
    if (outer) {
      total.right = operand(1);
      if (node.type.rank() == 3) total.blocks = element_count({node.type.shape[0]});
      total.n = width(node.operands[1]) / total.blocks;
    }
    total.m = width(node.operands[0]) / total.blocks;
    stage.launches.emplace_back(total);
  }

  void add_row_total(Stage& stage, const Node& node, const Access& out) {
    stage.launches.emplace_back(
        RowTotalLaunch{.index = read(node.operands[0]).compute,
                       .value = read(node.operands[1]).storage,
                       .out = out,
                       .count = element_count({node.type.shape[0]}),
                       .width = element_count(graph_[node.operands[1]].type.shape)});
  }

  void add_move(Stage& stage, const Node& node, const Access& source, const Access& target) {
    const Shape& shape = node.type.shape;
    if (node.op == Op::Eye) {
      add_eye(stage, element_count({shape[0]}), target);
    } else if (node.op == Op::Reverse) {
      stage.launches.emplace_back(ReverseLaunch{source, target, element_count(shape)});
    } else if (node.op == Op::Rows) {
      const Shape& table = graph_[node.operands[0]].type.shape;
      stage.launches.emplace_back(RowsLaunch{.table = source,
                                             .index = read(node.operands[1]).compute,
                                             .target = target,
                                             .count = element_count({table[0]}),
                                             .width = element_count(shape)});
    } else if (node.op == Op::Real) {
      stage.launches.emplace_back(RealLaunch{source, target});
    } else if (node.op == Op::Earlier) {
      stage.launches.emplace_back(EarlierLaunch{source, target, element_count(shape)});
    } else {
      CopyLaunch copy{source, target};
      copy.rows = element_count({shape[1]});
      copy.columns = element_count({shape[0]});
      copy.transposed = true;
      stage.launches.emplace_back(copy);
    }
  }

  /// The places of a value that differ.
  static std::vector<Access> targets(const Layout::Place& place) {
    std::vector<Access> result;
    for (const Access& access : {place.compute, place.storage}) {
      const bool known = access.buffer == kNoBuffer || std::ranges::count(result, access) > 0;
      if (!known) result.push_back(access);
    }
    return result;
  }

  /// A few numbers a launch.
  void add_vector(Stage& stage, const std::vector<double>& values, const Layout::Place& place) {
    for (size_t begin = 0; begin < values.size(); begin += kNumbersPerLaunch) {
      KernelBuilder builder(plan_, 1);
      for (size_t i = begin; i < std::min(begin + kNumbersPerLaunch, values.size()); ++i) {
        const uint32_t value = builder.constant(values[i]);
        for (Access target : targets(place)) {
          target.column += static_cast<int64_t>(i);
          builder.store(target, /*vector=*/false, value);
        }
      }
      if (builder.stores()) stage.launches.emplace_back(builder.finish());
    }
  }

  /// 0, then again and again as many as are there, each raised by their count.
  void add_range(Stage& stage, int64_t size, const Layout::Place& place) {
    for (int64_t made = 0; made < size; made = std::max<int64_t>(2 * made, 1)) {
      KernelBuilder builder(plan_, std::clamp<int64_t>(size - made, 1, std::max<int64_t>(made, 1)));
      uint32_t value = builder.constant(static_cast<double>(made));
      if (made > 0) {
        value = builder.scalar(Op::Add, {builder.load(place.compute, /*vector=*/true), value});
      }
      for (Access target : targets(place)) {
        target.column += made;
        builder.store(target, /*vector=*/true, value);
      }
      if (builder.stores()) stage.launches.emplace_back(builder.finish());
    }
  }

  /// Zeros row by row, then ones along the diagonal.
  void add_eye(Stage& stage, int64_t size, Access target) {
    KernelBuilder zeros(plan_, size);
    target.stride = size;
    zeros.store(target, /*vector=*/true, zeros.constant(0));
    stage.launches.emplace_back(zeros.finish(size));
    KernelBuilder ones(plan_, 1);
    target.stride = size + 1;
    ones.store(target, /*vector=*/false, ones.constant(1));
    stage.launches.emplace_back(ones.finish(size));
  }

  /// Before all that multiplies or packs them: along rows of the last axis, as params lie.
  void add_rounded(Stage& stage) {
    for (auto [param, source, target] : layout_.rounded) {
      const Shape& shape = graph_[param].type.shape;
      const int64_t length = shape.empty() ? 1 : element_count({shape.back()});
      source.stride = target.stride = length;
      KernelBuilder builder(plan_, length);
      builder.store(target, /*vector=*/true, builder.load(source, /*vector=*/true));
      stage.launches.emplace_back(builder.finish(element_count(shape) / length));
    }
  }

  void add_packs(Stage& stage) const {
    for (const Layout::Pack& pack : layout_.packs) {
      int64_t column = 0;
      for (const Layout::Pack::Part& part : pack.parts) add_pack(stage, part, pack.buffer, column);
    }
  }

  /// From `column` on, which it moves past the part. Of blocks, each is a matrix of its own.
  void add_pack(Stage& stage, const Layout::Pack::Part& part, BufferId buffer,
                int64_t& column) const {
    const Shape& shape = graph_[part.weight].type.shape;
    CopyLaunch copy;
    copy.source = read(part.weight).storage;
    copy.columns = element_count(shape);
    copy.transposed = part.transpose;
    int64_t blocks = 1;
    if (part.transpose) {
      copy.columns = element_count({shape.back()});
      copy.rows = element_count({shape[shape.size() - 2]});
      if (shape.size() == 3) blocks = element_count({shape[0]});
    }
    for (int64_t block = 0; block < blocks; ++block) {
      copy.target = {buffer, 0, column, 0};
      stage.launches.emplace_back(copy);
      copy.source.column += copy.rows * copy.columns;
      column += copy.rows * copy.columns;
    }
  }

  void add_staged(Stage& stage) {
    for (const Layout::Staged& staged : layout_.staged) {
      if (staged.stage != stage_) continue;
      KernelBuilder builder(plan_, staged.width);
      builder.store(staged.target, /*vector=*/true, builder.load(staged.source, /*vector=*/true));
      stage.launches.emplace_back(builder.finish());
    }
  }

  StatePlan make_state(size_t index) {
    const StateDecl& state = graph_.states[index];
    const Layout::StateBuffers& buffers = layout_.states[index];
    const bool vector = !state.type.is_scalar();
    const int64_t width = element_count(state.type.shape);
    // In the caller's arrays, where the earliest step is.
    const Access of_caller = {.column = buffers.steps.before + buffers.steps.earliest() * width,
                              .stride = plan_.buffers[buffers.initial].width};
    const auto in = [&of_caller](BufferId buffer) {
      Access access = of_caller;
      access.buffer = buffer;
      return access;
    };
    StatePlan result;
    result.name = state.name;
    // A history is given where the state is that it is one of.
    const bool is_one = state.delay_of && buffers.steps.count == 1 &&
                        graph_.states[*state.delay_of].type == state.type;
    if (is_one) result.delay_of = state.delay_of;
    result.sweep = schedule_.sweep_of(state.next);
    result.turns = buffers.steps.turns;

    KernelBuilder declared(plan_, width);
    store_history(declared, buffers, vector, declared_value(declared, state));
    result.init_declared = declared.finish();

    KernelBuilder given(plan_, width);
    store_history(given, buffers, vector, given.load(in(buffers.initial), vector));
    result.init_given = given.finish();

    KernelBuilder final(plan_, width);
    const bool carried = buffers.carry != kNoBuffer && buffers.steps.count == 1;
    const Access held = carried ? Access{buffers.carry, 0, 0, width}
                                : Access{buffers.compute, earliest(buffers), 0, width};
    const uint32_t last = final.load(held, vector);
    final.store(in(buffers.final), vector, last);
    result.write_final = final.finish();

    result.hiding = buffers.steps.hiding;
    if (result.hiding != Hiding::None && plan_.descending) result.hide = result.init_declared;
    if (result.hiding != Hiding::None && !plan_.descending) {
      KernelBuilder hide(plan_, width);
      hide.store(in(buffers.final), vector, declared_value(hide, state));
      result.hide = hide.finish();
    }
    return result;
  }

  uint32_t declared_value(KernelBuilder& builder, const StateDecl& state) const {
    const NodeId init = schedule_.values.read[state.init];
    if (graph_[init].op == Op::Constant) return builder.constant(graph_[init].value);
    return builder.load(layout_.read(schedule_, init, 0).compute, !graph_[init].type.is_scalar());
  }

  static uint32_t earliest(const Layout::StateBuffers& buffers) {
    return static_cast<uint32_t>(buffers.steps.count);
  }

  void store_history(KernelBuilder& builder, const Layout::StateBuffers& buffers, bool vector,
                     uint32_t value) const {
    if (buffers.carry != kNoBuffer) {
      const int64_t width = plan_.buffers[buffers.carry].width;
      const int64_t column = buffers.steps.earliest() * (width / buffers.steps.count);
      builder.store({buffers.carry, 0, column, width}, vector, value);
    }
    for (const BufferId id : {buffers.compute, buffers.storage}) {
      if (id == kNoBuffer || plan_.buffers[id].history == 0) continue;
      builder.store({id, earliest(buffers), 0, plan_.buffers[id].width}, vector, value);
    }
  }

  const Graph& graph_;
  const Dependence& dependence_;
  const Schedule& schedule_;
  const Layout& layout_;
  Plan& plan_;
  std::unordered_set<BufferId> carries_;              // of loops
  std::map<GroupPlace, std::set<BufferId>> written_;  // so far, if a stage may be on top of others
  bool has_stacks_ = false;
  uint32_t stage_ = 0;  // whose launches are being made
};

}  // namespace

void make_launches(const Graph& graph, const Dependence& dependence, const Schedule& schedule,
                   const Layout& layout, Plan& plan) {
  LaunchBuilder(graph, dependence, schedule, layout, plan).run();
}

}  // namespace rnnc
