// A loop is written out turn by turn, so its nodes follow each other in the order of the text; so
// do the launches of layers.
// 1. Marks that come again in the same order, one stretch behind the other, are its turns.
// 2. A turn counts as the one before if its nodes have the same kinds and shapes, and read the same:
//    of their own turn, of the turn before, or of what is outside. The first turns of a stack may be
//    of other shapes, and stay apart.
// 3. A turn is looked through for loops of its own.
#include "runtime/explain/repeats.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace rnnc::explain {
namespace {

constexpr uint32_t kFewestNodes = 3;  // of a turn of the step Graph that is worth it
constexpr int kMostTries = 16;        // of lengths of a turn that begins at a node

/// Whether the label says what is done, and no name.
bool is_work(const GraphPicture::Node& node) {
  using Kind = GraphPicture::Kind;
  return node.launch.empty() && (node.kind == Kind::Elementwise || node.kind == Kind::Reduction);
}

class RepeatFinder {
 public:
  RepeatFinder(GraphPicture& picture, const std::vector<std::string>& marks)
      : picture_(picture), size_(static_cast<uint32_t>(picture.nodes.size())) {
    std::map<std::string, uint32_t> numbers;
    for (const std::string& mark : marks) {
      const auto number = static_cast<uint32_t>(numbers.size()) + 1;
      mark_.push_back(mark.empty() ? 0 : numbers.try_emplace(mark, number).first->second);
    }
    for (const GraphPicture::Node& node : picture.nodes) has_launches_ |= !node.launch.empty();
    operands_.resize(size_);
    for (const GraphPicture::Edge& edge : picture.edges) {
      operands_[edge.to].emplace_back(edge.from, edge.through_time);
    }
  }

  void search(uint32_t begin, uint32_t end) {
    while (begin < end) {
      const std::optional<GraphPicture::Repeat> found = repeat_at(begin, end);
      if (!found) {
        ++begin;
        continue;
      }
      picture_.repeats.push_back(*found);
      search(found->first, found->first + found->length);
      begin = found->first + found->length * found->count;
    }
  }

 private:
  /// The one that covers most: of nested loops the outer one.
  std::optional<GraphPicture::Repeat> repeat_at(uint32_t begin, uint32_t end) const {
    if (mark_[begin] == 0) return std::nullopt;
    std::optional<GraphPicture::Repeat> best;
    int tries = 0;
    for (uint32_t next = begin + 1; next < end && tries < kMostTries; ++next) {
      if (mark_[next] != mark_[begin]) continue;
      ++tries;
      const auto found = repeat_of(begin, next - begin, end);
      const auto covered = [](const GraphPicture::Repeat& one) { return one.length * one.count; };
      if (found && (!best || covered(*found) > covered(*best))) best = found;
    }
    return best;
  }

  /// Of turns of `length` nodes, from the first one on that the next one is like.
  std::optional<GraphPicture::Repeat> repeat_of(uint32_t begin, uint32_t length,
                                                uint32_t end) const {
    const uint32_t turns = is_worth_it(begin, length) ? turns_at(begin, length, end) : 1;
    for (uint32_t turn = 0; turn + 1 < turns; ++turn) {
      const uint32_t first = begin + turn * length;
      uint32_t count = 1;
      while (turn + count < turns && is_alike(first, length, count)) ++count;
      if (count > 1) return GraphPicture::Repeat{first, length, count};
    }
    return std::nullopt;
  }

  /// Of launches, a turn is one or more of them; what they read is none by itself.
  bool is_worth_it(uint32_t begin, uint32_t length) const {
    const auto is_launch = [](const GraphPicture::Node& node) { return !node.launch.empty(); };
    const auto turn = picture_.nodes.begin() + begin;
    return has_launches_ ? std::any_of(turn, turn + length, is_launch) : length >= kFewestNodes;
  }

  /// How often the marks of `length` nodes come again, the first time included.
  uint32_t turns_at(uint32_t begin, uint32_t length, uint32_t end) const {
    uint32_t at = begin + length;
    while (at < end && mark_[at] != 0 && mark_[at] == mark_[at - length]) ++at;
    const bool marked = std::all_of(mark_.begin() + begin, mark_.begin() + begin + length,
                                    [](uint32_t mark) { return mark != 0; });
    return marked ? (at - begin) / length : 1;
  }

  /// Whether turn `turn`, counted from `first` on, does what the one before it does.
  bool is_alike(uint32_t first, uint32_t length, uint32_t turn) const {
    const uint32_t begin = first + turn * length;
    for (uint32_t id = begin; id < begin + length; ++id) {
      const GraphPicture::Node& node = picture_.nodes[id];
      const GraphPicture::Node& before = picture_.nodes[id - length];
      const auto& operands = operands_[id];
      const auto& operands_before = operands_[id - length];
      const bool same_work = !is_work(node) || node.label == before.label;
      if (node.kind != before.kind || node.detail != before.detail || !same_work ||
          operands.size() != operands_before.size()) {
        return false;
      }
      for (size_t i = 0; i < operands.size(); ++i) {
        const auto [from, through_time] = operands[i];
        const auto [from_before, through_time_before] = operands_before[i];
        const bool of_turn = from >= begin && from < begin + length;
        const bool of_turn_before = from < begin && from >= begin - length;
        // What the first turn reads of outside, the others may read of the turn before.
        const bool same = of_turn                       ? from_before == from - length
                          : of_turn_before && turn == 1 ? from_before < first
                          : of_turn_before              ? from_before == from - length
                                                        : from_before == from;
        if (!same || through_time != through_time_before) return false;
      }
    }
    return true;
  }

  GraphPicture& picture_;
  const uint32_t size_;
  bool has_launches_ = false;
  std::vector<uint32_t> mark_;  // by node; equal marks have equal numbers; 0: none
  std::vector<std::vector<std::pair<uint32_t, bool>>> operands_;  // and whether through time
};

}  // namespace

void find_repeats(GraphPicture& picture, const std::vector<std::string>& marks) {
  RepeatFinder(picture, marks).search(0, static_cast<uint32_t>(picture.nodes.size()));
}

}  // namespace rnnc::explain
