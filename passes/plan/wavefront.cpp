// 1. On a copy of the plan: give each sweep a buffer of its own where several use one, each for
//    itself, because a history belongs to one sweep.
// 2. Find which stages of a sweep read what which others write, and mark those that are or lead to
//    a recurrence of domain Step, or a resident one that has room beside the others.
// 3. In order, give each stage the least lag that its dependences allow, and stages that write one
//    buffer the greatest of theirs, until nothing changes. Where that does not end, or a buffer
//    that holds one step only would be read across lags, there is no wavefront.
// 4. If recurrences come to lie in different lags, give buffers the lags of their writers, reads
//    across lags the delay, buffers the history that these need, and states the lags of their
//    buffers.
#include "passes/plan/wavefront.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>

#include "ir/base/arithmetic.h"
#include "ir/plan/plan_accesses.h"
#include "ir/plan/plan_touches.h"
#include "ir/plan/recurrence_sides.h"

namespace rnnc {
namespace {

bool is_step_recurrence(const Stage& stage) {
  return stage.domain == Domain::Step && stage.recurrence != RecurrenceClass::None;
}

/// By sweep: whether all of its resident recurrences have room on the machine at once.
std::vector<bool> find_room(const Plan& plan, const Machine& machine) {
  std::vector<int64_t> blocks(plan.sweeps);
  for (const Stage& stage : plan.stages) {
    if (!is_resident(stage)) continue;
    blocks[stage.sweep] += all_blocks(std::get<RecurrenceLaunch>(stage.launches[0]).tile);
  }
  std::vector<bool> room;
  for (const int64_t count : blocks) room.push_back(count <= machine.units);
  return room;
}

/// A buffer that several sweeps use, each for itself, becomes one per sweep.
Plan split_by_sweep(Plan plan) {
  std::map<BufferId, uint32_t> home;  // the first sweep that uses it
  std::map<std::pair<BufferId, uint32_t>, BufferId> others;
  for (Stage& stage : plan.stages) {
    for (Launch& launch : stage.launches) {
      for_each_access(launch, [&](Access& access) {
        if (plan.buffers[access.buffer].extent != Extent::Chunk) return;
        if (home.emplace(access.buffer, stage.sweep).first->second == stage.sweep) return;
        const auto next = static_cast<BufferId>(plan.buffers.size());
        const auto [other, fresh] = others.emplace(std::pair(access.buffer, stage.sweep), next);
        if (fresh) plan.buffers.push_back(Buffer(plan.buffers[access.buffer]));
        access.buffer = other->second;
      });
    }
  }
  return plan;
}

/// The wavefront of a plan, whatever its chunk.
class Wavefront {
 public:
  Wavefront(const Plan& plan, const Machine& machine)
      : plan_(split_by_sweep(plan)),
        room_(find_room(plan_, machine)),
        producers_(plan_.stages.size()),
        writers_(plan_.buffers.size()),
        leads_on_(plan_.stages.size(), false),
        lags_(plan_.stages.size(), 0) {
    find_dependences();
    for (size_t i = 0; i < plan_.stages.size(); ++i) {
      if (is_recurrence(plan_.stages[i])) mark(i);
    }
    exists_ = find_lags() && is_worth_it();
  }

  bool exists() const { return exists_; }

  /// The plan with it, if there is one.
  Plan with_chunk(int64_t chunk) const {
    Plan plan = plan_;
    plan.chunk = chunk;
    apply(plan);
    return plan;
  }

 private:
  /// That may run beside others.
  bool is_recurrence(const Stage& stage) const {
    return is_step_recurrence(stage) || (is_resident(stage) && room_[stage.sweep]);
  }

  void find_dependences() {
    for_each_touch([&](size_t stage, const Touch& touch) {
      if (touch.write) writers_[touch.access.buffer].insert(stage);
    });
    for_each_touch([&](size_t stage, const Touch& touch) {
      if (touch.write) return;
      for (const size_t writer : writers_[touch.access.buffer]) {
        if (writer != stage && plan_.stages[writer].sweep == plan_.stages[stage].sweep) {
          producers_[stage].insert(writer);
        }
      }
    });
  }

  /// Of stages that run chunk by chunk, what they write for each other.
  template <typename Visit>
  void for_each_touch(Visit visit) const {
    for (size_t i = 0; i < plan_.stages.size(); ++i) {
      if (!is_of_sweeps(plan_.stages[i].domain)) continue;
      for (const Launch& launch : plan_.stages[i].launches) {
        for (const Touch& touch : touches(plan_, launch)) {
          const Buffer& buffer = plan_.buffers[touch.access.buffer];
          if (buffer.placement == Placement::Caller || buffer.extent == Extent::Invariant) continue;
          visit(i, touch);
        }
      }
    }
  }

  void mark(size_t stage) {
    if (leads_on_[stage]) return;
    leads_on_[stage] = true;
    for (const size_t producer : producers_[stage]) mark(producer);
  }

  bool find_lags() {
    for (size_t round = 0; round <= plan_.stages.size(); ++round) {
      if (!raise_lags()) return true;
    }
    return false;
  }

  bool raise_lags() {
    bool changed = false;
    const auto raise = [&](size_t stage, uint32_t lag) {
      changed = changed || lag > lags_[stage];
      lags_[stage] = std::max(lags_[stage], lag);
    };
    for (size_t i = 0; i < plan_.stages.size(); ++i) {
      for (const size_t producer : producers_[i]) {
        const bool apart = leads_on_[i] && is_recurrence(plan_.stages[producer]);
        raise(i, lags_[producer] + (apart ? 1 : 0));
      }
    }
    for (size_t id = 0; id < writers_.size(); ++id) {
      if (plan_.buffers[id].extent != Extent::Chunk) continue;
      const uint32_t lag = lag_of(static_cast<BufferId>(id));
      for (const size_t writer : writers_[id]) raise(writer, lag);
    }
    return changed;
  }

  /// The greatest of its writers'.
  uint32_t lag_of(BufferId id) const {
    uint32_t lag = 0;
    for (const size_t writer : writers_[id]) lag = std::max(lag, lags_[writer]);
    return lag;
  }

  /// Whether recurrences have different lags, and no step's values cross lags.
  bool is_worth_it() const {
    bool apart = false;
    std::vector<std::set<uint32_t>> lags(plan_.sweeps);
    for (size_t i = 0; i < plan_.stages.size(); ++i) {
      if (!is_recurrence(plan_.stages[i])) continue;
      std::set<uint32_t>& of_sweep = lags[plan_.stages[i].sweep];
      of_sweep.insert(lags_[i]);
      apart = apart || of_sweep.size() > 1;
    }
    bool crosses = false;
    for_each_touch([&](size_t stage, const Touch& touch) {
      const BufferId id = touch.access.buffer;
      const bool one_step = plan_.buffers[id].extent == Extent::Batch;
      crosses = crosses || (one_step && lag_of(id) != lags_[stage]);
    });
    return apart && !crosses;
  }

  /// To a copy of the plan.
  void apply(Plan& plan) const {
    for (BufferId id = 0; id < plan.buffers.size(); ++id) {
      Buffer& buffer = plan.buffers[id];
      if (buffer.extent != Extent::Chunk || writers_[id].empty()) continue;
      buffer.lag = lag_of(id);
      buffer.sweep = plan.stages[*writers_[id].begin()].sweep;
    }
    for (size_t i = 0; i < plan.stages.size(); ++i) {
      Stage& stage = plan.stages[i];
      stage.lag = lags_[i];
      for (Launch& launch : stage.launches) {
        for_each_access(launch, [&](Access& access) { reach_back(plan, stage, access); });
      }
    }
    for (StatePlan& state : plan.states) {
      for (const Touch& touch : touches(plan, state.init_declared)) {
        if (touch.write) state.lag = lag_of(touch.access.buffer);
      }
    }
  }

  static void reach_back(Plan& plan, const Stage& stage, Access& access) {
    Buffer& buffer = plan.buffers[access.buffer];
    if (buffer.extent != Extent::Chunk) return;
    access.delay += (stage.lag - buffer.lag) * static_cast<uint32_t>(plan.chunk);
    buffer.history = std::max(buffer.history, access.delay);
  }

  const Plan plan_;
  std::vector<bool> room_;                   // per sweep
  std::vector<std::set<size_t>> producers_;  // per stage
  std::vector<std::set<size_t>> writers_;    // per buffer
  std::vector<bool> leads_on_;               // per stage: is or leads to a recurrence
  std::vector<uint32_t> lags_;               // per stage
  bool exists_ = false;
};

}  // namespace

WavefrontOfChunk find_wavefront(const Plan& plan, const Machine& machine) {
  auto wavefront = std::make_shared<const Wavefront>(plan, machine);
  if (!wavefront->exists()) return {};
  return [wavefront](int64_t chunk) { return wavefront->with_chunk(chunk); };
}

bool run_wavefront(Plan& plan, const Machine& machine) {
  const WavefrontOfChunk wavefront = find_wavefront(plan, machine);
  if (!wavefront) return false;
  plan = wavefront(plan.chunk);
  return true;
}

}  // namespace rnnc
