// Unfolding, for what is in no loop and for the body of each:
//
// 1. Find the zone of each instruction: what is no array comes before the inner loops of its zone,
//    and the last values of their chains are there in the next one.
// 2. Let what loops compute wait for the first loop that takes it, and stores for all that is
//    loaded from there, as rerolled_kernel.cpp does.
// 3. Write zone by zone what is no array, and then a loop for all of some turns; behind all, stores.
#include "passes/reroll/folded_kernel.h"

#include <algorithm>
#include <bit>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "ir/plan/kernel_facts.h"

namespace rnnc {
namespace {

using Kind = Instruction::Kind;

class Folder {
 public:
  explicit Folder(const Kernel& kernel)
      : kernel_(kernel),
        body_(kernel.body),
        loops_(loops_of(kernel)),
        id_(body_.size(), 0),
        chain_(body_.size(), std::nullopt) {}

  FoldedKernel run() {
    result_.kernel.name = kernel_.name;
    result_.kernel.length = kernel_.length;
    result_.kernel.arguments = kernel_.arguments;
    for (uint32_t i = 0; i < body_.size(); ++i) {
      if (body_[i].kind == Kind::Carried) {
        chain_[i] = i;
        chains_[i].chain = {turns_at(i), body_[i].vector, {}};
        chains_[i].operands = {id_[body_[i].operands[0]]};
      } else if (const std::optional<uint32_t> chain = chain_of(i); chain && loops_[i] != kNoLoop) {
        add_step(i, *chain);
      } else if (body_[i].kind == Kind::Last) {
        add_chain(i);
      } else {
        add(i);
      }
    }
    return std::move(result_);
  }

 private:
  struct OpenChain {
    LoopChain chain;
    std::vector<uint32_t> operands;
  };

  Turns turns_at(uint32_t i) const {
    const Kernel::Loop& loop = kernel_.loops[loops_[i]];
    return {loop.descending, loop.count};
  }

  /// What an instruction is a step of: by what is carried.
  std::optional<uint32_t> chain_of(uint32_t i) const {
    for (const uint32_t operand : body_[i].operands) {
      if (chain_[operand]) return chain_[operand];
    }
    return std::nullopt;
  }

  void add_step(uint32_t i, uint32_t chain) {
    const bool swapped = !chain_[body_[i].operands[0]];
    chain_[i] = chain;
    OpenChain& open = chains_.at(chain);
    open.chain.steps.push_back({body_[i].op, swapped});
    open.operands.push_back(id_[body_[i].operands[swapped ? 0 : 1]]);
  }

  void add_chain(uint32_t i) {
    const OpenChain& open = chains_.at(body_[i].operands[0]);
    const auto found = std::ranges::find(result_.chains, open.chain);
    const auto number = static_cast<uint32_t>(found - result_.chains.begin());
    if (found == result_.chains.end()) result_.chains.push_back(open.chain);
    // Of no op that could be taken for one that may be turned round.
    id_[i] = put({.kind = Kind::Last,
                  .op = Op::Sub,
                  .vector = body_[i].vector,
                  .argument = number,
                  .operands = open.operands},
                 std::nullopt);
  }

  void add(uint32_t i) {
    Instruction instruction = body_[i];
    for (uint32_t& operand : instruction.operands) operand = id_[operand];
    const bool in_loop = loops_[i] != kNoLoop;
    const bool loads = instruction.kind == Kind::Load;
    const bool is_number = instruction.kind == Kind::Constant;
    if (!(loads && in_loop) && !is_number) {
      id_[i] = put(std::move(instruction), in_loop ? std::optional(turns_at(i)) : std::nullopt);
      return;
    }
    // Arrays that several loops load, and numbers, are there once.
    const auto [known, is_new] =
        is_number ? numbers_.try_emplace(std::bit_cast<uint64_t>(instruction.value), 0)
                  : loaded_.try_emplace(instruction.argument, 0);
    if (is_new) {
      known->second =
          put(std::move(instruction), loads ? std::optional(turns_at(i)) : std::nullopt);
    }
    id_[i] = known->second;
  }

  uint32_t put(Instruction instruction, std::optional<Turns> turns) {
    result_.kernel.body.push_back(std::move(instruction));
    result_.turns.push_back(turns);
    return static_cast<uint32_t>(result_.turns.size() - 1);
  }

  const Kernel& kernel_;
  const std::vector<Instruction>& body_;
  const std::vector<uint32_t> loops_;
  std::vector<uint32_t> id_;                    // in the result
  std::vector<std::optional<uint32_t>> chain_;  // of what is carried, and of the steps
  std::map<uint32_t, OpenChain> chains_;        // by what is carried
  std::map<uint64_t, uint32_t> loaded_;         // by argument
  std::map<uint64_t, uint32_t> numbers_;
  FoldedKernel result_;
};

class Unfolder {
 public:
  Unfolder(const Kernel& kernel, const FoldedKernel& folded,
           const std::vector<std::optional<uint32_t>>& origins,
           const std::vector<LoopCarry>& carries)
      : kernel_(kernel),
        body_(kernel.body),
        folded_(folded),
        loops_(loops_of(kernel)),
        turns_(body_.size(), std::nullopt),
        is_chain_(body_.size(), false),
        part_(body_.size(), 0),
        zone_(body_.size(), 0),
        place_(body_.size()),
        id_(body_.size(), 0) {
    for (uint32_t i = 0; i < body_.size(); ++i) {
      if (!origins[i]) continue;
      is_chain_[i] = body_[i].kind == Kind::Last;
      turns_[i] = is_chain_[i] ? folded.chains[body_[i].argument].turns : folded.turns[*origins[i]];
    }
    for (const LoopCarry& carry : carries) carried_load_[carry.store] = carry.load;
  }

  std::optional<Kernel> run() {
    result_.name = kernel_.name;
    result_.length = kernel_.length;
    result_.arguments = kernel_.arguments;
    std::vector<uint32_t> part;
    const auto take = [&part](uint32_t i) { part.push_back(i); };
    visit_loop(kernel_, kNoLoop, take, [&](uint32_t loop) {
      write_part(std::exchange(part, {}), kNoLoop);
      visit_loop(kernel_, loop, take, [](uint32_t) {});
      const size_t number = result_.loops.size();
      result_.loops.push_back(kernel_.loops[loop]);
      result_.loops[number].begin = static_cast<uint32_t>(result_.body.size());
      write_part(std::exchange(part, {}), loop);
      result_.loops[number].end = static_cast<uint32_t>(result_.body.size());
    });
    write_part(std::move(part), kNoLoop);
    return hands_on_ ? std::optional(std::move(result_)) : std::nullopt;
  }

 private:
  /// In the order in which they run.
  struct LoopPlace {
    int64_t zone = 0;
    Turns turns;
    friend auto operator<=>(const LoopPlace&, const LoopPlace&) = default;
  };

  /// Whether all turns of an inner loop make an array of it.
  bool is_array(uint32_t i) const { return turns_[i] && !is_chain_[i]; }
  bool is_in_loop(uint32_t i) const { return turns_[i] && body_[i].kind != Kind::Load; }
  bool is_store(uint32_t i) const { return body_[i].kind == Kind::Store; }

  std::vector<uint32_t> operands_of(uint32_t i) const {
    const std::vector<uint32_t>& all = body_[i].operands;
    if (body_[i].kind == Kind::Carried) return {all[0]};
    return all;
  }

  void write_part(std::vector<uint32_t> ids, uint32_t loop) {
    ids_ = std::move(ids);
    loop_ = loop;
    ++number_;
    for (const uint32_t i : ids_) part_[i] = number_;
    find_zones();
    wait_for_loops(/*stores=*/false);
    place_stores();
    wait_for_loops(/*stores=*/true);
    write();
  }

  // ---- Step 1 ----

  void find_zones() {
    for (const uint32_t i : ids_) {
      int64_t zone = 0;
      for (const uint32_t operand : operands_of(i)) {
        if (part_[operand] != number_) continue;
        zone = std::max(zone, zone_[operand] + (is_chain_[operand] ? 1 : 0));
      }
      zone_[i] = zone;
      if (turns_[i]) place_[i] = {zone, *turns_[i]};
    }
  }

  // ---- Step 2 ----

  void wait_for_loops(bool stores) {
    std::map<uint32_t, LoopPlace> first;
    for (size_t n = ids_.size(); n-- > 0;) {
      const uint32_t i = ids_[n];
      if (!is_in_loop(i)) continue;
      const auto found = first.find(i);
      if (found != first.end() && !is_chain_[i]) place_[i] = found->second;
      if (is_store(i) && !stores) continue;
      for (const uint32_t operand : operands_of(i)) {
        if (!is_array(operand) || part_[operand] != number_) continue;
        const auto [known, is_new] = first.try_emplace(operand, place_[i]);
        if (!is_new) known->second = std::min(known->second, place_[i]);
      }
    }
  }

  void place_stores() {
    for (const uint32_t i : ids_) {
      if (!is_store(i) || !turns_[i]) continue;
      const uint32_t operand = body_[i].operands[0];
      if (part_[operand] == number_ && is_in_loop(operand) && is_array(operand)) {
        place_[i] = std::max(place_[i], place_[operand]);
      }
      const auto carried = carried_load_.find(body_[i].argument);
      if (carried == carried_load_.end()) continue;
      for (const uint32_t j : ids_) {
        if (!is_in_loop(j)) continue;
        for (const uint32_t taken : operands_of(j)) {
          const bool loads =
              body_[taken].kind == Kind::Load && body_[taken].argument == carried->second;
          if (loads) place_[i] = std::max(place_[i], place_[j]);
        }
      }
    }
  }

  // ---- Step 3 ----

  void write() {
    std::map<LoopPlace, std::vector<uint32_t>> loops;
    int64_t zones = 1;
    for (const uint32_t i : ids_) {
      if (is_in_loop(i)) loops[place_[i]].push_back(i);
      zones = std::max({zones, zone_[i] + 1, place_[i].zone + 1});
    }
    for (int64_t zone = 0; zone < zones; ++zone) {
      for (const uint32_t i : ids_) {
        if (!turns_[i] && zone_[i] == zone && !is_store(i)) write_alone(i);
      }
      for (const auto& [place, ids] : loops) {
        if (place.zone == zone) write_loop(place, ids);
      }
    }
    for (const uint32_t i : ids_) {
      if (!turns_[i] && is_store(i)) write_alone(i);
    }
    for (const uint32_t i : ids_) {
      if (body_[i].kind != Kind::Carried) continue;
      result_.body[id_[i]].operands[1] = id_[body_[i].operands[1]];
    }
  }

  void write_alone(uint32_t i) {
    Instruction instruction = body_[i];
    for (uint32_t& operand : instruction.operands) operand = id_[operand];
    id_[i] = put(std::move(instruction));
  }

  void write_loop(const LoopPlace& place, const std::vector<uint32_t>& ids) {
    const auto begin = static_cast<uint32_t>(result_.body.size());
    const size_t number = result_.loops.size();
    result_.loops.push_back({begin, begin, place.turns.count, place.turns.descending});
    loaded_.clear();
    std::map<uint32_t, uint32_t> carried;  // by chain
    for (const bool stores : {false, true}) {
      for (const uint32_t i : ids) {
        if (is_store(i) != stores) continue;
        if (is_chain_[i]) {
          carried[i] = write_chain(i);
        } else {
          Instruction instruction = body_[i];
          for (uint32_t& operand : instruction.operands) operand = value(i, operand);
          id_[i] = put(std::move(instruction));
        }
      }
    }
    result_.loops[number].end = static_cast<uint32_t>(result_.body.size());
    for (const auto& [i, id] : carried) {
      id_[i] = put({.kind = Kind::Last, .vector = body_[i].vector, .operands = {id}});
    }
  }

  uint32_t write_chain(uint32_t i) {
    const LoopChain& chain = folded_.chains[body_[i].argument];
    const std::vector<uint32_t>& operands = body_[i].operands;
    std::vector<uint32_t> taken;
    for (size_t step = 0; step < chain.steps.size(); ++step) {
      taken.push_back(value(i, operands[step + 1]));
    }
    const uint32_t initial = id_[operands[0]];
    const uint32_t carried =
        put({.kind = Kind::Carried, .vector = chain.vector, .operands = {initial, initial}});
    uint32_t value = carried;
    for (size_t step = 0; step < chain.steps.size(); ++step) {
      const auto& [op, swapped] = chain.steps[step];
      std::vector<uint32_t> both = {value, taken[step]};
      if (swapped) std::swap(both[0], both[1]);
      value = put({.kind = Kind::Scalar, .op = op, .vector = chain.vector, .operands = both});
    }
    result_.body[carried].operands[1] = value;
    return carried;
  }

  /// What an instruction in the loop that is written takes: arrays are loaded in each loop.
  uint32_t value(uint32_t user, uint32_t operand) {
    if (body_[operand].kind != Kind::Load || !turns_[operand]) {
      hands_on_ = hands_on_ && may_take(user, operand);
      return id_[operand];
    }
    const auto [known, is_new] = loaded_.try_emplace(operand, 0);
    if (is_new) known->second = put(body_[operand]);
    return known->second;
  }

  /// Where an outer loop and the one in it have as many turns, what is made in one loop before them
  /// is at the turn of the inner one.
  bool may_take(uint32_t user, uint32_t operand) const {
    const uint32_t from = loops_[operand];
    if (loop_ == kNoLoop || from == loop_ || turns_[user]->count != kernel_.loops[loop_].count) {
      return true;
    }
    return from == kNoLoop || is_array(operand);
  }

  uint32_t put(Instruction instruction) {
    result_.body.push_back(std::move(instruction));
    return static_cast<uint32_t>(result_.body.size() - 1);
  }

  const Kernel& kernel_;
  const std::vector<Instruction>& body_;
  const FoldedKernel& folded_;
  const std::vector<uint32_t> loops_;
  std::vector<std::optional<Turns>> turns_;    // by instruction: of chains too
  std::vector<bool> is_chain_;                 // by instruction
  std::map<uint32_t, uint32_t> carried_load_;  // arguments
  std::vector<int64_t> part_;                  // by instruction: the number of its part
  std::vector<int64_t> zone_;
  std::vector<LoopPlace> place_;
  std::vector<uint32_t> id_;  // in the result
  Kernel result_;
  bool hands_on_ = true;
  // Of the part that is written:
  std::vector<uint32_t> ids_;
  uint32_t loop_ = kNoLoop;
  int64_t number_ = 0;
  std::map<uint32_t, uint32_t> loaded_;  // of the loop that is written
};

}  // namespace

FoldedKernel fold_loops(const Kernel& kernel) {
  return Folder(kernel).run();
}

std::optional<Kernel> unfold_loops(const Kernel& kernel, const FoldedKernel& folded,
                                   const std::vector<std::optional<uint32_t>>& origins,
                                   const std::vector<LoopCarry>& carries) {
  return Unfolder(kernel, folded, origins, carries).run();
}

}  // namespace rnnc
