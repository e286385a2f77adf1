// 1. Link what may be chains: equal ops, or sums and differences, one the only use of the other.
// 2. Level by level, each of what takes values of those before it, give instructions their places:
//    loads by the element, others by their op and what they take, as far as that is in a place
//    itself at a distance from the first such operand. What has few like it has no place. Of linked
//    ops take those as chains whose other operands are at one place after the other.
// 3. Cut kinds of instructions into families, so that each takes whole ones.
// 4. What is in a family that is short, or taken by what is in none, stands alone, and what it is
//    taken by has another place: again from 2, until all families hold.
#include "passes/reroll/kernel_families.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "passes/reroll/chain_links.h"

namespace rnnc {
namespace {

using Kind = Instruction::Kind;

constexpr int kMostRounds = 16;

class FamilyFinder {
 public:
  FamilyFinder(const Kernel& kernel, const std::vector<Access>& accesses,
               const std::vector<LoopCarry>& carries, const FamilyOptions& options)
      : kernel_(kernel),
        body_(kernel.body),
        accesses_(accesses),
        least_(options.least),
        forms_(options.forms),
        nests_(options.nests),
        alone_(body_.size(), false),
        unlinked_(body_.size(), false),
        uses_(body_.size(), 0) {
    for (uint32_t i = 0; i < body_.size(); ++i) {
      const Kind kind = body_[i].kind;
      if (kind == Kind::Load) unlinked_[i] = kernel.arguments[body_[i].argument].count > 1;
      for (const uint32_t operand : body_[i].operands) {
        ++uses_[operand];
        if (unlinked_[operand] && kind != Kind::Last) unlinked_[i] = true;
      }
    }
    std::vector<uint32_t> load_of(kernel.arguments.size());
    for (uint32_t i = 0; i < body_.size(); ++i) {
      if (body_[i].kind == Kind::Load) load_of[body_[i].argument] = i;
    }
    for (const LoopCarry& carry : carries) {
      carried_load_[carry.store] = load_of[carry.load];
    }
  }

  KernelFamilies run() {
    for (int round = 0; round < (nests_ ? 2 : 1) * kMostRounds; ++round) {
      changed_ = false;
      link();
      place_all();
      if (changed_) continue;
      cut();
      make_families();
      check_uses();
      if (!changed_) check_memory();
      if (!changed_) return std::move(result_);
    }
    return {{}, {}, {}};
  }

 private:
  /// What instructions of a kind take: of which kinds, how many positions on.
  struct KindFacts {
    std::vector<std::pair<int64_t, int64_t>> takes;
    bool loads = false;
  };
  struct Range {
    int64_t begin = 0;
    int64_t end = 0;
    friend auto operator<=>(const Range&, const Range&) = default;
  };

  // ---- Step 1 ----

  void link() {
    previous_.assign(body_.size(), std::nullopt);
    is_followed_.assign(body_.size(), false);
    std::vector<int> depth(body_.size(), 1);
    for (uint32_t i = 0; i < body_.size(); ++i) {
      for (const uint32_t operand : body_[i].operands) {
        if (!may_follow(operand, i)) continue;
        if (previous_[i] && depth[*previous_[i]] >= depth[operand]) continue;
        previous_[i] = operand;
      }
      if (previous_[i]) depth[i] = depth[*previous_[i]] + 1;
    }
    // Only those that are long enough: a sum of three values is no chain.
    std::vector<bool> is_long(body_.size(), false);
    for (uint32_t i = static_cast<uint32_t>(body_.size()); i-- > 0;) {
      if (!previous_[i]) continue;
      is_long[i] = is_long[i] || depth[i] >= least_;
      if (is_long[i]) {
        is_long[*previous_[i]] = is_followed_[*previous_[i]] = true;
      } else {
        previous_[i].reset();
      }
    }
  }

  bool may_follow(uint32_t a, uint32_t b) const {
    const Instruction& first = body_[a];
    const Instruction& second = body_[b];
    const bool chains = first.kind == Kind::Last && second.kind == Kind::Last &&
                        first.argument == second.argument && second.operands[0] == a;
    const bool scalars = first.kind == Kind::Scalar && second.kind == Kind::Scalar &&
                         (first.op == second.op || (is_sum(first.op) && is_sum(second.op)));
    return (chains || scalars) && second.operands.size() == 2 && first.vector == second.vector &&
           uses_[a] == 1 && !unlinked_[a] && !unlinked_[b];
  }

  static bool is_sum(Op op) { return op == Op::Add || op == Op::Sub; }

  // ---- Step 2 ----

  void place_all() {
    kinds_.clear();
    facts_.clear();
    chains_.clear();
    result_.places.assign(body_.size(), {});
    for (const std::vector<uint32_t>& level : levels()) {
      placed_.clear();
      if (nests_) find_outer(level);
      if (changed_) return;
      for (const uint32_t i : level) {
        if (is_followed_[i]) continue;  // placed with the last one
        if (previous_[i]) {
          place_chain(linked_to(i));
        } else {
          place(i);
        }
      }
      displace_few();
    }
  }

  std::vector<std::vector<uint32_t>> levels() const {
    std::vector<std::vector<uint32_t>> result;
    std::vector<size_t> level(body_.size(), 0);
    for (uint32_t i = 0; i < body_.size(); ++i) {
      for (const uint32_t operand : body_[i].operands) {
        level[i] = std::max(level[i], level[operand] + 1);
      }
      if (level[i] >= result.size()) result.resize(level[i] + 1);
      result[level[i]].push_back(i);
    }
    return result;
  }

  /// Of what has just been placed.
  void displace_few() {
    const auto place = [this](uint32_t id) {
      return std::pair(result_.places[id].kind, result_.places[id].position);
    };
    std::ranges::sort(placed_, {}, place);
    for (size_t begin = 0, end = 0; begin < placed_.size(); begin = end) {
      for (end = begin + 1; end < placed_.size(); ++end) {
        const auto [kind, position] = place(placed_[end - 1]);
        if (place(placed_[end]) != std::pair(kind, position + 1)) break;
      }
      if (static_cast<int64_t>(end - begin) >= least_) continue;
      for (size_t i = begin; i < end; ++i) displaced_.push_back(placed_[i]);
    }
    for (const uint32_t id : std::exchange(displaced_, {})) result_.places[id] = {};
  }

  std::vector<uint32_t> linked_to(uint32_t last) const {
    std::vector<uint32_t> members = {last};
    while (previous_[members.back()]) members.push_back(*previous_[members.back()]);
    std::ranges::reverse(members);
    return members;
  }

  bool is_placed(uint32_t id) const { return result_.places[id].kind >= 0; }

  void place(uint32_t i) {
    if (alone_[i]) return;
    const Instruction& instruction = body_[i];
    switch (instruction.kind) {
      case Kind::Load:
        if (kernel_.arguments[instruction.argument].product) return;
        return place_at(i, element_position(i), element_key(i), {{}, true});
      case Kind::Store:
      case Kind::Scalar:
      case Kind::Reduce:
      case Kind::Last:
        return place_by_operands(i);
      default:
        return;
    }
  }

  int64_t width(uint32_t i) const { return kernel_.elements(kernel_.arguments[body_[i].argument]); }
  const Access& access(uint32_t i) const { return accesses_[body_[i].argument]; }
  int64_t element_position(uint32_t i) const { return access(i).column / width(i); }

  /// The same for elements of one array.
  std::vector<int64_t> element_key(uint32_t i) const {
    const Access& at = access(i);
    return {static_cast<int64_t>(body_[i].kind),
            at.buffer,
            at.delay,
            at.stride,
            at.column % width(i),
            width(i),
            body_[i].vector};
  }

  /// Whether it is a store to what may lie anywhere.
  bool has_form(uint32_t i) const {
    return body_[i].kind == Kind::Store && forms_ != nullptr && (*forms_)[body_[i].argument] >= 0;
  }

  void place_by_operands(uint32_t i) {
    const Instruction& instruction = body_[i];
    const auto first = std::ranges::find_if(
        instruction.operands, [this](uint32_t operand) { return is_placed(operand); });
    if (first == instruction.operands.end()) return;
    const int64_t position = result_.places[*first].position;
    const bool is_apart = has_form(i);
    const bool stores = instruction.kind == Kind::Store && !is_apart;
    std::vector<int64_t> key = stores ? element_key(i) : std::vector<int64_t>();
    if (is_apart) key.push_back((*forms_)[instruction.argument]);
    key.insert(key.end(),
               {static_cast<int64_t>(instruction.kind), static_cast<int64_t>(instruction.op),
                instruction.vector, stores ? element_position(i) - position : 0,
                instruction.kind == Kind::Last ? instruction.argument : 0});
    KindFacts facts;
    for (const uint32_t operand : instruction.operands) {
      const KernelPlace& place = result_.places[operand];
      if (is_placed(operand)) facts.takes.emplace_back(place.kind, place.position - position);
      key.push_back(place.kind);
      key.push_back(is_placed(operand) ? place.position - position : operand);
    }
    place_at(i, position, std::move(key), std::move(facts));
  }

  void place_at(uint32_t i, int64_t position, std::vector<int64_t> key, KindFacts facts) {
    const auto [found, is_new] = kinds_.try_emplace(std::move(key), std::ssize(facts_));
    if (is_new) facts_.push_back(std::move(facts));
    result_.places[i] = {found->second, position};
    placed_.push_back(i);
  }

  /// Of what takes each element of one array with each of another, as the turns of a loop in a loop
  /// do, the elements that stay the same from one such turn to the next stand alone.
  void find_outer(const std::vector<uint32_t>& level) {
    std::map<std::vector<int64_t>, std::vector<uint32_t>> pairs;
    for (const uint32_t i : level) {
      const Instruction& instruction = body_[i];
      const bool two = instruction.kind == Kind::Scalar && instruction.operands.size() == 2 &&
                       is_placed(instruction.operands[0]) && is_placed(instruction.operands[1]);
      if (!two) continue;
      std::vector<int64_t> key = {static_cast<int64_t>(instruction.op)};
      for (const uint32_t operand : instruction.operands) {
        key.push_back(result_.places[operand].kind);
      }
      pairs[std::move(key)].push_back(i);
    }
    for (const auto& [key, ids] : pairs) {
      for (const size_t outer : {0, 1}) {
        const auto stays = [&](size_t n) {
          const std::vector<uint32_t>& before = body_[ids[n - 1]].operands;
          const std::vector<uint32_t>& after = body_[ids[n]].operands;
          return before[outer] == after[outer] && before[1 - outer] != after[1 - outer];
        };
        int64_t runs = 1;
        for (size_t n = 1; n < ids.size(); ++n) runs += stays(n) ? 0 : 1;
        if (runs < kLeastOuterTurns || runs * least_ > std::ssize(ids)) continue;
        for (const uint32_t id : ids) stand_alone(body_[id].operands[outer]);
      }
    }
  }

  // ---- Chains ----

  void place_chain(const std::vector<uint32_t>& members) {
    const ChainLinks all(body_, result_.places);
    std::vector<ChainLink> links = {{}};
    for (size_t i = 1; i < members.size(); ++i) {
      links.push_back(all.link(members[i], members[i - 1]));
    }
    links[0] = all.first(members[0], links);
    size_t begin = 0;
    size_t placed = 0;
    while (begin < links.size()) {
      const ChainPattern pattern = all.pattern(links, begin, least_);
      if (pattern.positions < least_) {
        ++begin;
        continue;
      }
      for (; placed < begin; ++placed) place(links[placed].member);
      add_chain(links, begin, pattern);
      begin += pattern.steps * static_cast<size_t>(pattern.positions);
      placed = begin;
    }
    for (; placed < links.size(); ++placed) place(links[placed].member);
  }

  void add_chain(const std::vector<ChainLink>& links, size_t begin, const ChainPattern& pattern) {
    KernelFamily chain;
    const auto& [steps, positions, direction] = pattern;
    const KernelPlace first = result_.places[links[begin].operand];
    KindFacts facts;
    for (size_t i = 0; i < steps; ++i) {
      const KernelPlace& place = result_.places[links[begin + i].operand];
      chain.steps.push_back(
          {place.kind, place.position - first.position, links[begin + i].swapped});
      facts.takes.emplace_back(place.kind, place.position - first.position);
    }
    for (size_t i = 0; i < steps * static_cast<size_t>(positions); ++i) {
      chain.members.push_back(links[begin + i].member);
    }
    const std::vector<uint32_t>& operands = body_[links[begin].member].operands;
    chain.initial = operands[0] == links[begin].operand ? operands[1] : operands[0];
    chain.descending = direction < 0;
    if (steps == 1) take_first(chain, {first.kind, first.position - direction});
    const int64_t from_first = chain.neutral || chain.members[0] != links[begin].member ? 1 : 0;
    const int64_t start = first.position - from_first * direction;
    chain.begin = chain.descending ? start - chain.count() + 1 : start;
    chain.kind = std::ssize(facts_);
    facts_.push_back(std::move(facts));
    chains_.push_back(std::move(chain));
  }

  /// The initial value may be one more of what is added up, or such a sum.
  void take_first(KernelFamily& chain, const KernelPlace& wanted) {
    const uint32_t initial = chain.initial;
    const auto is_wanted = [&](uint32_t id) {
      return is_placed(id) && result_.places[id].kind == wanted.kind &&
             result_.places[id].position == wanted.position;
    };
    const Op op = body_[chain.members[0]].op;
    if (!neutral_of(op)) return;
    if (is_wanted(initial)) {
      chain.neutral = neutral_of(op);
    } else if (body_[initial].op == op && may_follow(initial, chain.members[0])) {
      const std::vector<uint32_t>& operands = body_[initial].operands;
      const auto found = std::ranges::find_if(operands, is_wanted);
      if (found == operands.end()) return;
      result_.places[initial] = {};
      chain.members.insert(chain.members.begin(), initial);
      chain.initial = found == operands.begin() ? operands[1] : operands[0];
    }
  }

  // ---- Step 3 ----

  /// By kind, where families may begin and end.
  void cut() {
    at_.assign(facts_.size(), {});
    cuts_.assign(facts_.size(), {});
    for (uint32_t i = 0; i < body_.size(); ++i) {
      const KernelPlace& place = result_.places[i];
      if (place.kind < 0 || body_[i].kind == Kind::Load) continue;
      if (!at_[place.kind].try_emplace(place.position, i).second) stand_alone(i);
    }
    for (size_t kind = 0; kind < facts_.size(); ++kind) {
      for (const auto& [position, id] : at_[kind]) {
        if (!at_[kind].contains(position - 1)) cuts_[kind].insert(position);
        if (!at_[kind].contains(position + 1)) cuts_[kind].insert(position + 1);
      }
    }
    for (const KernelFamily& chain : chains_) {
      cuts_[chain.kind] = {chain.begin, chain.begin + chain.count()};
    }
    share_cuts();
  }

  /// Between kinds of which one takes the other, as far as they lie inside.
  void share_cuts() {
    std::vector<std::vector<std::pair<int64_t, int64_t>>> beside(facts_.size());
    std::vector<Range> inside(facts_.size());
    std::vector<std::pair<int64_t, int64_t>> open;  // kind and position
    for (size_t kind = 0; kind < facts_.size(); ++kind) {
      for (const auto& [taken, offset] : facts_[kind].takes) {
        if (facts_[taken].loads) continue;
        beside[kind].emplace_back(taken, offset);
        beside[taken].emplace_back(static_cast<int64_t>(kind), -offset);
      }
      if (cuts_[kind].empty()) continue;
      inside[kind] = {*cuts_[kind].begin() + 1, *cuts_[kind].rbegin()};
      for (const int64_t cut : cuts_[kind]) open.emplace_back(static_cast<int64_t>(kind), cut);
    }
    while (!open.empty()) {
      const auto [kind, position] = open.back();
      open.pop_back();
      for (const auto& [other, offset] : beside[kind]) {
        const int64_t cut = position + offset;
        if (cut < inside[other].begin || cut >= inside[other].end) continue;
        if (cuts_[other].insert(cut).second) open.emplace_back(other, cut);
      }
    }
  }

  void make_families() {
    result_.families.clear();
    result_.of.assign(body_.size(), std::nullopt);
    for (KernelFamily& chain : chains_) {
      if (cuts_[chain.kind].size() > 2 || chain.count() < least_) {
        for (const uint32_t member : chain.members) unlink(member);
      } else {
        result_.families.push_back(std::move(chain));
      }
    }
    for (size_t kind = 0; kind < facts_.size(); ++kind) {
      KernelFamily family;
      for (const auto& [position, id] : at_[kind]) {
        if (!family.members.empty() && cuts_[kind].contains(position)) {
          add_family(std::exchange(family, {}));
        }
        if (family.members.empty()) family.begin = position;
        family.kind = static_cast<int64_t>(kind);
        family.members.push_back(id);
      }
      if (!family.members.empty()) add_family(std::move(family));
    }
    std::ranges::sort(result_.families, {}, [](const KernelFamily& family) {
      return *std::ranges::min_element(family.members);
    });
    for (size_t i = 0; i < result_.families.size(); ++i) {
      for (const uint32_t member : result_.families[i].members) result_.of[member] = i;
    }
  }

  void add_family(KernelFamily family) {
    if (family.count() >= least_) {
      result_.families.push_back(std::move(family));
    } else {
      std::ranges::for_each(family.members, [this](uint32_t id) { stand_alone(id); });
    }
  }

  // ---- Step 4 ----

  void stand_alone(uint32_t id) {
    changed_ = changed_ || !alone_[id];
    alone_[id] = true;
  }

  void unlink(uint32_t id) {
    changed_ = changed_ || !unlinked_[id];
    unlinked_[id] = true;
  }

  bool is_computed_in_place(uint32_t id) const {
    return result_.of[id] && !result_.families[*result_.of[id]].is_chain();
  }

  void check_uses() {
    taken_alone_.assign(body_.size(), false);
    for (uint32_t i = 0; i < body_.size(); ++i) {
      if (result_.of[i]) continue;
      for (const uint32_t operand : body_[i].operands) take_alone(operand);
    }
    for (const KernelFamily& family : result_.families) {
      if (family.is_chain() && !family.neutral) take_alone(family.initial);
    }
  }

  void take_alone(uint32_t id) {
    taken_alone_[id] = true;
    if (is_computed_in_place(id)) stand_alone(id);
  }

  /// What families load of a kind.
  std::set<Range> loaded(int64_t kind) const {
    std::set<Range> ranges;
    for (const KernelFamily& family : result_.families) {
      for (const auto& [taken, offset] : facts_[family.kind].takes) {
        if (taken != kind) continue;
        ranges.insert({family.begin + offset, family.begin + offset + family.count()});
      }
    }
    return ranges;
  }

  /// Elements of carries are loaded and stored by families or by neither, and nothing is loaded
  /// that another iteration has stored.
  void check_memory() {
    std::set<uint32_t> carried;  // loads, of arrays
    for (const KernelFamily& family : result_.families) {
      if (body_[family.members[0]].kind != Kind::Store) continue;
      if (holds(family)) {
        for (const uint32_t member : family.members) {
          const auto carry = carried_load_.find(body_[member].argument);
          if (carry != carried_load_.end()) carried.insert(carry->second);
        }
      } else {
        std::ranges::for_each(family.members, [this](uint32_t id) { stand_alone(id); });
      }
    }
    for (const auto& [store, load] : carried_load_) {
      if (!carried.contains(load)) stand_alone(load);
    }
  }

  bool holds(const KernelFamily& stores) const {
    const auto is_carried = [this](uint32_t id) {
      return carried_load_.contains(body_[id].argument);
    };
    const auto all = std::ranges::count_if(stores.members, is_carried);
    if (all == 0) return !loads_what_it_stores(access(stores.members[0]));
    if (all < std::ssize(stores.members)) return false;
    const auto load_of = [this](uint32_t id) { return carried_load_.at(body_[id].argument); };
    const KernelPlace first = result_.places[load_of(stores.members[0])];
    for (size_t i = 0; i < stores.members.size(); ++i) {
      const uint32_t load = load_of(stores.members[i]);
      const KernelPlace& place = result_.places[load];
      if (place.kind < 0 || place.kind != first.kind || taken_alone_[load] ||
          place.position != first.position + static_cast<int64_t>(i)) {
        return false;
      }
    }
    const Range own = {first.position, first.position + stores.count()};
    const std::set<Range> ranges = loaded(first.kind);
    return ranges.contains(own) && std::ranges::none_of(ranges, [&](const Range& range) {
             return range != own && range.begin < own.end && own.begin < range.end;
           });
  }

  bool loads_what_it_stores(const Access& stored) const {
    for (uint32_t i = 0; i < body_.size(); ++i) {
      if (body_[i].kind != Kind::Load || kernel_.arguments[body_[i].argument].product) continue;
      if (access(i).buffer == stored.buffer && access(i).delay == stored.delay) return true;
    }
    return false;
  }

  const Kernel& kernel_;
  const std::vector<Instruction>& body_;
  const std::vector<Access>& accesses_;
  const int64_t least_;
  const std::vector<int64_t>* forms_;
  const bool nests_;
  std::map<uint32_t, uint32_t> carried_load_;  // by the argument that is stored: instruction
  // Per instruction:
  std::vector<bool> alone_;     // it has no place
  std::vector<bool> unlinked_;  // it is in no chain
  std::vector<int> uses_;
  bool changed_ = false;
  // Of a round:
  std::vector<std::optional<uint32_t>> previous_;
  std::vector<bool> is_followed_;
  std::vector<bool> taken_alone_;
  std::vector<uint32_t> placed_;     // of a level…
  std::vector<uint32_t> displaced_;  // …those with few like them
  std::map<std::vector<int64_t>, int64_t> kinds_;
  std::vector<KindFacts> facts_;  // by kind
  std::vector<KernelFamily> chains_;
  std::vector<std::map<int64_t, uint32_t>> at_;  // by kind and position
  std::vector<std::set<int64_t>> cuts_;          // by kind
  KernelFamilies result_;
};

}  // namespace

KernelFamilies find_families(const Kernel& kernel, const std::vector<Access>& accesses,
                             const std::vector<LoopCarry>& carries, const FamilyOptions& options) {
  return FamilyFinder(kernel, accesses, carries, options).run();
}

}  // namespace rnnc
