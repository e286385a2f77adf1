// 1. Find which stages of a lag depend on one another: one writes what the other reads or writes,
//    or memory that they share.
// 2. Give each stage the first round in which it can run: that of the last stage before it that it
//    depends on, or the one after where a Sequence stage depends on a Step stage.
// 3. Join the Step stages of a round and a lag that depend on one another to chains.
// 4. Join chains of a round whose launches are alike to branches, count its streams, and find what
//    can be cleared early.
#include "runtime/cuda/rounds.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <optional>
#include <ranges>
#include <set>

#include "ir/plan/plan_touches.h"
#include "runtime/cuda/library_products.h"

namespace rnnc::cuda {
namespace {

/// Columns of a buffer that a stage reads or writes.
struct Region {
  BufferId buffer = kNoBuffer;
  int64_t begin = 0;
  int64_t end = 0;
  bool write = false;
  friend auto operator<=>(const Region&, const Region&) = default;
};

std::vector<Region> regions_of(const Plan& plan, const Stage& stage) {
  std::vector<Region> regions;
  for (const Launch& launch : stage.launches) {
    for (const Touch& touch : touches(plan, launch)) {
      const Access& access = touch.access;
      regions.push_back({access.buffer, access.column, access.column + touch.count, touch.write});
    }
  }
  std::ranges::sort(regions);
  const auto repeated = std::ranges::unique(regions);
  regions.erase(repeated.begin(), repeated.end());
  return regions;
}

bool ranges_meet(int64_t begin, int64_t end, int64_t other_begin, int64_t other_end) {
  return begin < other_end && other_begin < end;
}

bool share_memory(const Plan& plan, const Region& a, const Region& b) {
  if (a.buffer == b.buffer) return ranges_meet(a.begin, a.end, b.begin, b.end);
  const Buffer& left = plan.buffers[a.buffer];
  const Buffer& right = plan.buffers[b.buffer];
  // Buffers of extent Steps have places of their own, whose sizes are per step.
  const bool apart = (left.extent == Extent::Steps) != (right.extent == Extent::Steps);
  if (left.placement == Placement::Caller || left.placement != right.placement || apart) {
    return false;
  }
  return ranges_meet(left.offset, left.offset + byte_size(plan, left), right.offset,
                     right.offset + byte_size(plan, right));
}

bool depend(const Plan& plan, const std::vector<Region>& a, const std::vector<Region>& b) {
  return std::ranges::any_of(a, [&](const Region& left) {
    return std::ranges::any_of(b, [&](const Region& right) {
      return (left.write || right.write) && share_memory(plan, left, right);
    });
  });
}

class RoundFinder {
 public:
  RoundFinder(const Plan& plan, const CudaModule& module) : plan_(plan), module_(module) {}

  std::vector<Round> run(uint32_t sweep) {
    for (size_t stage = 0; stage < plan_.stages.size(); ++stage) {
      const Stage& added = plan_.stages[stage];
      if (is_of_sweeps(added.domain) && added.sweep == sweep) place(stage);
    }
    for (Round& round : rounds_) {
      join_branches(round);
      round.streams = streams_of(round);
      if (round.streams > 1) continue;
      round.cleared_early = cleared_early(round);
      round.cleared_ahead = cleared_ahead(round);
    }
    return std::move(rounds_);
  }

 private:
  struct Placed {
    size_t stage = 0;
    size_t round = 0;
    std::vector<Region> regions;
  };

  const Stage& stage_of(const Placed& placed) const { return plan_.stages[placed.stage]; }

  /// Steps 1 and 2.
  void place(size_t index) {
    const Stage& stage = plan_.stages[index];
    Placed placed{.stage = index, .round = 0, .regions = regions_of(plan_, stage)};
    std::vector<size_t> before;  // it depends on, in the same round
    for (const Placed& earlier : placed_) {
      const Stage& other = stage_of(earlier);
      if (other.lag != stage.lag || !depend(plan_, earlier.regions, placed.regions)) continue;
      const bool next = other.domain == Domain::Step && stage.domain == Domain::Sequence;
      placed.round = std::max(placed.round, earlier.round + (next ? 1 : 0));
      before.push_back(earlier.stage);
    }
    if (rounds_.size() <= placed.round) rounds_.resize(placed.round + 1);
    Round& round = rounds_[placed.round];
    if (stage.domain == Domain::Sequence) {
      round.sequences.push_back(index);
    } else {
      join_lane(round, index, before);
    }
    placed_.push_back(std::move(placed));
  }

  /// Step 3: the chains of what the stage depends on become one, whose last stage it is. As long as
  /// rounds are being filled, each branch is one chain.
  void join_lane(Round& round, size_t stage, const std::vector<size_t>& before) {
    Chain joined{.lag = plan_.stages[stage].lag, .stages = {}};
    std::erase_if(round.branches, [&](const Branch& branch) {
      const std::vector<size_t>& stages = branch.chains[0].stages;
      if (std::ranges::find_first_of(stages, before) == stages.end()) return false;
      joined.stages.insert(joined.stages.end(), stages.begin(), stages.end());
      return true;
    });
    std::ranges::sort(joined.stages);
    joined.stages.push_back(stage);
    round.branches.push_back({{std::move(joined)}});
  }

  /// Step 4.
  void join_branches(Round& round) const {
    std::vector<Branch> joined;
    for (Branch& branch : round.branches) {
      Chain& chain = branch.chains[0];
      const auto fits = std::ranges::find_if(joined, [&](const Branch& other) {
        return alike(other.chains[0], chain) && other.chains.size() < most_chains(chain);
      });
      if (fits == joined.end()) {
        joined.push_back(std::move(branch));
      } else {
        fits->chains.push_back(std::move(chain));
      }
    }
    round.branches = std::move(joined);
  }

  uint32_t streams_of(const Round& round) const {
    uint32_t last_lag = 0;
    std::set<uint32_t> resident;
    for (const size_t index : round.sequences) {
      const Stage& stage = plan_.stages[index];
      last_lag = std::max(last_lag, stage.lag);
      if (is_resident(stage)) resident.insert(stage.lag);
    }
    return resident.size() < 2 ? 1 : std::min<uint32_t>(last_lag + 1, kMostStreams);
  }

  /// What comes before a stage in its round, and products among that, leave its exchange alone.
  std::vector<size_t> cleared_early(const Round& round) const {
    std::vector<size_t> result;
    std::vector<Region> before;
    bool multiplies = false;
    for (const size_t index : round.sequences) {
      const Stage& stage = plan_.stages[index];
      const std::vector<Region> cleared = exchanges_of(stage);
      multiplies = multiplies || has_product(stage);
      if (multiplies && !cleared.empty() && !depend(plan_, before, cleared)) {
        result.push_back(index);
      }
      std::ranges::move(regions_of(plan_, stage), std::back_inserter(before));
    }
    return result;
  }

  std::vector<size_t> cleared_ahead(const Round& round) const {
    std::vector<size_t> result;
    bool multiplies = false;  // behind the stage
    for (const size_t index : std::views::reverse(round.sequences)) {
      const std::vector<Region> cleared = exchanges_of(plan_.stages[index]);
      if (multiplies && !cleared.empty() && !is_touched_elsewhere(index, cleared)) {
        result.push_back(index);
      }
      multiplies = multiplies || has_product(plan_.stages[index]);
    }
    std::ranges::sort(result);
    return result;
  }

  bool is_touched_elsewhere(size_t index, const std::vector<Region>& regions) const {
    for (size_t other = 0; other < plan_.stages.size(); ++other) {
      if (other != index && depend(plan_, regions_of(plan_, plan_.stages[other]), regions)) {
        return true;
      }
    }
    return std::ranges::any_of(plan_.states, [&](const StatePlan& state) {
      const Stage launches = {
          .launches = {state.init_given, state.init_declared, state.write_final, state.hide}};
      return depend(plan_, regions_of(plan_, launches), regions);
    });
  }

  std::vector<Region> exchanges_of(const Stage& stage) const {
    std::vector<Region> regions;
    for (const Launch& launch : stage.launches) {
      const BufferId exchange = exchange_of(launch);
      if (exchange == kNoBuffer) continue;
      regions.push_back({exchange, 0, plan_.buffers[exchange].width, true});
    }
    return regions;
  }

  bool has_product(const Stage& stage) const {
    return std::ranges::any_of(stage.launches, [this](const Launch& launch) {
      return library_product(plan_, launch).has_value();
    });
  }

  /// Whether their launches are, one by one, fused ones of the same kernels.
  bool alike(const Chain& a, const Chain& b) const {
    return std::ranges::equal(a.stages, b.stages, [this](size_t left, size_t right) {
      const size_t count = plan_.stages[left].launches.size();
      if (count != plan_.stages[right].launches.size()) return false;
      for (size_t i = 0; i < count; ++i) {
        const CudaFusedShape* shape = module_.fused({left, i});
        if (shape == nullptr || shape != module_.fused({right, i})) return false;
      }
      return true;
    });
  }

  /// Of a chain whose launches are all fused ones.
  size_t most_chains(const Chain& chain) const {
    size_t most = std::numeric_limits<size_t>::max();
    for (const size_t stage : chain.stages) {
      for (size_t i = 0; i < plan_.stages[stage].launches.size(); ++i) {
        most = std::min<size_t>(most, module_.fused({stage, i})->most_instances);
      }
    }
    return most;
  }

  const Plan& plan_;
  const CudaModule& module_;
  std::vector<Placed> placed_;
  std::vector<Round> rounds_;
};

}  // namespace

std::vector<Round> find_rounds(const Plan& plan, const CudaModule& module, uint32_t sweep) {
  return RoundFinder(plan, module).run(sweep);
}

int64_t step_launches(const Plan& plan, const std::vector<Round>& rounds) {
  int64_t launches = 0;
  for (const Round& round : rounds) {
    for (const Branch& branch : round.branches) {
      for (const size_t stage : branch.chains[0].stages) {
        launches += plan.chunk * std::ssize(plan.stages[stage].launches);
      }
    }
  }
  return launches;
}

}  // namespace rnnc::cuda
