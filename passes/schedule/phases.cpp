// 1. Products that are added up become one: what adds to results of an earlier one stands in its
//    own place with that.
// 2. Products whose results only one kernel takes, whole and in the same stage, go to it, if it has
//    no products of its own yet: its phase would wait for them first.
// 3. Each of the others gets kernels, one for each length of results, that only store them. What
//    else would have copied these does so no more.
#include "passes/schedule/phases.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "passes/schedule/group_readers.h"

namespace rnnc {
namespace {

class Phases {
 public:
  Phases(const Graph& graph, Schedule& schedule, uint32_t stage)
      : graph_(graph),
        schedule_(schedule),
        values_(schedule.values),
        index_(stage),
        groups_(schedule.stages[stage].groups),
        readers_(graph, schedule.values, schedule.stages[stage]) {}

  void run() {
    for (size_t i = 0; i < groups_.size(); ++i) {
      const auto* kernel = std::get_if<FusedGroup>(&groups_[i]);
      if (kernel != nullptr && !kernel->products.empty()) full_.insert(i);
    }
    std::vector<Group> phases;
    for (size_t i = 0; i < groups_.size(); ++i) {
      if (auto* product = std::get_if<ProductGroup>(&groups_[i])) {
        if (!is_added_to(*product, i)) place(sum_up_to(i), phases);
      } else {
        phases.push_back(std::move(groups_[i]));
      }
    }
    groups_ = std::move(phases);
  }

 private:
  // ---- Step 1 ----

  static bool have_same_results(const ProductGroup& a, const ProductGroup& b) {
    return a.members[0].result == b.members[0].result;
  }

  bool is_added_to(const ProductGroup& product, size_t index) const {
    return std::any_of(groups_.begin() + static_cast<std::ptrdiff_t>(index) + 1, groups_.end(),
                       [&](const Group& group) {
                         const auto* later = std::get_if<ProductGroup>(&group);
                         return later != nullptr && have_same_results(*later, product);
                       });
  }

  /// The product and those that it adds to, in order.
  std::vector<ProductGroup> sum_up_to(size_t index) const {
    const auto& last = std::get<ProductGroup>(groups_[index]);
    std::vector<ProductGroup> sum;
    for (size_t i = 0; i <= index; ++i) {
      const auto* product = std::get_if<ProductGroup>(&groups_[i]);
      if (product == nullptr || !have_same_results(*product, last)) continue;
      sum.push_back(*product);
      sum.back().accumulates = false;
    }
    return sum;
  }

  // ---- Steps 2 and 3 ----

  void place(std::vector<ProductGroup> sum, std::vector<Group>& phases) {
    if (const std::optional<size_t> reader = only_reader(sum[0])) {
      auto& kernel = std::get<FusedGroup>(groups_[*reader]);
      for (const ProductGroup::Member& member : sum[0].members) {
        std::erase(kernel.copies, member.result);
      }
      std::ranges::move(sum, std::back_inserter(kernel.products));
      kernel.takes_late = true;
      return;
    }
    std::set<int64_t> lengths;
    for (const ProductGroup::Member& member : sum[0].members) {
      const int64_t length = length_of(member);
      if (lengths.insert(length).second) phases.emplace_back(storing_kernel(sum, length));
      for (Group& group : groups_) {
        if (auto* kernel = std::get_if<FusedGroup>(&group)) {
          std::erase(kernel->copies, member.result);
        }
      }
    }
  }

  int64_t length_of(const ProductGroup::Member& member) const {
    return element_count(graph_[member.node].type.shape);
  }

  std::optional<size_t> only_reader(const ProductGroup& product) const {
    std::set<size_t> readers;
    for (const ProductGroup::Member& member : product.members) {
      const GroupReaders::Readers& found = readers_.of(member.result);
      if (!found.memory.empty() || !is_local(member.result)) return std::nullopt;
      readers.insert(found.whole.begin(), found.whole.end());
    }
    if (readers.size() != 1 || full_.contains(*readers.begin())) return std::nullopt;
    const auto& kernel = std::get<FusedGroup>(groups_[*readers.begin()]);
    const bool fits = std::ranges::all_of(
        product.members, [&](const auto& member) { return length_of(member) == kernel.length; });
    return fits ? std::optional(*readers.begin()) : std::nullopt;
  }

  /// Whether nothing outside the stage reads it.
  bool is_local(NodeId id) const {
    return std::ranges::all_of(values_.users[id], [&](NodeId user) {
      if (user == kNoNode) return true;  // a kernel of the stage copies it
      const ValueKind kind = values_.kind[user];
      const bool is_part = kind == ValueKind::View || kind == ValueKind::Spread;
      return is_part ? is_local(user) : schedule_.stage[user] == index_;
    });
  }

  FusedGroup storing_kernel(const std::vector<ProductGroup>& sum, int64_t length) const {
    FusedGroup kernel;
    kernel.length = length;
    for (const ProductGroup& product : sum) {
      ProductGroup& part = kernel.products.emplace_back(product);
      std::erase_if(part.members, [&](const auto& member) { return length_of(member) != length; });
    }
    return kernel;
  }

  const Graph& graph_;
  const Schedule& schedule_;
  const Values& values_;
  const uint32_t index_;
  std::vector<Group>& groups_;  // of that stage
  const GroupReaders readers_;  // as they were
  std::set<size_t> full_;       // kernels that have products of their own
};

bool is_empty(const Group& group) {
  const auto* kernel = std::get_if<FusedGroup>(&group);
  return kernel != nullptr && kernel->nodes.empty() && kernel->copies.empty() &&
         kernel->products.empty();
}

}  // namespace

void form_phases(const Graph& graph, Schedule& schedule, uint32_t stage) {
  std::vector<Group>& groups = schedule.stages[stage].groups;
  const auto is_move = [](const Group& group) { return std::holds_alternative<MoveGroup>(group); };
  if (std::ranges::any_of(groups, is_move)) return;
  Phases(graph, schedule, stage).run();
  std::erase_if(groups, is_empty);
}

}  // namespace rnnc
