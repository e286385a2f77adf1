// 1. Look at the params and the given initial states.
// 2. Observe all values that a step computes, and take each one's first element that is not finite.
// 3. Of these the first is where it came from: what it was made of came before it and is finite.
// 4. Observe what it was made of.
#include "runtime/debug/first_non_finite.h"

#include <algorithm>
#include <cmath>

#include "ir/graph/places.h"
#include "ir/graph/sweeps.h"
#include "runtime/debug/named_values.h"

namespace rnnc::debug {
namespace {

constexpr size_t kElementsAtOnce = size_t{1} << 25;

/// An element of a value, and where in the run it is.
struct Found {
  uint32_t sweep = 0;
  size_t running = 0;  // steps that run before it in its sweep
  NodeId node = kNoNode;
  size_t step = 0;
  size_t sequence = 0;
  size_t index = 0;  // in its row
  double value = 0;

  auto order() const { return std::tuple(sweep, running, node, sequence, index); }
};

class Search {
 public:
  explicit Search(const Observer& observer)
      : observer_(observer),
        graph_(observer.graph()),
        directions_(find_directions(graph_)),
        after_(find_after(graph_)),
        sweeps_(find_sweeps(graph_).value()) {}

  Result<std::optional<NonFinite>> run() {
    if (std::optional<NonFinite> given = find_given()) return given;
    const std::vector<NodeId> values = computed_values();
    for (size_t begin = 0; begin < values.size();) {
      const size_t count = some(values, begin);
      const std::span<const NodeId> observed(values.data() + begin, count);
      const Result<std::vector<Sequence>> sequences = observer_.observe(observed);
      if (!sequences) return tl::unexpected(sequences.error());
      for (size_t i = 0; i < count; ++i) look_at(observed[i], (*sequences)[i]);
      begin += count;
    }
    if (!first_) return std::nullopt;
    return describe(*first_);
  }

 private:
  std::optional<NonFinite> find_given() const {
    const auto find = [](const std::vector<NamedArray>& arrays,
                         std::string_view what) -> std::optional<NonFinite> {
      for (const auto& [name, array] : arrays) {
        const std::vector<double> elements = array.to_doubles();
        const auto at =
            std::ranges::find_if_not(elements, [](double x) { return std::isfinite(x); });
        if (at == elements.end()) continue;
        Type type;
        for (const int64_t size : array.shape) type.shape.push_back(Dim(size));
        NonFinite given;
        given.name = fmt::format("{} {}", what, name);
        given.value = *at;
        given.element = element_name(type, at - elements.begin());
        return given;
      }
      return std::nullopt;
    };
    std::optional<NonFinite> found = find(observer_.args().params, "param");
    return found ? found : find(observer_.args().initial_states, "initial state");
  }

  bool varies(NodeId id) const {
    return directions_[id] != Direction::Invariant && after_[id] == After::Nothing &&
           !is_integer(graph_, id);
  }

  /// What is only moved elsewhere was looked at before.
  std::vector<NodeId> computed_values() const {
    std::vector<NodeId> values;
    for (NodeId id = 0; id < graph_.nodes.size(); ++id) {
      switch (graph_[id].op) {
        case Op::State:
        case Op::Valid:
        case Op::Reset:
        case Op::Real:
        case Op::Broadcast:
        case Op::Slice:
        case Op::Index:
        case Op::Concat:
        case Op::Stack:
        case Op::Transpose:
        case Op::Reverse:
        case Op::Earlier:
          continue;
        default:
          if (varies(id)) values.push_back(id);
      }
    }
    return values;
  }

  /// How many of them from `begin` on are observed at once: at least one.
  size_t some(const std::vector<NodeId>& values, size_t begin) const {
    const std::vector<NamedArray>& inputs = observer_.args().inputs;
    const size_t rows = inputs.empty() ? 1
                                       : static_cast<size_t>(inputs[0].array.shape[0]) *
                                             static_cast<size_t>(inputs[0].array.shape[1]);
    size_t count = 0;
    size_t elements = 0;
    while (begin + count < values.size()) {
      elements +=
          rows * static_cast<size_t>(element_count(graph_[values[begin + count]].type.shape));
      if (count > 0 && elements > kElementsAtOnce) break;
      ++count;
    }
    return count;
  }

  size_t length_of(const Sequence& sequence, size_t b) const {
    const auto& lengths = observer_.args().lengths;
    return lengths ? static_cast<size_t>((*lengths)[b]) : sequence.steps;
  }

  void look_at(NodeId node, const Sequence& sequence) {
    const bool reversed = directions_[node] == Direction::Reversed;
    for (size_t step = 0; step < sequence.steps; ++step) {
      for (size_t b = 0; b < sequence.batch; ++b) {
        const std::span<const double> row = sequence.row(step, b);
        const auto at = std::ranges::find_if_not(row, [](double x) { return std::isfinite(x); });
        if (at == row.end()) continue;
        const size_t running = reversed ? length_of(sequence, b) - 1 - step : step;
        const Found found = {
            sweeps_[node], running, node, step, b, static_cast<size_t>(at - row.begin()), *at};
        if (!first_ || found.order() < first_->order()) first_ = found;
      }
    }
  }

  Result<std::optional<NonFinite>> describe(const Found& found) const {
    const ValueNames names(graph_);
    const Node& node = graph_[found.node];
    NonFinite first = {.name = names.of(found.node),
                       .place = place_of(graph_, node.location),
                       .value = found.value,
                       .element = element_name(node.type, found.index),
                       .is_of_step = true,
                       .step = found.step,
                       .sequence = found.sequence};
    std::vector<NodeId> operands;
    for (const NodeId operand : node.operands) {
      if (varies(operand)) operands.push_back(operand);
    }
    const Result<std::vector<Sequence>> sequences = observer_.observe(operands);
    if (!sequences) return tl::unexpected(sequences.error());
    for (size_t i = 0; i < operands.size(); ++i) {
      const std::span<const double> row = (*sequences)[i].row(found.step, found.sequence);
      const bool same = graph_[operands[i]].type == node.type && node.op != Op::MatMul;
      const auto largest = std::ranges::max_element(row, {}, [](double x) { return std::abs(x); });
      const double value = same ? row[found.index] : *largest;
      first.operands.push_back({names.of(operands[i]), value, !same && row.size() > 1});
    }
    return first;
  }

  const Observer& observer_;
  const Graph& graph_;
  const std::vector<Direction> directions_;
  const std::vector<After> after_;
  const std::vector<uint32_t> sweeps_;
  std::optional<Found> first_;
};

}  // namespace

Result<std::optional<NonFinite>> first_non_finite(const Observer& observer) {
  return Search(observer).run();
}

}  // namespace rnnc::debug
