// 1. Number the launches. Each buffer is in use where they touch it; what stages touch that run
//    step by step, as long as they run, and those beside them: steps come again, and slices of the
//    batch may be at different ones.
// 2. A buffer lives from its first use to its last, but through whole sections if something of it
//    is left from wave to wave: a history, a carry, a sequence; or if several sections use it. What
//    Once stages leave for others lives always, and what has a pad of zeros. What totals add to
//    lives from the start of their sweep on.
// 3. Where a launch may write one buffer in place of another, the two become one lifetime.
#include "passes/memory/lifetimes.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>

#include "ir/plan/alignment.h"
#include "ir/plan/kernel_facts.h"
#include "ir/plan/plan_touches.h"
#include "passes/cost/side_by_side.h"

namespace rnnc {
namespace {

struct Span {
  uint32_t begin = UINT32_MAX;
  uint32_t end = 0;

  void add(Span other) {
    begin = std::min(begin, other.begin);
    end = std::max(end, other.end);
  }
};

class LifetimeFinder {
 public:
  LifetimeFinder(const Plan& plan, Arena arena)
      : plan_(plan),
        arena_(arena),
        sections_(plan.sweeps + 2),
        uses_(plan.buffers.size()),
        lifetime_of_(plan.buffers.size()) {}

  std::vector<Lifetime> run() {
    for (const StageRun& run : side_by_side(plan_)) number(run);
    find_uses();
    for (BufferId id = 0; id < uses_.size(); ++id) {
      if (is_in(plan_.buffers[id], arena_) && !uses_[id].sections.empty()) add_lifetime(id);
    }
    for (size_t i = 0; i < plan_.stages.size(); ++i) join_in_place(i);
    std::erase_if(lifetimes_, [](const Lifetime& lifetime) { return lifetime.buffers.empty(); });
    return std::move(lifetimes_);
  }

 private:
  struct Uses {
    std::set<uint32_t> sections;
    Span span;
    uint32_t lag = 0;
    bool kept = false;  // from wave to wave
  };

  /// Once stages, each sweep, Last stages.
  uint32_t section_of(const Stage& stage) const {
    if (stage.domain == Domain::Last) return plan_.sweeps + 1;
    return stage.domain == Domain::Once ? 0 : stage.sweep + 1;
  }

  // ---- Time ----

  void number(const StageRun& run) {
    Span whole{now_, now_};
    for (size_t i = run.begin; i < run.end; ++i) {
      first_launch_.push_back(now_);
      now_ += static_cast<uint32_t>(plan_.stages[i].launches.size());
    }
    if (now_ > whole.begin) whole.end = now_ - 1;
    for (size_t i = run.begin; i < run.end; ++i) runs_.push_back(whole);
    sections_[section_of(plan_.stages[run.begin])].add(whole);
  }

  // ---- Uses ----

  void find_uses() {
    for (size_t i = 0; i < plan_.stages.size(); ++i) {
      for (size_t launch = 0; launch < plan_.stages[i].launches.size(); ++launch) {
        for (const Touch& touch : touches(plan_, plan_.stages[i].launches[launch])) {
          use(i, first_launch_[i] + static_cast<uint32_t>(launch), touch);
        }
      }
    }
    for (const StatePlan& state : plan_.states) {
      for (const auto launch : kStateLaunches) {
        for (const Touch& touch : touches(plan_, state.*launch)) {
          Uses& uses = uses_[touch.access.buffer];
          uses.sections.insert(state.sweep + 1);
          uses.kept = true;
        }
      }
    }
  }

  void use(size_t index, uint32_t launch, const Touch& touch) {
    const Stage& stage = plan_.stages[index];
    const Buffer& buffer = plan_.buffers[touch.access.buffer];
    Uses& uses = uses_[touch.access.buffer];
    const bool first = uses.sections.empty();
    uses.sections.insert(section_of(stage));
    uses.lag = stage.lag;
    // What is read before it is written was left by the wave before.
    uses.kept = uses.kept || buffer.history > 0 || buffer.extent == Extent::Steps ||
                (first && !touch.write);
    uses.span.add(stage.domain == Domain::Step ? runs_[index] : Span{launch, launch});
  }

  void add_lifetime(BufferId id) {
    const Uses& uses = uses_[id];
    Lifetime lifetime;
    lifetime.buffers = {id};
    lifetime.bytes = aligned_size(plan_, plan_.buffers[id]);
    lifetime.section = *uses.sections.begin();
    const bool several = uses.sections.size() > 1;
    if ((several && uses.sections.contains(0)) || ends_in_zeros(plan_.buffers[id])) {
      lifetime.begin = 0;
      lifetime.end = now_;
    } else if (several || uses.kept) {
      Span whole = sections_[lifetime.section];
      whole.add(sections_[*uses.sections.rbegin()]);
      lifetime.begin = whole.begin;
      lifetime.end = whole.end;
    } else {
      lifetime.begin = uses.span.begin;
      lifetime.end = uses.span.end;
      lifetime.lag = uses.lag;
    }
    lifetime_of_[id] = lifetimes_.size();
    lifetimes_.push_back(std::move(lifetime));
  }

  // ---- In place ----

  void join_in_place(size_t index) {
    for (size_t i = 0; i < plan_.stages[index].launches.size(); ++i) {
      const auto* launch = std::get_if<ElementwiseLaunch>(&plan_.stages[index].launches[i]);
      if (launch == nullptr || has_reductions(plan_.kernels[launch->kernel])) continue;
      join_in_place(*launch, first_launch_[index] + static_cast<uint32_t>(i));
    }
  }

  /// Each write takes the place of the first read that it may.
  void join_in_place(const ElementwiseLaunch& launch, uint32_t now) {
    std::vector<Whole> reads;
    std::vector<Whole> writes;
    for (const Whole& vector : whole_vectors(launch)) {
      if (vector.written && begins(vector.access.buffer, now)) writes.push_back(vector);
      if (!vector.written && ends(vector.access.buffer, now)) reads.push_back(vector);
    }
    for (const Whole& write : writes) {
      const auto read = std::ranges::find_if(reads, [&](const Whole& one) {
        return one.position < write.position && is_alike(one.access, write.access);
      });
      if (read == reads.end()) continue;
      join(read->access.buffer, write.access.buffer);
      reads.erase(read);
    }
  }

  /// A vector that a launch reads or writes, if it touches nothing else of its buffer.
  struct Whole {
    Access access;
    bool written = false;
    size_t position = 0;  // of the instruction that does
  };

  /// By argument.
  std::vector<Whole> whole_vectors(const ElementwiseLaunch& launch) const {
    const Kernel& kernel = plan_.kernels[launch.kernel];
    if (!kernel.loops.empty()) return {};  // store elements before they have loaded others
    std::vector<size_t> positions(kernel.arguments.size());
    for (size_t i = 0; i < kernel.body.size(); ++i) {
      const Instruction& instruction = kernel.body[i];
      const bool touches_it = instruction.kind == Instruction::Kind::Load ||
                              instruction.kind == Instruction::Kind::Store;
      if (touches_it) positions[instruction.argument] = i;
    }
    std::unordered_map<BufferId, uint32_t> counts;
    for (const Access& access : launch.accesses) ++counts[access.buffer];
    std::vector<Whole> result;
    for (size_t i = 0; i < launch.accesses.size(); ++i) {
      const Access& access = launch.accesses[i];
      const Kernel::Argument& argument = kernel.arguments[i];
      if (!argument.vector || counts[access.buffer] != 1) continue;
      result.push_back({access, argument.written, positions[i]});
    }
    return result;
  }

  bool ends(BufferId id, uint32_t now) const {
    const Lifetime* lifetime = lifetime_in_lane(id);
    return lifetime != nullptr && lifetime->end == now && lifetime->buffers.back() == id;
  }

  bool begins(BufferId id, uint32_t now) const {
    const Lifetime* lifetime = lifetime_in_lane(id);
    return lifetime != nullptr && lifetime->begin == now && lifetime->buffers.front() == id;
  }

  /// Null: it has none, or one of every lag.
  const Lifetime* lifetime_in_lane(BufferId id) const {
    const std::optional<size_t>& found = lifetime_of_[id];
    if (!found || lifetimes_[*found].lag == Lifetime::kEveryLag) return nullptr;
    return &lifetimes_[*found];
  }

  bool is_alike(const Access& a, const Access& b) const {
    const Buffer& from = plan_.buffers[a.buffer];
    const Buffer& to = plan_.buffers[b.buffer];
    return from.extent == to.extent && from.width == to.width && from.dtype == to.dtype &&
           a.column == b.column && a.stride == b.stride;
  }

  /// `next` takes the place of `id`.
  void join(BufferId id, BufferId next) {
    Lifetime& first = lifetimes_[*lifetime_of_[id]];
    Lifetime& second = lifetimes_[*lifetime_of_[next]];
    first.end = second.end;
    for (const BufferId buffer : second.buffers) {
      first.buffers.push_back(buffer);
      lifetime_of_[buffer] = lifetime_of_[id];
    }
    second.buffers.clear();
  }

  const Plan& plan_;
  Arena arena_;
  uint32_t now_ = 0;
  std::vector<uint32_t> first_launch_;  // per stage
  std::vector<Span> runs_;              // per stage: of those that run side by side
  std::vector<Span> sections_;
  std::vector<Uses> uses_;                          // per buffer
  std::vector<std::optional<size_t>> lifetime_of_;  // per buffer: number of its lifetime
  std::vector<Lifetime> lifetimes_;
};

/// Bytes that lifetimes have together, at any time.
class Usage {
 public:
  explicit Usage(const std::vector<const Lifetime*>& lifetimes) {
    for (const Lifetime* lifetime : lifetimes) {
      if (lifetime->begin > lifetime->end) continue;  // of a section without launches
      bytes_[lifetime->begin] += lifetime->bytes;
      bytes_[lifetime->end + 1] -= lifetime->bytes;
    }
    int64_t sum = 0;
    for (auto& [time, bytes] : bytes_) {
      bytes = sum += bytes;
      most_ = std::max(most_, sum);
    }
  }

  int64_t at(uint32_t now) const {
    const auto next = bytes_.upper_bound(now);
    return next == bytes_.begin() ? 0 : std::prev(next)->second;
  }
  int64_t most() const { return most_; }

 private:
  std::map<uint32_t, int64_t> bytes_;  // time → from then on, until the next
  int64_t most_ = 0;
};

}  // namespace

bool is_in(const Buffer& buffer, Arena arena) {
  switch (arena) {
    case Arena::Workspace:
      return buffer.placement == Placement::Workspace && buffer.extent != Extent::Steps;
    case Arena::WorkspacePerStep:
      return buffer.placement == Placement::Workspace && buffer.extent == Extent::Steps;
    case Arena::Program:
      break;
  }
  return buffer.placement == Placement::Program;
}

int64_t aligned_size(const Plan& plan, const Buffer& buffer) {
  return aligned_size(byte_size(plan, buffer));
}

int64_t live_bytes(const std::vector<Lifetime>& lifetimes) {
  std::vector<const Lifetime*> of_every_lag;
  std::map<std::pair<uint32_t, uint32_t>, std::vector<const Lifetime*>> lags;  // by section, lag
  for (const Lifetime& l : lifetimes) {
    const bool every = l.lag == Lifetime::kEveryLag;
    (every ? of_every_lag : lags[{l.section, l.lag}]).push_back(&l);
  }
  std::map<uint32_t, int64_t> worst;  // by section: all lags together
  for (const auto& [lag, of_lag] : lags) worst[lag.first] += Usage(of_lag).most();
  // What is in use changes for the worse only where a lifetime begins.
  const Usage every_lag(of_every_lag);
  int64_t most = 0;
  for (const Lifetime& l : lifetimes) {
    most = std::max(most, every_lag.at(l.begin) + worst[l.section]);
  }
  return most;
}

std::vector<Lifetime> find_lifetimes(const Plan& plan, Arena arena) {
  return LifetimeFinder(plan, arena).run();
}

}  // namespace rnnc
