// 1. Find the zone of each instruction and family: what is alone in zone z comes before the loops
//    of zone z, and those of zone z + 1 may take last values of their chains.
// 2. Let families wait for the first loop that takes them, so that what loops take of each other
//    need not be kept. What is stored waits for all that is loaded from there.
// 3. Write zone by zone what is alone, and then a loop for all families of a count and direction;
//    behind all, the stores that are in none.
#include "passes/reroll/rerolled_kernel.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace rnnc {
namespace {

using Kind = Instruction::Kind;

/// In the order in which they run.
struct LoopPlace {
  int64_t zone = 0;
  bool descending = false;
  int64_t count = 0;
  friend auto operator<=>(const LoopPlace&, const LoopPlace&) = default;
};

class Reroller {
 public:
  Reroller(const Kernel& kernel, const std::vector<LoopCarry>& carries, const KernelFamilies& found)
      : kernel_(kernel),
        body_(kernel.body),
        carries_(carries),
        found_(found),
        families_(found.families),
        zone_(body_.size(), 0),
        place_(families_.size()),
        is_zoned_(families_.size(), false),
        is_taken_alone_(body_.size(), false),
        id_(body_.size(), 0),
        family_id_(families_.size(), 0),
        argument_(kernel.arguments.size()) {
    for (uint32_t i = 0; i < body_.size(); ++i) {
      const KernelPlace& place = found.places[i];
      if (body_[i].kind == Kind::Load && place.kind >= 0) loads_[{place.kind, place.position}] = i;
    }
  }

  RerolledKernel run() {
    find_zones();
    wait_for_loops(/*stores=*/false);
    place_stores();
    wait_for_loops(/*stores=*/true);
    find_taken_alone();
    add_products();
    result_.kernel.name = kernel_.name;
    result_.kernel.length = kernel_.length;
    write();
    add_carries();
    return std::move(result_);
  }

 private:
  bool is_store(const KernelFamily& family) const {
    return body_[family.members[0]].kind == Kind::Store;
  }

  /// An operand of a family's instructions at its first position.
  struct Operand {
    uint32_t id = 0;       // of some position
    bool alone = true;     // the same at all of them…
    int64_t kind = -1;     // …or the element of this kind
    int64_t position = 0;  // at this position
  };

  Operand operand_at(uint32_t id) const {
    if (!found_.is_place(id)) return {id};
    return {id, false, found_.places[id].kind, found_.places[id].position};
  }

  /// Of chains: what is not carried.
  std::vector<Operand> operands_of(const KernelFamily& family) const {
    std::vector<Operand> result;
    if (!family.is_chain()) {
      for (const uint32_t id : body_[family.members[0]].operands) result.push_back(operand_at(id));
      return result;
    }
    for (size_t i = 0; i < family.steps.size(); ++i) {
      const std::vector<uint32_t>& operands = body_[family.members[i]].operands;
      const uint32_t before = i == 0 ? family.initial : family.members[i - 1];
      const auto& [kind, offset, swapped] = family.steps[i];
      result.push_back(
          {operands[operands[0] == before ? 1 : 0], false, kind, family.begin + offset});
    }
    return result;
  }

  /// The family that the operand is of, if it is no load.
  std::optional<size_t> family_of(const Operand& operand) const {
    return operand.alone ? std::nullopt : found_.of[operand.id];
  }

  // ---- Step 1 ----

  void find_zones() {
    for (uint32_t i = 0; i < body_.size(); ++i) {
      if (!found_.of[i]) {
        for (const uint32_t operand : body_[i].operands) {
          zone_[i] = std::max(zone_[i], zone_behind(operand));
        }
      } else if (const size_t family = *found_.of[i]; !is_zoned_[family]) {
        is_zoned_[family] = true;
        place_[family] = first_place(families_[family]);
      }
    }
    for (size_t i = 0; i < families_.size(); ++i) {
      if (!families_[i].is_chain()) place_[i].descending = only_descends(place_[i]);
    }
  }

  /// Where a value that is alone, or the last one of a chain, is at hand.
  int64_t zone_behind(uint32_t id) const {
    return found_.of[id] ? place_[*found_.of[id]].zone + 1 : zone_[id];
  }

  LoopPlace first_place(const KernelFamily& family) const {
    LoopPlace place = {0, family.descending, family.count()};
    if (family.is_chain() && !family.neutral) place.zone = zone_behind(family.initial);
    for (const Operand& operand : operands_of(family)) {
      if (operand.alone) {
        place.zone = std::max(place.zone, zone_behind(operand.id));
      } else if (const std::optional<size_t> taken = family_of(operand)) {
        place.zone = std::max(place.zone, place_[*taken].zone);
      }
    }
    return place;
  }

  bool only_descends(const LoopPlace& place) const {
    bool descends = false;
    for (size_t i = 0; i < families_.size(); ++i) {
      const bool beside =
          families_[i].is_chain() && place_[i].zone == place.zone && place_[i].count == place.count;
      if (!beside) continue;
      if (!families_[i].descending) return false;
      descends = true;
    }
    return descends;
  }

  // ---- Step 2 ----

  void wait_for_loops(bool stores) {
    std::vector<std::optional<LoopPlace>> first(families_.size());
    for (size_t i = families_.size(); i-- > 0;) {
      const KernelFamily& family = families_[i];
      if (first[i] && !family.is_chain()) place_[i] = *first[i];
      if (is_store(family) && !stores) continue;
      for (const Operand& operand : operands_of(family)) {
        const std::optional<size_t> taken = family_of(operand);
        if (!taken) continue;
        first[*taken] = first[*taken] ? std::min(*first[*taken], place_[i]) : place_[i];
      }
    }
  }

  void place_stores() {
    for (size_t i = 0; i < families_.size(); ++i) {
      if (!is_store(families_[i])) continue;
      for (const Operand& operand : operands_of(families_[i])) {
        const std::optional<size_t> taken = family_of(operand);
        if (taken) place_[i] = std::max(place_[i], place_[*taken]);
      }
      const std::optional<uint32_t> load = carried_load(families_[i]);
      if (!load) continue;
      const KernelPlace& loaded = found_.places[*load];
      for (size_t j = 0; j < families_.size(); ++j) {
        for (const Operand& operand : operands_of(families_[j])) {
          const bool loads = operand.kind == loaded.kind && operand.position == loaded.position;
          if (loads) place_[i] = std::max(place_[i], place_[j]);
        }
      }
    }
  }

  /// What loads the first element of what the family stores, if that is carried.
  std::optional<uint32_t> carried_load(const KernelFamily& stores) const {
    const uint32_t argument = body_[stores.members[0]].argument;
    const auto carry = std::ranges::find(carries_, argument, &LoopCarry::store);
    if (carry == carries_.end()) return std::nullopt;
    const auto load = std::ranges::find_if(body_, [&](const Instruction& instruction) {
      return instruction.kind == Kind::Load && instruction.argument == carry->load;
    });
    return static_cast<uint32_t>(load - body_.begin());
  }

  // ---- Step 3 ----

  void find_taken_alone() {
    for (uint32_t i = 0; i < body_.size(); ++i) {
      if (found_.of[i]) continue;
      for (const uint32_t operand : body_[i].operands) is_taken_alone_[operand] = true;
    }
    for (const KernelFamily& family : families_) {
      if (family.is_chain() && !family.neutral) is_taken_alone_[family.initial] = true;
      for (const Operand& operand : operands_of(family)) {
        if (operand.alone) is_taken_alone_[operand.id] = true;
      }
    }
    // Carries are loaded whether taken or not.
    std::vector<bool> in_family(kernel_.arguments.size(), false);
    for (uint32_t i = 0; i < body_.size(); ++i) {
      if (body_[i].kind == Kind::Store && found_.of[i]) in_family[body_[i].argument] = true;
    }
    std::vector<bool> alone(kernel_.arguments.size(), false);
    for (const LoopCarry& carry : carries_) alone[carry.load] = !in_family[carry.store];
    for (uint32_t i = 0; i < body_.size(); ++i) {
      if (body_[i].kind == Kind::Load && alone[body_[i].argument]) is_taken_alone_[i] = true;
    }
  }

  void write() {
    std::map<LoopPlace, std::vector<size_t>> loops;
    int64_t zones = 1;
    for (size_t i = 0; i < families_.size(); ++i) {
      loops[place_[i]].push_back(i);
      zones = std::max(zones, place_[i].zone + 2);
    }
    for (const int64_t zone : zone_) zones = std::max(zones, zone + 1);
    auto loop = loops.begin();
    for (int64_t zone = 0; zone < zones; ++zone) {
      write_alone(zone);
      for (; loop != loops.end() && loop->first.zone == zone; ++loop) {
        write_loop(loop->first, loop->second);
      }
    }
    for (uint32_t i = 0; i < body_.size(); ++i) {
      if (body_[i].kind == Kind::Store && !found_.of[i]) write(i);
    }
  }

  void write_alone(int64_t zone) {
    for (size_t i = 0; i < families_.size(); ++i) {
      if (!families_[i].is_chain() || place_[i].zone + 1 != zone) continue;
      const uint32_t last = families_[i].members.back();
      id_[last] =
          add({.kind = Kind::Last, .vector = body_[last].vector, .operands = {family_id_[i]}});
    }
    for (uint32_t i = 0; i < body_.size(); ++i) {
      const bool is_here = !found_.of[i] && zone_[i] == zone && body_[i].kind != Kind::Store;
      if (is_here && is_taken_alone_[i]) write(i);
    }
    for (size_t i = 0; i < families_.size(); ++i) {
      const KernelFamily& family = families_[i];
      if (place_[i].zone != zone || !family.neutral) continue;
      neutral_id_[i] = add({.kind = Kind::Constant, .value = *family.neutral, .operands = {}});
    }
  }

  void write(uint32_t i) {
    Instruction instruction = body_[i];
    for (uint32_t& operand : instruction.operands) operand = id_[operand];
    if (instruction.kind == Kind::Load || instruction.kind == Kind::Store) {
      instruction.argument = argument_of(instruction.argument);
    }
    id_[i] = add(std::move(instruction), i);
  }

  void write_loop(const LoopPlace& place, const std::vector<size_t>& families) {
    const auto begin = static_cast<uint32_t>(result_.kernel.body.size());
    loaded_.clear();
    count_ = place.count;
    for (const size_t i : families) {
      if (families_[i].is_chain()) {
        write_chain(i);
      } else {
        write_family(i);
      }
    }
    const auto end = static_cast<uint32_t>(result_.kernel.body.size());
    result_.kernel.loops.push_back({begin, end, place.count, place.descending});
  }

  void write_family(size_t i) {
    const KernelFamily& family = families_[i];
    Instruction instruction = body_[family.members[0]];
    instruction.operands.clear();
    for (const Operand& operand : operands_of(family)) {
      instruction.operands.push_back(id_of(operand));
    }
    if (instruction.kind == Kind::Store) {
      instruction.argument = add_argument(instruction.argument, count_);
      stored_[i] = instruction.argument;
    }
    family_id_[i] = add(std::move(instruction), family.members[0]);
  }

  void write_chain(size_t i) {
    const KernelFamily& family = families_[i];
    const bool vector = body_[family.members[0]].vector;
    const uint32_t initial = family.neutral ? neutral_id_[i] : id_[family.initial];
    const uint32_t carried =
        add({.kind = Kind::Carried, .vector = vector, .operands = {initial, initial}});
    uint32_t value = carried;
    const std::vector<Operand> operands = operands_of(family);
    for (size_t step = 0; step < operands.size(); ++step) {
      Instruction instruction = body_[family.members[step]];
      instruction.operands = {value, id_of(operands[step])};
      if (family.steps[step].swapped) std::swap(instruction.operands[0], instruction.operands[1]);
      value = add(std::move(instruction), family.members[step]);
    }
    result_.kernel.body[carried].operands[1] = value;
    family_id_[i] = carried;
  }

  uint32_t id_of(const Operand& operand) {
    if (operand.alone) return id_[operand.id];
    if (const std::optional<size_t> family = family_of(operand)) return family_id_[*family];
    const std::pair key(operand.kind, operand.position);
    if (const auto found = loaded_.find(key); found != loaded_.end()) return found->second;
    const uint32_t load = loads_.at(key);
    const Instruction& first = body_[load];
    const auto [array, is_new] = arrays_.try_emplace({operand.kind, operand.position, count_}, 0);
    if (is_new) array->second = add_argument(first.argument, count_);
    Instruction instruction = first;
    instruction.argument = array->second;
    return loaded_[key] = add(std::move(instruction), load);
  }

  uint32_t add(Instruction instruction, std::optional<uint32_t> origin = {}) {
    result_.kernel.body.push_back(std::move(instruction));
    result_.origins.push_back(origin);
    return static_cast<uint32_t>(result_.kernel.body.size() - 1);
  }

  uint32_t argument_of(uint32_t argument) {
    if (!argument_[argument]) argument_[argument] = add_argument(argument, 1);
    return *argument_[argument];
  }

  uint32_t add_argument(uint32_t first, int64_t count) {
    Kernel::Argument argument = kernel_.arguments[first];
    argument.count *= count;
    result_.kernel.arguments.push_back(argument);
    result_.arguments.push_back(first);
    return static_cast<uint32_t>(result_.arguments.size() - 1);
  }

  /// Results of products come first, in order, as they are named by their numbers.
  void add_products() {
    for (uint32_t i = 0; i < kernel_.arguments.size(); ++i) {
      if (kernel_.arguments[i].product) argument_of(i);
    }
  }

  void add_carries() {
    for (const LoopCarry& carry : carries_) {
      if (!argument_[carry.store]) continue;  // stored by a family
      result_.carries.push_back({argument_of(carry.load), *argument_[carry.store]});
    }
    for (const auto& [i, argument] : stored_) {
      const std::optional<uint32_t> load = carried_load(families_[i]);
      if (!load) continue;
      const KernelPlace& place = found_.places[*load];
      const int64_t count = families_[i].count();
      result_.carries.push_back({arrays_.at({place.kind, place.position, count}), argument});
    }
  }

  const Kernel& kernel_;
  const std::vector<Instruction>& body_;
  const std::vector<LoopCarry>& carries_;
  const KernelFamilies& found_;
  const std::vector<KernelFamily>& families_;
  std::map<std::pair<int64_t, int64_t>, uint32_t> loads_;  // by kind and position
  std::vector<int64_t> zone_;                              // per instruction that is alone
  std::vector<LoopPlace> place_;                           // per family
  std::vector<bool> is_zoned_;                             // likewise
  std::vector<bool> is_taken_alone_;
  // What is written:
  RerolledKernel result_;
  std::vector<uint32_t> id_;                       // of what is alone, and last values
  std::vector<uint32_t> family_id_;                // of chains: what is carried
  std::map<size_t, uint32_t> neutral_id_;          // per family
  std::vector<std::optional<uint32_t>> argument_;  // of those that are no arrays
  std::map<std::tuple<int64_t, int64_t, int64_t>, uint32_t> arrays_;  // by kind, position, count
  std::map<size_t, uint32_t> stored_;                                 // arguments, per family
  // Of the loop that is written:
  std::map<std::pair<int64_t, int64_t>, uint32_t> loaded_;  // by kind and position
  int64_t count_ = 0;
};

}  // namespace

RerolledKernel reroll_kernel(const Kernel& kernel, const std::vector<LoopCarry>& carries,
                             const KernelFamilies& families) {
  return Reroller(kernel, carries, families).run();
}

}  // namespace rnnc
