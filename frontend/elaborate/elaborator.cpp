#include "frontend/elaborate/elaborator.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <set>

#include "frontend/elaborate/fixed_dims.h"

namespace rnnc {
namespace {

constexpr ptrdiff_t kMostTrailNotes = 3;

using Progress = Context::Progress;

/// Runs `elaborate` unless the item was checked before, now or in an earlier check, and remembers how
/// it went.
template <typename Item, typename Elaborate>
bool check_once(Context& context, const Item& item, Elaborate&& elaborate) {
  const Context::View view(context, item.name.location.file);
  Progress& progress = context.progress(&item);
  if (progress == Progress::None && context.pass_over(&item)) progress = Progress::Good;
  if (progress == Progress::None) {
    progress = Progress::Running;
    context.running().push_back(&item.name);
    const Context::ItemCheck check(context, &item);
    progress = elaborate() ? Progress::Good : Progress::Bad;
    context.running().pop_back();
    if (progress == Progress::Good) check.finish();
  }
  return progress == Progress::Good;
}

}  // namespace

bool check(Context& context, const ast::Definition& definition) {
  return check_once(context, definition, [&] {
    Elaborator elaborator(context, context.dims_for(definition), /*assume_dims=*/true);
    std::optional<Graph> graph = elaborator.definition(definition);
    const bool good = graph.has_value();
    if (good && context.watch()) context.watch()->graphs.push_back(std::move(*graph));
    return good;
  });
}

bool check(Context& context, const ast::Function& function) {
  return check_once(context, function, [&] {
    return Elaborator(context, {}, /*assume_dims=*/true).function(function);
  });
}

bool check(Context& context, const ast::Constant& constant) {
  return check_once(context, constant, [&] {
    const auto value = Elaborator(context, {}, /*assume_dims=*/true).constant(constant);
    if (value) context.constant_values()[&constant] = *value;
    return value.has_value();
  });
}

std::optional<Graph> lower(Context& context, const ast::Definition& definition,
                           const DimBindings& dims) {
  context.progress(&definition) = Progress::Running;  // calls of itself are recursions
  context.running().push_back(&definition.name);
  const Context::View view(context, definition.name.location.file);
  return Elaborator(context, dims, /*assume_dims=*/false).definition(definition);
}

std::optional<Graph> Elaborator::definition(const ast::Definition& definition) {
  Frame frame;
  frame.kind = definition.is_network ? Frame::Kind::Network : Frame::Kind::Cell;
  frame.definition = &definition;
  frame.file = definition.name.location.file;
  frame_ = &frame;
  graph_.name = definition.name.text;
  fixed_dims_ = fixed_dims(context_, definition);
  top_level_dims(definition);
  top_level_inputs(definition);
  const std::vector<Value> values = body(definition);
  if (failed_) return std::nullopt;
  for (size_t i = 0; i < values.size(); ++i) {
    const ast::Identifier& name = definition.outputs[i];
    graph_.outputs.push_back({name.text, node_of(values[i], name.location), name.location});
  }
  warn_unused();
  remove_dead_nodes();
  settle_consumed_dims();
  return std::move(graph_);
}

bool Elaborator::function(const ast::Function& function) {
  // Arguments of unknown shape: names, calls and argument counts are checked here, shapes where
  // the fn is called.
  Frame frame;
  frame.kind = Frame::Kind::Function;
  frame.file = function.name.location.file;
  frame_ = &frame;
  for (const ast::Identifier& parameter : function.parameters) {
    Binding local;
    local.kind = Binding::Kind::Local;
    bind(parameter, local);
  }
  expression(*function.body);
  return !failed_;
}

std::optional<double> Elaborator::constant(const ast::Constant& constant) {
  Frame frame;
  frame.kind = Frame::Kind::Constant;
  frame.file = constant.name.location.file;
  frame_ = &frame;
  const Value value = expression(*constant.value);
  if (failed_) return std::nullopt;
  if (value.kind != Value::Kind::Number) {
    error(constant.value->location,
          fmt::format("a const is a number, but {} is not", quote(*constant.value)),
          "it is made of numbers, other consts and functions of them");
    return std::nullopt;
  }
  return value.number;
}

Value Elaborator::error(SourceLocation location, std::string message, Hint hint,
                        std::vector<Diagnostic::Note> notes) {
  failed_ = true;
  if (context_.exhausted()) return {};  // the walk was cut short, so values are missing
  auto call = trail_.rbegin();
  if (context_.in_prelude(location) && call != trail_.rend()) {
    // The user's call is at fault, not the fn.
    while (context_.in_prelude(call->location)) ++call;
    notes.insert(notes.begin(), {location, "this is the part that does not fit"});
    location = call->location;
    message = fmt::format("{} of the prelude: {}", context_.quote(location), message);
    hint.edits.clear();
    ++call;
  }
  const auto count = std::min<ptrdiff_t>(trail_.rend() - call, kMostTrailNotes);
  notes.insert(notes.end(), call, call + count);
  context_.error(location, std::move(message), std::move(hint), std::move(notes));
  return {};
}

Value Elaborator::backwards(Value value, SourceLocation location) {
  if (value.kind != Value::Kind::Node || !varies(value.node)) return value;
  const Node& node = graph_[value.node];
  if (node.op == Op::Reverse) return Value::of_node(node.operands[0]);
  return Value::of_node(graph_.apply(Op::Reverse, {value.node}, location));
}

bool Elaborator::varies(NodeId id) {
  while (varies_.size() <= id) {
    const Node& node = graph_[static_cast<NodeId>(varies_.size())];
    varies_.push_back(node.op == Op::Input || node.op == Op::State ||
                      std::ranges::any_of(node.operands, [&](NodeId o) { return varies_[o]; }));
  }
  return varies_[id];
}

bool Elaborator::spend(SourceLocation location, int64_t count) {
  bool allowed = true;
  for (int64_t i = 0; allowed && i < std::max<int64_t>(count, 1); ++i) {
    allowed = context_.enter(location);
    context_.leave();
  }
  if (!allowed) failed_ = true;
  return allowed;
}

void Elaborator::tell(SourceLocation place, Value value) {
  if (!context_.watch() || !trail_.empty() || value.kind != Value::Kind::Node) return;
  context_.watch()->add(place, type_of(value));
}

Type Elaborator::type_of(Value value) const {
  return value.kind == Value::Kind::Node ? graph_[value.node].type : Type{};
}

NodeId Elaborator::node_of(Value value, SourceLocation location) {
  RNNC_CHECK(!value.is_poison());
  if (value.kind == Value::Kind::Node) return value.node;
  const auto [found, fresh] = constants_.emplace(std::bit_cast<uint64_t>(value.number), kNoNode);
  if (fresh) found->second = graph_.constant(value.number, location);
  return found->second;
}

std::string Elaborator::values_in(const std::vector<Type>& types) const {
  std::set<std::string> symbols;
  for (const Type& type : types) {
    for (const Dim& dim : type.shape) {
      for (const std::string& symbol : dim.symbols()) symbols.insert(symbol);
    }
  }
  const DimBindings known = known_dims();
  std::string text;
  for (const std::string& symbol : symbols) {
    const auto value = known.find(symbol);
    const bool open = fixed_dims_.contains(symbol) && !number_of(symbol);
    if (value == known.end() && !open) continue;
    const std::string number = open ? " has no value" : fmt::format(" = {}", value->second);
    text += fmt::format("{}{}{}", text.empty() ? " (" : ", ", symbol, number);
  }
  return text.empty() ? text : text + ")";
}

void Elaborator::remove_dead_nodes() {
  std::vector<bool> live(graph_.nodes.size(), false);
  for (const OutputDecl& output : graph_.outputs) live[output.value] = true;
  for (const StateDecl& state : graph_.states) live[state.init] = live[state.next] = true;
  for (NodeId id = static_cast<NodeId>(live.size()); id-- > 0;) {
    if (!live[id]) continue;
    for (const NodeId operand : graph_[id].operands) live[operand] = true;
  }
  std::vector<NodeId> renamed(live.size(), kNoNode);
  std::vector<Node> kept;
  for (NodeId id = 0; id < live.size(); ++id) {
    if (!live[id]) continue;
    renamed[id] = static_cast<NodeId>(kept.size());
    kept.push_back(std::move(graph_.nodes[id]));
    for (NodeId& operand : kept.back().operands) operand = renamed[operand];
  }
  graph_.nodes = std::move(kept);
  for (OutputDecl& output : graph_.outputs) output.value = renamed[output.value];
  for (StateDecl& state : graph_.states) {
    state.init = renamed[state.init];
    state.next = renamed[state.next];
  }
}

}  // namespace rnnc
