#include "ir/plan/plan_text.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <span>

#include "ir/plan/recurrence_sides.h"

namespace rnnc {

std::string_view spelling(Domain domain) {
  switch (domain) {
    case Domain::Once:
      return "once";
    case Domain::Sequence:
      return "sequence";
    case Domain::Step:
      break;
  }
  return "step";
}

std::string_view spelling(RecurrenceClass recurrence) {
  switch (recurrence) {
    case RecurrenceClass::None:
      return "none";
    case RecurrenceClass::Linear:
      return "linear";
    case RecurrenceClass::Elementwise:
      return "elementwise";
    case RecurrenceClass::Block:
      return "block";
    case RecurrenceClass::Dense:
      break;
  }
  return "dense";
}

namespace {

std::string_view spelling(Placement placement) {
  switch (placement) {
    case Placement::Caller:
      return "caller";
    case Placement::Workspace:
      return "workspace";
    case Placement::Resident:
      break;
  }
  return "resident";
}

std::string_view spelling(Role role) {
  switch (role) {
    case Role::Input:
      return "input";
    case Role::Param:
      return "param";
    case Role::Output:
      return "output";
    case Role::InitialState:
      return "initial state";
    case Role::FinalState:
      return "final state";
    case Role::Temporary:
      break;
  }
  return "temporary";
}

std::string_view spelling(Extent extent) {
  switch (extent) {
    case Extent::Invariant:
      return "invariant";
    case Extent::Batch:
      return "batch";
    case Extent::Steps:
      return "steps";
    case Extent::Chunk:
      break;
  }
  return "chunk";
}

std::string_view spelling(MaskLaunch::Kind kind) {
  switch (kind) {
    case MaskLaunch::Kind::Valid:
      return "valid";
    case MaskLaunch::Kind::Reset:
      return "reset";
    case MaskLaunch::Kind::ResetReverse:
      break;
  }
  return "reset reversed";
}

/// Appends lines to one string.
class Printer {
 public:
  explicit Printer(const Plan& plan) : plan_(plan) {}

  std::string print() {
    line("plan {}: {}{}, batch {}, chunk {}", plan_.name, to_string(plan_.dtype),
         plan_.tf32 ? " with products in TF32" : "", plan_.batch, plan_.chunk);
    const int64_t per_step = plan_.workspace_bytes_per_step;
    line("memory: workspace {} bytes{}, resident {} bytes", plan_.workspace_bytes,
         per_step == 0 ? "" : fmt::format(" and {} per step", per_step), plan_.resident_bytes);
    line("buffers:");
    for (BufferId id = 0; id < plan_.buffers.size(); ++id) print_buffer(id);
    line("kernels:");
    for (size_t i = 0; i < plan_.kernels.size(); ++i) print_kernel(i);
    line("stages:");
    for (const Stage& stage : plan_.stages) print_stage(stage);
    line("states:");
    for (const StatePlan& state : plan_.states) print_state(state);
    return std::move(text_);
  }

 private:
  template <typename... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
    text_ += '\n';
  }

  /// `  b3 h: f32 resident temporary, chunk x 64, history 1, at 256, 8448 bytes`
  void print_buffer(BufferId id) {
    const Buffer& buffer = plan_.buffers[id];
    std::string rest;
    if (buffer.pad > 0) rest += fmt::format(", the last {} a pad", buffer.pad);
    if (buffer.history > 0) rest += fmt::format(", history {}", buffer.history);
    if (buffer.sweep > 0) rest += fmt::format(", sweep {}", buffer.sweep);
    if (buffer.lag > 0) rest += fmt::format(", lag {}", buffer.lag);
    if (buffer.placement == Placement::Caller) {
      rest += fmt::format(", slot {}", buffer.slot);
    } else {
      rest += fmt::format(", at {}, {} bytes{}", buffer.offset, byte_size(plan_, buffer),
                          buffer.extent == Extent::Steps ? " per step" : "");
    }
    line("  b{} {}: {} {} {}, {} x {}{}", id, buffer.name, to_string(buffer.dtype),
         spelling(buffer.placement), spelling(buffer.role), spelling(buffer.extent), buffer.width,
         rest);
  }

  void print_kernel(size_t index) {
    const Kernel& kernel = plan_.kernels[index];
    line("  k{} {}: rows of {}", index, kernel.name, kernel.length);
    for (size_t i = 0; i < kernel.arguments.size(); ++i) {
      const Kernel::Argument& argument = kernel.arguments[i];
      line("    a{}: {} {} {}", i, argument.written ? "out" : "in", to_string(argument.dtype),
           argument.product  ? "product"
           : argument.vector ? "vector"
                             : "scalar");
    }
    for (size_t i = 0; i < kernel.body.size(); ++i) print_instruction(kernel.body[i], i);
  }

  void print_instruction(const Instruction& instruction, size_t index) {
    const std::string_view shape = instruction.vector ? "vector" : "scalar";
    switch (instruction.kind) {
      case Instruction::Kind::Load:
        return line("    %{} = load a{} : {}", index, instruction.argument, shape);
      case Instruction::Kind::Constant:
        return line("    %{} = const {} : {}", index, instruction.value, shape);
      case Instruction::Kind::Scalar:
      case Instruction::Kind::Reduce:
        return line("    %{} = {} {} : {}", index, info(instruction.op).name,
                    operands(instruction.operands), shape);
      case Instruction::Kind::Store:
        return line("    store a{}, {}", instruction.argument, operands(instruction.operands));
    }
  }

  static std::string operands(const std::vector<uint32_t>& ids) {
    std::string text;
    for (uint32_t id : ids) text += fmt::format("{}%{}", text.empty() ? "" : ", ", id);
    return text;
  }

  void print_stage(const Stage& stage) {
    std::string title(spelling(stage.domain));
    if (stage.recurrence != RecurrenceClass::None) {
      title += fmt::format(" {} ({})", stage.name, spelling(stage.recurrence));
    }
    if (stage.sweep > 0) title += fmt::format(", sweep {}", stage.sweep);
    if (stage.lag > 0) title += fmt::format(", lag {}", stage.lag);
    line("  {}:", title);
    for (const Launch& launch : stage.launches) {
      const std::string text = std::visit([&](const auto& l) { return launch_text(l); }, launch);
      line("    {}", text);
    }
  }

  void print_state(const StatePlan& state) {
    const std::string of = state.delay_of ? plan_.states[*state.delay_of].name : "";
    line("  {}{}:", state.name, of.empty() ? "" : fmt::format(" (a delay of {})", of));
    print_state_launch("given", state.init_given);
    print_state_launch("declared", state.init_declared);
    print_state_launch("final", state.write_final);
  }

  void print_state_launch(std::string_view what, const ElementwiseLaunch& launch) {
    if (!launch.accesses.empty()) line("    {}: {}", what, launch_text(launch));
  }

  std::string launch_text(const ElementwiseLaunch& launch) const {
    return call_text(launch.kernel, launch.accesses) + rows_text(launch.once_rows);
  }

  /// `k0(b3[t-1, 64:128], b7)`: the part of a row is written where it is not the whole row.
  std::string call_text(uint32_t id, const std::vector<Access>& accesses) const {
    const Kernel& kernel = plan_.kernels[id];
    std::string arguments;
    for (size_t i = 0; i < accesses.size(); ++i) {
      const Kernel::Argument& argument = kernel.arguments[i];
      if (i > 0) arguments += ", ";
      arguments += argument.product ? "product"
                                    : access_text(accesses[i], argument.vector ? kernel.length : 1);
    }
    return fmt::format("k{}({})", id, arguments);
  }

  std::string launch_text(const GemmLaunch& launch) const {
    const int64_t columns = launch.n * launch.blocks * launch.repeats;
    return fmt::format("gemm {} {} {} @ {}{}, n {}, k {}{}{}{}{}", access_text(launch.out, columns),
                       launch.accumulate ? "+=" : "=",
                       access_text(launch.left, launch.k * launch.blocks),
                       access_text(launch.weight, weight_rows(launch).span()),
                       launch.transposed ? "" : "^T", launch.n, launch.k,
                       count_text(launch.blocks, "blocks"), count_text(launch.repeats, "repeats"),
                       launch.tf32 ? ", in TF32" : "", rows_text(launch.once_rows));
  }

  static std::string count_text(int64_t count, std::string_view what) {
    return count == 1 ? "" : fmt::format(", {} {}", count, what);
  }

  /// The products on lines of their own: `a0..3 += b5[t-1] @ b9^T, k 512`.
  std::string launch_text(const FusedLaunch& launch, int indent = 4) const {
    std::string text = "fused " + call_text(launch.kernel, launch.accesses);
    const int64_t length = plan_.kernels[launch.kernel].length;
    for (const FusedLaunch::Product& product : launch.products) {
      const uint32_t last = product.first_argument + product.members - 1;
      text +=
          fmt::format("\n{:{}}a{}{} += {} @ {}^T, k {}{}", "", indent + 2, product.first_argument,
                      product.members == 1 ? "" : fmt::format("..{}", last),
                      access_text(product.left, product.k * product.blocks),
                      access_text(product.weight, product.members * length * product.k), product.k,
                      count_text(product.blocks, "blocks"));
    }
    return text;
  }

  std::string launch_text(const LoopLaunch& launch) const {
    std::string carries;
    for (const LoopLaunch::Carry& carry : launch.carries) {
      carries += fmt::format("{}a{} = a{}", carries.empty() ? "" : ", ", carry.load, carry.store);
    }
    return fmt::format("loop {} carrying {}", call_text(launch.kernel, launch.accesses), carries);
  }

  std::string launch_text(const RecurrenceLaunch& launch) const {
    std::string text = "resident on " + to_string(launch.tile);
    for (size_t i = 0; i < launch.phases.size(); ++i) {
      const bool opens = std::ranges::binary_search(launch.tile.sides, i);
      if (opens && launch.tile.sides.size() > 1) {
        text += fmt::format("\n     side {}:", side_of(launch.tile.sides, i));
      }
      text += "\n      " + launch_text(launch.phases[i], 6);
    }
    return text;
  }

  std::string launch_text(const CopyLaunch& launch) const {
    const int64_t count = launch.rows * launch.columns;
    std::string text = fmt::format("copy {} = {}", access_text(launch.target, count),
                                   access_text(launch.source, count));
    if (launch.transposed) text += fmt::format("^T, {} x {}", launch.rows, launch.columns);
    return text;
  }

  std::string launch_text(const ReverseLaunch& launch) const {
    return fmt::format("reverse {} = {}", access_text(launch.target, launch.width),
                       access_text(launch.source, launch.width));
  }

  std::string launch_text(const MaskLaunch& launch) const {
    return fmt::format("mask {} = {}", access_text(launch.target, 1), spelling(launch.kind));
  }

  std::string launch_text(const SplitLaunch& launch) const {
    return fmt::format(
        "split {} = {}, {}, parts of {}{}", access_text(launch.target, kSplitParts * launch.part),
        access_text(launch.source, launch.length), launch.weight ? "a weight" : "a left operand",
        launch.part, rows_text(launch.once_rows));
  }

  static std::string rows_text(int64_t rows) {
    return rows == 1 ? "" : fmt::format(", {} rows", rows);
  }

  std::string access_text(const Access& access, int64_t count) const {
    const Buffer& buffer = plan_.buffers[access.buffer];
    std::string part;
    if (access.delay > 0) part = fmt::format("t-{}", access.delay);
    if (access.column != 0 || count != buffer.width - buffer.pad) {
      part +=
          fmt::format("{}{}:{}", part.empty() ? "" : ", ", access.column, access.column + count);
    }
    if (buffer.extent == Extent::Invariant && access.stride != 0) {
      part += fmt::format("{}stride {}", part.empty() ? "" : ", ", access.stride);
    }
    return part.empty() ? fmt::format("b{}", access.buffer)
                        : fmt::format("b{}[{}]", access.buffer, part);
  }

  const Plan& plan_;
  std::string text_;
};

}  // namespace

std::string to_string(const RecurrenceTile& tile) {
  const size_t sides = tile.sides.size();
  std::set<std::string> units;  // of sides; alike ones once
  for (size_t i = 0; i < sides; ++i) {
    const auto [begin, end] = side_at(tile.sides, i, tile.units.size());
    const auto of_side = std::span(tile.units).subspan(begin, end - begin);
    units.insert(fmt::format("{}", fmt::join(of_side, " and ")));
  }
  std::string text = fmt::format(
      "{}{} x {} blocks of {} warps, {} rows at once, units {}, weights in {} registers",
      sides == 1 ? "" : fmt::format("{} sides of ", sides), tile.groups, tile.blocks, tile.warps,
      tile.rows, fmt::join(units, " or "), tile.weight_registers);
  if (tile.streamed_words > 0) text += fmt::format(", {} from memory", tile.streamed_words);
  if (tile.k_warps != tile.warps) text += fmt::format(", {} warps along k", tile.k_warps);
  if (tile.own_sums) text += ", sums in their warps";
  if (tile.split) text += ", split products";
  if (tile.input_steps > 0) {
    text += fmt::format(", inputs of {} steps in shared memory", tile.input_steps);
  }
  if (tile.clusters) text += ", in clusters";
  return text;
}

std::string to_string(const Plan& plan) {
  return Printer(plan).print();
}

}  // namespace rnnc
