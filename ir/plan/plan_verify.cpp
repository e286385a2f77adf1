// 1. Buffers: placement, role and extent fit each other.
// 2. Kernels (plan_verify_kernel.cpp): operands come earlier, arguments are used one way.
// 3. Memory (plan_verify_memory.cpp): offsets are aligned; what shares memory is never in use at
//    the same time.
// 4. Recurrences (plan_verify_recurrence.cpp): phases reach each other in ways that they can.
// 5. Launches in order of execution (what each kind must be: plan/launches): accesses lie inside
// their buffers, have the right dtype and
//    extent, and read what an earlier launch wrote. What is written is kept per buffer and slot as
//    column intervals; of what one sweep writes, the next finds whole sequences. A write takes what
//    shares its memory away.
// 6. Earlier steps that are read start with a value; every output and final state is written.
#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "ir/plan/launches/launches.h"
#include "ir/plan/plan_memory.h"
#include "ir/plan/plan_verify_parts.h"
#include "ir/plan/state_steps.h"

namespace rnnc {
namespace {

/// A set of columns as sorted, disjoint, non-adjacent half-open intervals.
class Columns {
 public:
  void add(int64_t begin, int64_t end) {
    auto next = ends_.lower_bound(begin);
    while (next != ends_.end() && next->second <= end) {
      begin = std::min(begin, next->second);
      end = std::max(end, next->first);
      next = ends_.erase(next);
    }
    ends_[end] = begin;
  }
  bool contain(int64_t begin, int64_t end) const {
    const auto found = ends_.lower_bound(end);
    return found != ends_.end() && found->second <= begin;
  }

 private:
  std::map<int64_t, int64_t> ends_;  // end → begin
};

class Verifier {
 public:
  explicit Verifier(const Plan& plan) : plan_(plan), owners_(plan), written_(plan.buffers.size()) {}

  Status run() {
    if (Status status = check_buffers(); !status) return status;
    for (const Kernel& kernel : plan_.kernels) {
      if (Status status = verify_kernel(kernel); !status) {
        return fail("kernel {}: {}", kernel.name, status.error().message);
      }
    }
    if (Status status = check_order(); !status) return status;
    if (Status status = check_stages(Domain::Once, 0); !status) return status;
    for (uint32_t sweep = 0; sweep < plan_.sweeps; ++sweep) {
      if (Status status = check_sweep(sweep); !status) return status;
    }
    if (Status status = check_stages(Domain::Last, plan_.sweeps - 1); !status) return status;
    if (Status status = check_results(); !status) return status;
    return verify_memory(plan_);
  }

 private:
  /// What launches are checked with, at a place where the verifier is.
  class Launches final : public LaunchVerifier {
   public:
    Launches(Verifier& verifier, Where where)
        : LaunchVerifier(verifier.plan_, where), verifier_(verifier) {}

    Status check_touches(const std::vector<TypedTouch>& touches, int64_t once_rows) override {
      return verifier_.check_touches(touches, once_rows, where());
    }
    bool is_complete(const TypedTouch& touch) const override {
      return verifier_.sweep_ != 0 && holds(verifier_.complete_, touch, 0);
    }

   private:
    Verifier& verifier_;
  };

  // ---- Buffers ----

  Status check_buffers() const {
    if (plan_.batch < 1 || plan_.chunk < 1) return fail("batch or chunk below 1");
    for (const Buffer& buffer : plan_.buffers) {
      const bool caller = buffer.placement == Placement::Caller;
      if (caller == (buffer.role == Role::Temporary)) {
        return fail("buffer {}: only temporaries lie in the program's memory", buffer.name);
      }
      const bool of_batch = buffer.role == Role::Result && buffer.extent == Extent::Batch;
      if (caller && !of_batch && buffer.extent != extent_of(buffer.role)) {
        return fail("buffer {}: not the extent of its role", buffer.name);
      }
      if (buffer.placement == Placement::Program && buffer.extent == Extent::Steps) {
        return fail("buffer {}: whole sequences are the caller's or in the workspace", buffer.name);
      }
      if (buffer.extent != Extent::Chunk && buffer.history > 0) {
        return fail("buffer {}: only chunks have a history", buffer.name);
      }
      if (buffer.turned && (caller || buffer.extent != Extent::Chunk || buffer.history > 0)) {
        return fail("buffer {}: only chunks of temporaries without a history are turned",
                    buffer.name);
      }
      if (buffer.sweep >= plan_.sweeps) {
        return fail("buffer {}: there is no sweep {}", buffer.name, buffer.sweep);
      }
      if (buffer.width < 1) return fail("buffer {}: rows of {}", buffer.name, buffer.width);
      if (buffer.pad < 0 || buffer.pad >= buffer.width) {
        return fail("buffer {}: rows of {} with a pad of {}", buffer.name, buffer.width,
                    buffer.pad);
      }
      if (buffer.pad > 0 && (caller || buffer.extent == Extent::Invariant)) {
        return fail("buffer {}: only rows of temporaries have a pad", buffer.name);
      }
    }
    return {};
  }

  static Extent extent_of(Role role) {
    switch (role) {
      case Role::Param:
      case Role::Result:
        return Extent::Invariant;
      case Role::InitialState:
      case Role::FinalState:
        return Extent::Batch;
      case Role::Input:
      case Role::Output:
      case Role::Temporary:
        break;
    }
    return Extent::Steps;
  }

  // ---- Launches ----

  /// Once stages first, then by sweep, then Last ones.
  Status check_order() const {
    uint32_t sweep = 0;
    bool after_once = false;
    bool is_over = false;
    for (size_t i = 0; i < plan_.stages.size(); ++i) {
      const Stage& stage = plan_.stages[i];
      const bool once = stage.domain == Domain::Once;
      const bool last = stage.domain == Domain::Last;
      if (once && after_once) return fail("a Once stage comes late");
      if (!last && is_over) return fail("stage {}: comes after a Last stage", i);
      after_once = after_once || !once;
      is_over = is_over || last;
      if (once && (stage.sweep > 0 || stage.lag > 0)) {
        return fail("stage {}: a Once stage is in a sweep", i);
      }
      if (last && (stage.sweep + 1 != plan_.sweeps || stage.lag > 0)) {
        return fail("stage {}: a Last stage is in a sweep", i);
      }
      if (stage.sweep >= plan_.sweeps)
        return fail("stage {}: there is no sweep {}", i, stage.sweep);
      if (stage.sweep < sweep) {
        return fail("stage {}: sweep {} comes after sweep {}", i, stage.sweep, sweep);
      }
      sweep = stage.sweep;
    }
    return {};
  }

  Status check_sweep(uint32_t sweep) {
    sweep_ = sweep;
    // Whole sequences are there from now on; a chunk holds the steps of its own sweep alone.
    complete_ = written_;
    forget_chunks();
    clear_totals(sweep);
    if (Status status = check_initial_values(); !status) return status;
    if (Status status = check_stages(Domain::Sequence, sweep); !status) return status;
    for (const StatePlan& state : plan_.states) {
      if (state.sweep != sweep || state.write_final.accesses.empty()) continue;
      lag_ = state.lag;
      const ElementwiseLaunch hide = plan_.descending ? ElementwiseLaunch{} : state.hide;
      for (const ElementwiseLaunch* launches : {&state.write_final, &hide}) {
        for (const ElementwiseLaunch& launch : launches_of(plan_, state, *launches)) {
          if (Status status = check_launch(launch); !status) {
            return fail("final value of {}: {}", state.name, status.error().message);
          }
        }
      }
      const bool both =
          plan_.descending || hide.accesses.empty() || targets(hide) == targets(state.write_final);
      if (!both) return fail("final values of {} go to different places", state.name);
    }
    return {};
  }

  /// What its Sequence stages add to is zero.
  void clear_totals(uint32_t sweep) {
    for (const BufferId id : cleared_buffers(plan_, sweep)) {
      if (id >= plan_.buffers.size()) continue;
      for (const BufferId other : owners_.take(id)) written_[other].clear();
      written_[id][0].add(0, plan_.buffers[id].width);
      if (plan_.buffers[id].extent == Extent::Batch) lasting_.insert(id);
    }
  }

  /// Once stages, those of one sweep (of any of its domains), or Last stages.
  Status check_stages(Domain domain, uint32_t sweep) {
    for (size_t i = 0; i < plan_.stages.size(); ++i) {
      const Stage& stage = plan_.stages[i];
      const bool meant = is_of_sweeps(domain) ? is_of_sweeps(stage.domain) : stage.domain == domain;
      if (!meant || stage.sweep != sweep) continue;
      if (Status status = check_stage(stage); !status) {
        return fail("stage {}: {}", i, status.error().message);
      }
    }
    return {};
  }

  Status check_stage(const Stage& stage) {
    const Where where = where_in(stage);
    const bool recurrence = stage.recurrence != RecurrenceClass::None;
    const bool one_by_one =
        where == Where::Step || where == Where::Loop || where == Where::Recurrence;
    if (recurrence && !one_by_one) {
      return fail("the class of its recurrence does not fit its domain");
    }
    if (where == Where::Recurrence && stage.recurrence != RecurrenceClass::Block &&
        stage.recurrence != RecurrenceClass::Dense) {
      return fail("a resident recurrence is neither of class block nor dense");
    }
    lag_ = stage.lag;
    forget_step();
    late_reads_.clear();
    Launches launches(*this, where);
    for (size_t i = 0; i < stage.launches.size(); ++i) {
      const Status status = verify(launches, stage.launches[i]);
      if (!status) return fail("launch {}: {}", i, status.error().message);
    }
    for (const TypedTouch& read : late_reads_) {
      if (Status status = check_written(read, 0); !status) return status;
    }
    return {};
  }

  static Where where_in(const Stage& stage) {
    if (stage.domain == Domain::Once) return Where::Once;
    if (stage.domain == Domain::Last) return Where::Last;
    if (stage.domain == Domain::Step) return Where::Step;
    return stage.launches.size() == 1 ? place_of(stage.launches[0]) : Where::Sequence;
  }

  /// What chunks hold is no value any more.
  void forget_chunks() {
    for (BufferId id = 0; id < plan_.buffers.size(); ++id) {
      if (plan_.buffers[id].extent == Extent::Chunk) written_[id].clear();
    }
  }

  /// A step's values end with it, but for the caller's and carries of loops.
  void forget_step() {
    for (const BufferId id : std::exchange(step_values_, {})) {
      const bool caller = plan_.buffers[id].placement == Placement::Caller;
      if (!caller && !lasting_.contains(id)) written_[id].clear();
    }
  }

  Status check_launch(const ElementwiseLaunch& launch) {
    Launches launches(*this, Where::State);
    return verify(launches, launch);
  }

  /// All reads of a launch come before its writes.
  Status check_touches(const std::vector<TypedTouch>& touches, int64_t once_rows, Where where) {
    if (once_rows < 1 || (once_rows > 1 && where != Where::Once && where != Where::Last)) {
      return fail("{} rows", once_rows);
    }
    for (const TypedTouch& touch : touches) {
      if (Status status = check_touch(touch, once_rows, where); !status) return status;
      if (touch.write) continue;
      if (Status status = check_read(touch, once_rows, where); !status) return status;
    }
    for (const TypedTouch& touch : touches) {
      if (!touch.write) continue;
      const Access& access = touch.access;
      for (const BufferId other : owners_.take(access.buffer)) written_[other].clear();
      const Buffer& buffer = plan_.buffers[access.buffer];
      if (buffer.extent == Extent::Batch) step_values_.push_back(access.buffer);
      const int64_t rows = rows_in(buffer, once_rows);
      Columns& columns = written_[access.buffer][access.delay];
      if (access.stride == touch.count) {
        columns.add(access.column, access.column + span(touch, rows));
        continue;
      }
      for (int64_t row = 0; row < rows; ++row) {
        const int64_t begin = access.column + row * access.stride;
        columns.add(begin, begin + touch.count);
      }
    }
    return {};
  }

  /// Of those that a launch walks over by itself: rows of the batch are a buffer's.
  static int64_t rows_in(const Buffer& buffer, int64_t once_rows) {
    return buffer.extent == Extent::Batch ? 1 : once_rows;
  }

  static int64_t span(const TypedTouch& touch, int64_t once_rows) {
    return touch.count + (once_rows - 1) * touch.access.stride;
  }

  Status check_touch(const TypedTouch& touch, int64_t once_rows, Where where) const {
    const Access& access = touch.access;
    if (access.buffer >= plan_.buffers.size()) return fail("there is no buffer {}", access.buffer);
    const Buffer& buffer = plan_.buffers[access.buffer];
    if (touch.dtype != buffer.dtype) {
      return fail("{} is {}, not {}", buffer.name, to_string(buffer.dtype), to_string(touch.dtype));
    }
    if (buffer.turned != touch.turned) {
      return fail("{} is {}turned", buffer.name, buffer.turned ? "" : "not ");
    }
    if (buffer.extent == Extent::Batch && once_rows != 1 && once_rows != plan_.batch) {
      return fail("{} rows of {}", once_rows, buffer.name);
    }
    once_rows = rows_in(buffer, once_rows);
    const int64_t end = access.column + span(touch, once_rows);
    if (access.column < 0 || end > buffer.width) {
      return fail("columns from {} are outside {}", access.column, buffer.name);
    }
    if (end > buffer.width - buffer.pad && (touch.write || !ends_in_zeros(buffer))) {
      return fail("the pad of {} is {}", buffer.name, touch.write ? "written" : "read");
    }
    if (!extent_fits(buffer.extent, where)) {
      return fail("{} has no rows of this kind", buffer.name);
    }
    const bool walks = buffer.extent != Extent::Invariant;
    const bool by_rows = where == Where::Once || where == Where::Last;
    if (walks ? access.stride != buffer.width : (!by_rows && access.stride != 0)) {
      return fail("{} has no stride of {}", buffer.name, access.stride);
    }
    if (touch.write && once_rows > 1 && access.stride < touch.count) {
      return fail("rows written to {} overlap", buffer.name);
    }
    if (buffer.history > 0 && where != Where::State && buffer.sweep != sweep_) {
      return fail("{} belongs to sweep {}", buffer.name, buffer.sweep);
    }
    if (access.delay > buffer.history) {
      return fail("{} does not reach back {} steps", buffer.name, access.delay);
    }
    if (buffer.extent == Extent::Chunk && (touch.write ? lag_ != buffer.lag : lag_ < buffer.lag)) {
      return fail("{} is of lag {}, not {}", buffer.name, buffer.lag, lag_);
    }
    if (buffer.extent == Extent::Chunk && access.delay < distance(buffer)) {
      return fail("{} is read before its wave", buffer.name);
    }
    if (touch.write && access.delay > 0 && where != Where::State) {
      return fail("the past of {} is written", buffer.name);
    }
    const bool given = buffer.role == Role::Input || buffer.role == Role::Param ||
                       buffer.role == Role::InitialState;
    const bool wanted = buffer.role == Role::Output || buffer.role == Role::Result ||
                        (buffer.role == Role::FinalState && where != Where::Last);
    if (touch.write ? given : wanted) {
      return fail("{} is not to be {}", buffer.name, touch.write ? "written" : "read");
    }
    return {};
  }

  /// Steps that lie between the buffer's lag and this one.
  int64_t distance(const Buffer& buffer) const {
    return (static_cast<int64_t>(lag_) - buffer.lag) * plan_.chunk;
  }

  static bool extent_fits(Extent extent, Where where) {
    switch (extent) {
      case Extent::Invariant:
        return true;
      case Extent::Batch:
        return where != Where::Once && where != Where::Sequence;
      case Extent::Steps:
        return where != Where::Once && where != Where::State && where != Where::Last;
      case Extent::Chunk:
        break;
    }
    return where != Where::Once && where != Where::Last;
  }

  Status check_read(const TypedTouch& touch, int64_t once_rows, Where where) {
    const Buffer& buffer = plan_.buffers[touch.access.buffer];
    if (buffer.placement == Placement::Caller) return {};
    TypedTouch whole = touch;
    const int64_t rows = rows_in(buffer, once_rows);
    whole.count = std::min(span(touch, rows), buffer.width - buffer.pad - touch.access.column);
    if (whole.count < 1) return fail("only the pad of {} is read", buffer.name);
    const int64_t delay =
        buffer.extent == Extent::Chunk ? touch.access.delay - distance(buffer) : 0;
    int64_t& reach = reach_[{whole.access.buffer, whole.access.column, whole.count}];
    // Final values are read at t = T, which has at least one step before it.
    const int64_t needed = where == Where::State ? delay - 1 : delay;
    for (; reach < needed; ++reach) {
      if (!holds(initial_, whole, static_cast<uint32_t>(reach + 1))) {
        return fail("{} has no value {} steps before the first", buffer.name, reach + 1);
      }
    }
    const bool one_by_one = where == Where::Step || where == Where::Recurrence ||
                            (where == Where::Loop && plan_.chunk == 1);
    if (one_by_one && delay > 0) {
      late_reads_.push_back(whole);  // an earlier step's value: written by the end of the stage
      return {};
    }
    return check_written(whole, 0);
  }

  /// Per buffer, by delay, the columns that have been written.
  using Written = std::vector<std::map<uint32_t, Columns>>;

  static bool holds(const Written& written, const TypedTouch& touch, uint32_t slot) {
    const Access& access = touch.access;
    const auto& slots = written[access.buffer];
    const auto found = slots.find(slot);
    return found != slots.end() &&
           found->second.contain(access.column, access.column + touch.count);
  }

  Status check_written(const TypedTouch& touch, uint32_t slot) const {
    if (holds(written_, touch, slot)) return {};
    return fail("{} is read before it is written", plan_.buffers[touch.access.buffer].name);
  }

  // ---- States and results ----

  /// Of the sweep's states.
  Status check_initial_values() {
    for (const StatePlan& state : plan_.states) {
      if (state.sweep >= plan_.sweeps) return fail("{}: no sweep {}", state.name, state.sweep);
      if (state.sweep != sweep_) continue;
      if (state.delay_of && *state.delay_of >= plan_.states.size()) {
        return fail("{} is a delay of no state", state.name);
      }
      if (state.turns && steps_of(plan_, state) == 1) {
        return fail("{} turns, and is no history", state.name);
      }
      const bool hides = state.hiding != Hiding::None;
      if (hides && steps_of(plan_, state) + steps_behind(plan_, state) == 1) {
        return fail("{} hides, and is no history", state.name);
      }
      if (hides == state.hide.accesses.empty()) {
        return fail("{} hides, or has what hides it, alone", state.name);
      }
      lag_ = state.lag;
      const ElementwiseLaunch hide = plan_.descending ? state.hide : ElementwiseLaunch{};
      for (const ElementwiseLaunch* launch : {&state.init_given, &state.init_declared, &hide}) {
        if (launch != &state.init_declared && launch->accesses.empty()) continue;
        for (const ElementwiseLaunch& one : launches_of(plan_, state, *launch)) {
          if (Status status = check_launch(one); !status) {
            return fail("initial value of {}: {}", state.name, status.error().message);
          }
        }
      }
      if (!state.init_given.accesses.empty() &&
          targets(state.init_given) != targets(state.init_declared)) {
        return fail("initial values of {} go to different places", state.name);
      }
      if (!hide.accesses.empty() && targets(hide) != targets(state.init_declared)) {
        return fail("initial values of {} go to different places", state.name);
      }
      for (const auto& [buffer, delay] : targets(state.init_declared)) {
        if (plan_.buffers[buffer].extent == Extent::Batch) lasting_.insert(buffer);
      }
    }
    initial_ = written_;
    reach_.clear();
    return {};
  }

  std::set<std::pair<BufferId, uint32_t>> targets(const ElementwiseLaunch& launch) const {
    std::set<std::pair<BufferId, uint32_t>> result;
    const Kernel& kernel = plan_.kernels[launch.kernel];
    for (size_t i = 0; i < launch.accesses.size(); ++i) {
      if (kernel.arguments[i].written) {
        result.emplace(launch.accesses[i].buffer, launch.accesses[i].delay);
      }
    }
    return result;
  }

  Status check_results() const {
    for (size_t i = 0; i < plan_.buffers.size(); ++i) {
      const Role role = plan_.buffers[i].role;
      if (role != Role::Output && role != Role::FinalState && role != Role::Result) continue;
      if (Status status = check_complete(i); !status) return status;
    }
    return {};
  }

  Status check_complete(size_t id) const {
    const auto found = written_[id].find(0);
    const Buffer& buffer = plan_.buffers[id];
    const int64_t width = buffer.width - buffer.pad;
    if (found != written_[id].end() && found->second.contain(0, width)) return {};
    return fail("{} is never written", buffer.name);
  }

  const Plan& plan_;
  MemoryOwners owners_;
  Written written_;
  Written initial_;  // before this sweep's stages
  /// Of what is read, buffer, column and count: how many steps back it is known to be in them.
  std::map<std::tuple<BufferId, int64_t, int64_t>, int64_t> reach_;
  Written complete_;            // by sweeps before this one
  std::set<BufferId> lasting_;  // Batch buffers that are carried on
  uint32_t sweep_ = 0;
  uint32_t lag_ = 0;  // of what is being checked
  std::vector<TypedTouch> late_reads_;
  std::vector<BufferId> step_values_;  // Batch buffers that the stage has written
};

}  // namespace

Status verify(const Plan& plan) {
  return Verifier(plan).run();
}

}  // namespace rnnc
