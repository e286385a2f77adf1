// 1. Number the launches. Each buffer is in use where they touch it; what stages touch that run
// step
//    by step, as long as they run, and those beside them: steps come again, and slices of the batch
//    may be at different ones.
// 2. A buffer lives from its first use to its last, but through whole sections if something of it
//    is left from wave to wave: a history, a carry, a sequence; or if several sections use it. What
//    Once stages leave for others lives always, and what has a pad of zeros.
// 3. Where a launch may write one buffer in place of another, the two become one lifetime.
#include "passes/lifetimes.h"

#include <algorithm>
#include <map>
#include <set>

#include "ir/alignment.h"
#include "ir/kernel_facts.h"
#include "ir/plan_touches.h"
#include "passes/side_by_side.h"

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
      : plan_(plan), arena_(arena), sections_(plan.sweeps + 1), uses_(plan.buffers.size()) {}

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
    uint32_t lane = 0;
    bool kept = false;  // from wave to wave
  };

  static uint32_t section_of(const Stage& stage) {
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
      for (const auto* launch : {&state.init_given, &state.init_declared, &state.write_final}) {
        for (const Touch& touch : touches(plan_, *launch)) {
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
    uses.lane = stage.lag;
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
      lifetime.lane = uses.lane;
    }
    lifetime_of_[id] = lifetimes_.size();
    lifetimes_.push_back(std::move(lifetime));
  }

  // ---- In place ----

  void join_in_place(size_t index) {
    for (size_t i = 0; i < plan_.stages[index].launches.size(); ++i) {
      const auto* launch = std::get_if<ElementwiseLaunch>(&plan_.stages[index].launches[i]);
      if (launch == nullptr) continue;
      const uint32_t now = first_launch_[index] + static_cast<uint32_t>(i);
      for (uint32_t write = 0; write < launch->accesses.size(); ++write) {
        for (uint32_t read = 0; read < launch->accesses.size(); ++read) {
          if (may_replace(*launch, now, read, write)) {
            join(launch->accesses[read].buffer, launch->accesses[write].buffer);
            break;
          }
        }
      }
    }
  }

  bool may_replace(const ElementwiseLaunch& launch, uint32_t now, uint32_t read,
                   uint32_t write) const {
    const Kernel& kernel = plan_.kernels[launch.kernel];
    const Access& from = launch.accesses[read];
    const Access& to = launch.accesses[write];
    return kernel.arguments[write].written && !kernel.arguments[read].written &&
           is_whole(launch, read) && is_whole(launch, write) && ends(from.buffer, now) &&
           begins(to.buffer, now) && is_alike(from, to) &&
           position(kernel, read) < position(kernel, write) && !has_reductions(kernel);
  }

  /// A vector, and the launch touches nothing else of its buffer.
  bool is_whole(const ElementwiseLaunch& launch, uint32_t argument) const {
    return plan_.kernels[launch.kernel].arguments[argument].vector &&
           std::ranges::count(launch.accesses, launch.accesses[argument].buffer, &Access::buffer) ==
               1;
  }

  bool ends(BufferId id, uint32_t now) const {
    const auto found = lifetime_of_.find(id);
    if (found == lifetime_of_.end()) return false;
    const Lifetime& lifetime = lifetimes_[found->second];
    return lifetime.lane != Lifetime::kEveryLane && lifetime.end == now &&
           lifetime.buffers.back() == id;
  }

  bool begins(BufferId id, uint32_t now) const {
    const auto found = lifetime_of_.find(id);
    if (found == lifetime_of_.end()) return false;
    const Lifetime& lifetime = lifetimes_[found->second];
    return lifetime.lane != Lifetime::kEveryLane && lifetime.begin == now &&
           lifetime.buffers.front() == id;
  }

  bool is_alike(const Access& a, const Access& b) const {
    const Buffer& from = plan_.buffers[a.buffer];
    const Buffer& to = plan_.buffers[b.buffer];
    return from.extent == to.extent && from.width == to.width && from.dtype == to.dtype &&
           a.column == b.column && a.stride == b.stride;
  }

  static size_t position(const Kernel& kernel, uint32_t argument) {
    const auto touches_it = [&](const Instruction& i) {
      return (i.kind == Instruction::Kind::Load || i.kind == Instruction::Kind::Store) &&
             i.argument == argument;
    };
    return static_cast<size_t>(std::ranges::find_if(kernel.body, touches_it) - kernel.body.begin());
  }

  /// `next` takes the place of `id`.
  void join(BufferId id, BufferId next) {
    Lifetime& first = lifetimes_[lifetime_of_[id]];
    Lifetime& second = lifetimes_[lifetime_of_[next]];
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
  std::vector<Uses> uses_;  // per buffer
  std::map<BufferId, size_t> lifetime_of_;
  std::vector<Lifetime> lifetimes_;
};

}  // namespace

bool is_in(const Buffer& buffer, Arena arena) {
  switch (arena) {
    case Arena::Workspace:
      return buffer.placement == Placement::Workspace && buffer.extent != Extent::Steps;
    case Arena::WorkspacePerStep:
      return buffer.placement == Placement::Workspace && buffer.extent == Extent::Steps;
    case Arena::Resident:
      break;
  }
  return buffer.placement == Placement::Resident;
}

int64_t aligned_size(const Plan& plan, const Buffer& buffer) {
  return aligned_size(byte_size(plan, buffer));
}

bool overlap(const Lifetime& a, const Lifetime& b) {
  if (a.begin <= b.end && b.begin <= a.end) return true;
  return a.section == b.section && a.lane != b.lane;
}

int64_t live_bytes(const std::vector<Lifetime>& lifetimes) {
  // What is in use in a lane changes for the worse only where a lifetime begins.
  const auto in_use = [&](uint32_t lane, uint32_t section, uint32_t now) {
    int64_t bytes = 0;
    for (const Lifetime& l : lifetimes) {
      if (l.lane != lane || l.begin > now || now > l.end) continue;
      if (lane == Lifetime::kEveryLane || l.section == section) bytes += l.bytes;
    }
    return bytes;
  };
  std::map<uint32_t, std::map<uint32_t, int64_t>> lanes;  // section → lane → bytes
  for (const Lifetime& l : lifetimes) {
    int64_t& bytes = lanes[l.section][l.lane];
    bytes = std::max(bytes, in_use(l.lane, l.section, l.begin));
  }
  int64_t most = 0;
  for (const Lifetime& l : lifetimes) {
    int64_t bytes = in_use(Lifetime::kEveryLane, l.section, l.begin);
    for (const auto& [lane, in_lane] : lanes[l.section]) {
      if (lane != Lifetime::kEveryLane) bytes += in_lane;
    }
    most = std::max(most, bytes);
  }
  return most;
}

std::vector<Lifetime> find_lifetimes(const Plan& plan, Arena arena) {
  return LifetimeFinder(plan, arena).run();
}

}  // namespace rnnc
