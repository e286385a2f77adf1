// 1. Buffers: placement, role and extent fit each other; offsets are aligned; no two overlap.
// 2. Kernels: operands come earlier, arguments are in range and used one way.
// 3. Launches in order of execution: accesses lie inside their buffers, have the right dtype and
//    extent, and read what an earlier launch wrote. What is written is kept per buffer and slot as
//    column intervals; of what one sweep writes, the next finds whole sequences and histories.
// 4. Every history slot starts with a value; every output and final state is written.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "ir/plan.h"

namespace rnnc {
namespace {

constexpr int64_t kAlignment = 256;

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

/// One read or write of a launch.
struct Touch {
  Access access;
  int64_t count = 0;  // elements of a row
  DType dtype = DType::f32;
  bool write = false;
};

enum class Where : uint8_t { Once, Sequence, Step, State };

Status check_kernel(const Kernel& kernel) {
  if (kernel.length < 1) return fail("rows of {} elements", kernel.length);
  std::vector<int> uses(kernel.arguments.size(), 0);
  for (size_t i = 0; i < kernel.body.size(); ++i) {
    const Instruction& instruction = kernel.body[i];
    for (uint32_t operand : instruction.operands) {
      if (operand >= i || kernel.body[operand].kind == Instruction::Kind::Store) {
        return fail("%{} takes %{}, which is no earlier value", i, operand);
      }
    }
    const bool load = instruction.kind == Instruction::Kind::Load;
    const bool store = instruction.kind == Instruction::Kind::Store;
    if (load || store) {
      if (instruction.argument >= kernel.arguments.size()) {
        return fail("%{}: there is no argument a{}", i, instruction.argument);
      }
      const Kernel::Argument& argument = kernel.arguments[instruction.argument];
      if (argument.written != store)
        return fail("%{}: a{} goes the other way", i, instruction.argument);
      if (argument.vector != instruction.vector) {
        return fail("%{}: a{} is {}a vector", i, instruction.argument,
                    argument.vector ? "" : "not ");
      }
      ++uses[instruction.argument];
    }
    size_t arity = store ? 1 : 0;
    if (instruction.kind == Instruction::Kind::Scalar) {
      if (!is_scalar(instruction.op)) return fail("%{} is no scalar op", i);
      arity = static_cast<size_t>(info(instruction.op).arity);
      const auto is_vector = [&](uint32_t id) { return kernel.body[id].vector; };
      if (std::ranges::any_of(instruction.operands, is_vector) != instruction.vector) {
        return fail("%{}: a scalar op is a vector if an operand is", i);
      }
    } else if (instruction.kind == Instruction::Kind::Reduce) {
      if (!is_reduction(instruction.op)) return fail("%{} is no reduction", i);
      if (instruction.vector) return fail("%{}: a reduction gives one value per row", i);
      arity = 1;
    }
    if (instruction.operands.size() != arity) {
      return fail("%{} takes {} operands, has {}", i, arity, instruction.operands.size());
    }
    if (store && kernel.body[instruction.operands[0]].vector && !instruction.vector) {
      return fail("%{} stores a vector into one element", i);
    }
  }
  for (size_t i = 0; i < uses.size(); ++i) {
    if (uses[i] != 1) return fail("argument a{} is used {} times", i, uses[i]);
  }
  return {};
}

class Verifier {
 public:
  explicit Verifier(const Plan& plan) : plan_(plan), written_(plan.buffers.size()) {}

  Status run() {
    if (Status status = check_buffers(); !status) return status;
    if (Status status = check_overlaps(); !status) return status;
    for (const Kernel& kernel : plan_.kernels) {
      if (Status status = check_kernel(kernel); !status) {
        return fail("kernel {}: {}", kernel.name, status.error().message);
      }
    }
    // Once stages, then initial values, then the others: the order in which they run.
    if (Status status = check_stages(/*once=*/true); !status) return status;
    if (Status status = check_initial_values(); !status) return status;
    if (Status status = check_stages(/*once=*/false); !status) return status;
    for (const StatePlan& state : plan_.states) {
      if (state.write_final.accesses.empty()) continue;
      if (Status status = check_launch(state.write_final, Where::State); !status) {
        return fail("final value of {}: {}", state.name, status.error().message);
      }
    }
    return check_results();
  }

 private:
  // ---- Buffers ----

  Status check_buffers() const {
    if (plan_.batch < 1 || plan_.chunk < 1) return fail("batch or chunk below 1");
    for (const Buffer& buffer : plan_.buffers) {
      const bool caller = buffer.placement == Placement::Caller;
      if (caller == (buffer.role == Role::Temporary)) {
        return fail("buffer {}: only temporaries lie in the program's memory", buffer.name);
      }
      if (caller && buffer.extent != extent_of(buffer.role)) {
        return fail("buffer {}: not the extent of its role", buffer.name);
      }
      if (buffer.placement == Placement::Resident && buffer.extent == Extent::Steps) {
        return fail("buffer {}: whole sequences are the caller's or in the workspace", buffer.name);
      }
      if (buffer.extent != Extent::Chunk && buffer.history > 0) {
        return fail("buffer {}: only chunks have a history", buffer.name);
      }
      if (buffer.sweep >= plan_.sweeps) {
        return fail("buffer {}: there is no sweep {}", buffer.name, buffer.sweep);
      }
      if (buffer.width < 1) return fail("buffer {}: rows of {}", buffer.name, buffer.width);
    }
    return {};
  }

  static Extent extent_of(Role role) {
    switch (role) {
      case Role::Param:
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

  Status check_overlaps() const {
    const auto workspace = [](const Buffer& buffer) {
      return buffer.placement == Placement::Workspace && buffer.extent != Extent::Steps;
    };
    const auto per_step = [](const Buffer& buffer) {
      return buffer.placement == Placement::Workspace && buffer.extent == Extent::Steps;
    };
    const auto resident = [](const Buffer& buffer) {
      return buffer.placement == Placement::Resident;
    };
    if (Status status = check_overlap(workspace, plan_.workspace_bytes, "workspace"); !status) {
      return status;
    }
    if (Status status =
            check_overlap(per_step, plan_.workspace_bytes_per_step, "workspace per step");
        !status) {
      return status;
    }
    if (plan_.workspace_bytes_per_step % kAlignment != 0 ||
        (plan_.workspace_bytes_per_step > 0 && plan_.workspace_bytes % kAlignment != 0)) {
      return fail("the workspace per step is not aligned");
    }
    return check_overlap(resident, plan_.resident_bytes, "resident memory");
  }

  /// Buffers of one piece of memory.
  template <typename InThis>
  Status check_overlap(InThis in_this, int64_t bytes, std::string_view what) const {
    std::vector<const Buffer*> buffers;
    for (const Buffer& buffer : plan_.buffers) {
      if (in_this(buffer)) buffers.push_back(&buffer);
    }
    std::ranges::sort(buffers, {}, &Buffer::offset);
    int64_t end = 0;
    for (const Buffer* buffer : buffers) {
      if (buffer->offset % kAlignment != 0) return fail("buffer {} is not aligned", buffer->name);
      if (buffer->offset < end) return fail("buffer {} overlaps another", buffer->name);
      end = buffer->offset + byte_size(plan_, *buffer);
    }
    if (end > bytes) return fail("the {} is too small", what);
    return {};
  }

  // ---- Launches ----

  Status check_stages(bool once) {
    bool after_once = false;
    for (size_t i = 0; i < plan_.stages.size(); ++i) {
      const Stage& stage = plan_.stages[i];
      after_once = after_once || stage.domain != Domain::Once;
      if (after_once && stage.domain == Domain::Once) return fail("a Once stage comes late");
      if ((stage.domain == Domain::Once) != once) continue;
      if (Status status = check_stage(stage); !status) {
        return fail("stage {}: {}", i, status.error().message);
      }
    }
    return {};
  }

  Status check_stage(const Stage& stage) {
    if ((stage.domain == Domain::Step) != (stage.recurrence != RecurrenceClass::None)) {
      return fail("the class of its recurrence does not fit its domain");
    }
    if (Status status = enter_sweep(stage); !status) return status;
    forget([](const Buffer& buffer) { return buffer.extent == Extent::Batch; });
    late_reads_.clear();
    const Where where = stage.domain == Domain::Once       ? Where::Once
                        : stage.domain == Domain::Sequence ? Where::Sequence
                                                           : Where::Step;
    for (size_t i = 0; i < stage.launches.size(); ++i) {
      const Status status = std::visit(
          [&](const auto& launch) { return check_launch(launch, where); }, stage.launches[i]);
      if (!status) return fail("launch {}: {}", i, status.error().message);
    }
    for (const Touch& read : late_reads_) {
      if (Status status = check_written(read, 0); !status) return status;
    }
    return {};
  }

  Status enter_sweep(const Stage& stage) {
    if (stage.sweep >= plan_.sweeps) return fail("there is no sweep {}", stage.sweep);
    if (stage.domain == Domain::Once && stage.sweep > 0) return fail("a Once stage is in a sweep");
    if (stage.sweep < sweep_) return fail("sweep {} comes after sweep {}", stage.sweep, sweep_);
    if (stage.sweep == sweep_) return {};
    sweep_ = stage.sweep;
    // Whole sequences are there from now on; a chunk holds the steps of its own sweep alone.
    complete_ = written_;
    forget(
        [](const Buffer& buffer) { return buffer.extent == Extent::Chunk && buffer.history == 0; });
    return {};
  }

  /// What buffers of the program's own hold is no value any more: a step's end with it.
  template <typename Forgotten>
  void forget(Forgotten forgotten) {
    for (size_t i = 0; i < plan_.buffers.size(); ++i) {
      const Buffer& buffer = plan_.buffers[i];
      if (buffer.placement != Placement::Caller && forgotten(buffer)) written_[i].clear();
    }
  }

  Status check_launch(const ElementwiseLaunch& launch, Where where) {
    if (launch.kernel >= plan_.kernels.size()) return fail("there is no kernel {}", launch.kernel);
    const Kernel& kernel = plan_.kernels[launch.kernel];
    if (kernel.arguments.size() != launch.accesses.size()) {
      return fail("{} arguments, {} accesses", kernel.arguments.size(), launch.accesses.size());
    }
    std::vector<Touch> touches;
    for (size_t i = 0; i < kernel.arguments.size(); ++i) {
      const Kernel::Argument& argument = kernel.arguments[i];
      touches.push_back({launch.accesses[i], argument.vector ? kernel.length : 1, argument.dtype,
                         argument.written});
    }
    return check_touches(touches, launch.once_rows, where);
  }

  Status check_launch(const GemmLaunch& launch, Where where) {
    if (launch.n < 1 || launch.k < 1 || launch.blocks < 1) return fail("a product of nothing");
    if (where == Where::State) return fail("a product of states alone");
    const int64_t blocks = launch.blocks;
    const Touch left{launch.left, launch.k * blocks, plan_.dtype, false};
    const Touch weight{launch.weight, launch.n * launch.k * blocks, plan_.dtype, false};
    const Touch out{launch.out, launch.n * blocks, compute_type(plan_.dtype), true};
    // Its rows are those of the whole launch: none of it moves along with the rows.
    if (Status status = check_touches({weight}, 1, where); !status) return status;
    if (plan_.buffers[launch.weight.buffer].extent != Extent::Invariant) {
      return fail("the weight varies over time");
    }
    if (Status status = check_touches({left, out}, launch.once_rows, where); !status) return status;
    for (const Access& access : {launch.left, launch.weight, launch.out}) {
      if (where == Where::Step && plan_.buffers[access.buffer].placement != Placement::Resident) {
        return fail("a product of a recurrence touches {}, which is not resident",
                    plan_.buffers[access.buffer].name);
      }
    }
    return {};
  }

  Status check_launch(const CopyLaunch& launch, Where where) {
    if (where != Where::Once) return fail("copies are for Once stages");
    if (launch.rows < 1 || launch.columns < 1) return fail("a copy of nothing");
    const int64_t count = launch.rows * launch.columns;
    return check_move({launch.source, count, {}, false}, {launch.target, count, {}, true}, where);
  }

  Status check_launch(const ReverseLaunch& launch, Where where) {
    if (where != Where::Sequence) return fail("reversals are for Sequence stages");
    if (launch.width < 1) return fail("a reversal of nothing");
    const Touch source{launch.source, launch.width, {}, false};
    if (Status status = check_move(source, {launch.target, launch.width, {}, true}, where);
        !status) {
      return status;
    }
    const Buffer& from = plan_.buffers[launch.source.buffer];
    const Buffer& to = plan_.buffers[launch.target.buffer];
    if (from.extent != Extent::Steps) return fail("{} has not all steps to reverse", from.name);
    if (to.extent != Extent::Chunk) return fail("the target {} is no chunk", to.name);
    if (from.placement == Placement::Caller) return {};
    if (sweep_ == 0 || !holds(complete_, source, 0)) {
      return fail("{} is reversed in the sweep that writes it", from.name);
    }
    return {};
  }

  Status check_launch(const MaskLaunch& launch, Where where) {
    if (where != Where::Sequence) return fail("masks are for Sequence stages");
    const Touch target{launch.target, 1, compute_type(plan_.dtype), true};
    if (Status status = check_touches({target}, 1, where); !status) return status;
    const Buffer& buffer = plan_.buffers[launch.target.buffer];
    if (buffer.extent == Extent::Chunk && buffer.width == 1) return {};
    return fail("{} is no chunk of scalars", buffer.name);
  }

  /// Elements move as they are, of whatever type.
  Status check_move(Touch source, Touch target, Where where) {
    if (source.access.buffer >= plan_.buffers.size()) {
      return fail("there is no buffer {}", source.access.buffer);
    }
    source.dtype = target.dtype = plan_.buffers[source.access.buffer].dtype;
    return check_touches({source, target}, 1, where);
  }

  /// All reads of a launch come before its writes.
  Status check_touches(const std::vector<Touch>& touches, int64_t once_rows, Where where) {
    if (once_rows < 1 || (once_rows > 1 && where != Where::Once)) {
      return fail("{} rows", once_rows);
    }
    for (const Touch& touch : touches) {
      if (Status status = check_touch(touch, once_rows, where); !status) return status;
      if (touch.write) continue;
      if (Status status = check_read(touch, once_rows, where); !status) return status;
    }
    for (const Touch& touch : touches) {
      if (!touch.write) continue;
      const Access& access = touch.access;
      Columns& columns = written_[access.buffer][access.delay];
      if (access.stride == touch.count) {
        columns.add(access.column, access.column + span(touch, once_rows));
        continue;
      }
      for (int64_t row = 0; row < once_rows; ++row) {
        const int64_t begin = access.column + row * access.stride;
        columns.add(begin, begin + touch.count);
      }
    }
    return {};
  }

  static int64_t span(const Touch& touch, int64_t once_rows) {
    return touch.count + (once_rows - 1) * touch.access.stride;
  }

  Status check_touch(const Touch& touch, int64_t once_rows, Where where) const {
    const Access& access = touch.access;
    if (access.buffer >= plan_.buffers.size()) return fail("there is no buffer {}", access.buffer);
    const Buffer& buffer = plan_.buffers[access.buffer];
    if (touch.dtype != buffer.dtype) {
      return fail("{} is {}, not {}", buffer.name, to_string(buffer.dtype), to_string(touch.dtype));
    }
    if (access.column < 0 || access.column + span(touch, once_rows) > buffer.width) {
      return fail("columns from {} are outside {}", access.column, buffer.name);
    }
    if (!extent_fits(buffer.extent, where)) {
      return fail("{} has no rows of this kind", buffer.name);
    }
    const bool walks = buffer.extent != Extent::Invariant;
    if (walks ? access.stride != buffer.width : (where != Where::Once && access.stride != 0)) {
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
    if (touch.write && access.delay > 0 && where != Where::State) {
      return fail("the past of {} is written", buffer.name);
    }
    const bool given = buffer.role == Role::Input || buffer.role == Role::Param ||
                       buffer.role == Role::InitialState;
    if (touch.write ? given : (buffer.role == Role::Output || buffer.role == Role::FinalState)) {
      return fail("{} is not to be {}", buffer.name, touch.write ? "written" : "read");
    }
    return {};
  }

  static bool extent_fits(Extent extent, Where where) {
    switch (extent) {
      case Extent::Invariant:
        return true;
      case Extent::Batch:
        return where == Where::Step || where == Where::State;
      case Extent::Steps:
        return where == Where::Sequence || where == Where::Step;
      case Extent::Chunk:
        break;
    }
    return where != Where::Once;
  }

  Status check_read(const Touch& touch, int64_t once_rows, Where where) {
    const Buffer& buffer = plan_.buffers[touch.access.buffer];
    if (buffer.placement == Placement::Caller) return {};
    if (where == Where::State && buffer.extent == Extent::Batch) {
      return fail("{} has no value after its step", buffer.name);
    }
    Touch whole = touch;
    whole.count = span(touch, once_rows);
    if (where == Where::Step && touch.access.delay > 0) {
      late_reads_.push_back(whole);  // an earlier step's value: written by the end of the stage
      return {};
    }
    return check_written(whole, 0);
  }

  /// Per buffer, by delay, the columns that have been written.
  using Written = std::vector<std::map<uint32_t, Columns>>;

  static bool holds(const Written& written, const Touch& touch, uint32_t slot) {
    const Access& access = touch.access;
    const auto& slots = written[access.buffer];
    const auto found = slots.find(slot);
    return found != slots.end() &&
           found->second.contain(access.column, access.column + touch.count);
  }

  Status check_written(const Touch& touch, uint32_t slot) const {
    if (holds(written_, touch, slot)) return {};
    return fail("{} is read before it is written", plan_.buffers[touch.access.buffer].name);
  }

  // ---- States and results ----

  Status check_initial_values() {
    for (const StatePlan& state : plan_.states) {
      if (state.delay_of && *state.delay_of >= plan_.states.size()) {
        return fail("{} is a delay of no state", state.name);
      }
      for (const ElementwiseLaunch* launch : {&state.init_given, &state.init_declared}) {
        if (launch == &state.init_given && launch->accesses.empty()) continue;
        if (Status status = check_launch(*launch, Where::State); !status) {
          return fail("initial value of {}: {}", state.name, status.error().message);
        }
      }
      if (!state.init_given.accesses.empty() &&
          targets(state.init_given) != targets(state.init_declared)) {
        return fail("initial values of {} go to different places", state.name);
      }
    }
    for (size_t i = 0; i < plan_.buffers.size(); ++i) {
      const Buffer& buffer = plan_.buffers[i];
      for (uint32_t delay = 1; delay <= buffer.history; ++delay) {
        if (!written_[i].contains(delay) || !written_[i][delay].contain(0, buffer.width)) {
          return fail("{} has no value {} steps before the first", buffer.name, delay);
        }
      }
    }
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
      const Buffer& buffer = plan_.buffers[i];
      const bool result = buffer.role == Role::Output || buffer.role == Role::FinalState;
      const bool carried = buffer.history > 0;
      if (!result && !carried) continue;
      const auto found = written_[i].find(0);
      if (found == written_[i].end() || !found->second.contain(0, buffer.width)) {
        return fail("{} is never written", buffer.name);
      }
    }
    return {};
  }

  const Plan& plan_;
  Written written_;
  Written complete_;  // by sweeps before this one
  uint32_t sweep_ = 0;
  std::vector<Touch> late_reads_;
};

}  // namespace

Status verify(const Plan& plan) {
  return Verifier(plan).run();
}

}  // namespace rnnc
