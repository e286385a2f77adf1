#include "ir/plan/plan_text.h"

#include <algorithm>
#include <iterator>

#include "ir/plan/kernel_facts.h"
#include "ir/plan/launches/kernel_launches.h"
#include "ir/plan/plan_words.h"

namespace rnnc {

std::string_view spelling(Domain domain) {
  return word_of(kDomainWords, domain);
}

std::string_view spelling(RecurrenceClass recurrence) {
  return word_of(kRecurrenceWords, recurrence);
}

namespace {

/// As PlanScanner::quoted reads it.
std::string in_quotes(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      result += {'\\', c};
    } else if (c == '\n') {
      result += "\\n";
    } else if (byte < 0x20 || byte == 0x7f) {
      result += fmt::format("\\x{:02x}", byte);
    } else {
      result += c;
    }
  }
  return result + '"';
}

std::string name_text(std::string_view name, std::string_view delimiters) {
  return is_plain(name, delimiters) ? std::string(name) : in_quotes(name);
}

/// Unlike the words that stand where it does.
std::string state_name_text(std::string_view name) {
  const bool is_word = std::ranges::find(kStateLaunchWords, name, &StateLaunchWord::text) !=
                       std::end(kStateLaunchWords);
  return is_word ? in_quotes(name) : name_text(name, kStateNameEnds);
}

std::string lag_text(uint32_t sweep, uint32_t lag) {
  return (sweep == 0 ? "" : fmt::format(", sweep {}", sweep)) +
         (lag == 0 ? "" : fmt::format(", lag {}", lag));
}

/// Appends lines to one string.
class Printer {
 public:
  explicit Printer(const Plan& plan) : plan_(plan) {}

  std::string print() {
    line("plan {}: {}{}{}, batch {}, chunk {}{}", name_text(plan_.name, kNameEnds),
         to_string(plan_.dtype), plan_.tf32 ? " with products in TF32" : "",
         plan_.descending ? ", descending" : "", plan_.batch, plan_.chunk,
         plan_.sweeps == 1 ? "" : fmt::format(", {} sweeps", plan_.sweeps));
    const int64_t per_step = plan_.workspace_bytes_per_step;
    line("memory: workspace {} bytes{}, program {} bytes", plan_.workspace_bytes,
         per_step == 0 ? "" : fmt::format(" and {} per step", per_step), plan_.program_bytes);
    if (!plan_.note.empty()) line("note: {}", in_quotes(plan_.note));
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

  /// `  b3 h: f32 program temporary, chunk x 64, history 1, at 256, 8448 bytes`
  void print_buffer(BufferId id) {
    const Buffer& buffer = plan_.buffers[id];
    std::string rest;
    if (buffer.pad > 0) rest += fmt::format(", the last {} a pad", buffer.pad);
    if (buffer.turned) rest += ", turned";
    if (buffer.history > 0) rest += fmt::format(", history {}", buffer.history);
    rest += lag_text(buffer.sweep, buffer.lag);
    const bool is_caller = buffer.placement == Placement::Caller;
    if (is_caller || buffer.slot != 0) rest += fmt::format(", slot {}", buffer.slot);
    if (!is_caller || buffer.offset != 0) {
      rest += fmt::format(", at {}, {} bytes{}", buffer.offset, byte_size(plan_, buffer),
                          buffer.extent == Extent::Steps ? " per step" : "");
    }
    line("  b{} {}: {} {} {}, {} x {}{}", id, name_text(buffer.name, kNameEnds),
         to_string(buffer.dtype), word_of(kPlacementWords, buffer.placement),
         word_of(kRoleWords, buffer.role), word_of(kExtentWords, buffer.extent), buffer.width,
         rest);
  }

  void print_kernel(size_t index) {
    const Kernel& kernel = plan_.kernels[index];
    line("  k{} {}: rows of {}", index, name_text(kernel.name, kNameEnds), kernel.length);
    for (size_t i = 0; i < kernel.arguments.size(); ++i) {
      const Kernel::Argument& argument = kernel.arguments[i];
      line("    a{}: {} {} {}{}", i, argument.written ? "out" : "in", to_string(argument.dtype),
           argument.product && argument.vector ? "product"
           : argument.product                  ? "scalar product"
                                               : shape_word(argument.vector),
           argument.count == 1 ? "" : fmt::format(" times {}", argument.count));
    }
    print_loop(kernel, kNoLoop, "");
  }

  void print_loop(const Kernel& kernel, uint32_t loop, const std::string& indent) {
    const auto instruction = [&](uint32_t i) { print_instruction(kernel, i, indent); };
    visit_loop(kernel, loop, instruction, [&](uint32_t inner) {
      const Kernel::Loop& made = kernel.loops[inner];
      line("    {}loop {}{}:", indent, made.count, made.descending ? " down" : "");
      print_loop(kernel, inner, indent + "  ");
      line("    {}end", indent);
    });
  }

  static std::string_view shape_word(bool vector) { return vector ? "vector" : "scalar"; }

  void print_instruction(const Kernel& kernel, size_t index, std::string_view indent) {
    const Instruction& instruction = kernel.body[index];
    const std::string_view shape = shape_word(instruction.vector);
    const auto value = [&](std::string_view what) {
      line("    {}%{} = {} : {}", indent, index, what, shape);
    };
    switch (instruction.kind) {
      case Instruction::Kind::Load:
        return value(fmt::format("load a{}", instruction.argument));
      case Instruction::Kind::Constant:
        return value(fmt::format("const {}", instruction.value));
      case Instruction::Kind::Scalar:
      case Instruction::Kind::Reduce:
        return value(
            fmt::format("{} {}", info(instruction.op).name, operands(instruction.operands)));
      case Instruction::Kind::Carried:
        return value(fmt::format("carried {}", operands(instruction.operands)));
      case Instruction::Kind::Last:
        return value(fmt::format("last {}", operands(instruction.operands)));
      case Instruction::Kind::Store:
        return line("    {}store a{}, {}{}", indent, instruction.argument,
                    operands(instruction.operands),
                    is_as_argument(kernel, instruction) ? "" : fmt::format(" : {}", shape));
    }
  }

  /// Verified kernels store vectors into vectors and scalars into scalars.
  static bool is_as_argument(const Kernel& kernel, const Instruction& store) {
    return store.argument < kernel.arguments.size() &&
           kernel.arguments[store.argument].vector == store.vector;
  }

  static std::string operands(const std::vector<uint32_t>& ids) {
    std::string text;
    for (uint32_t id : ids) text += fmt::format("{}%{}", text.empty() ? "" : ", ", id);
    return text;
  }

  void print_stage(const Stage& stage) {
    std::string title(spelling(stage.domain));
    if (stage.recurrence != RecurrenceClass::None || !stage.name.empty()) {
      title += fmt::format(" {} ({})", name_text(stage.name, kStageNameEnds),
                           spelling(stage.recurrence));
    }
    line("  {}{}:", title, lag_text(stage.sweep, stage.lag));
    std::string why;
    if (!stage.reason.empty()) why = "because " + in_quotes(stage.reason);
    if (stage.phases != 0) {
      why += fmt::format("{}{} phase{}", why.empty() ? "" : ", ", stage.phases,
                         stage.phases == 1 ? "" : "s");
    }
    if (!why.empty()) line("    {}", why);
    if (!stage.products.empty()) line("    {}", ids("reads products", stage.products));
    if (stage.stack != StackPlace()) {
      line("    on top of {}{}", stage.stack.below, ids(", ahead", stage.stack.ahead));
    }
    for (const Launch& launch : stage.launches) line("    {}", launch_text(plan_, launch));
  }

  /// Behind a word; nothing if there are none.
  static std::string ids(std::string_view word, const std::vector<BufferId>& buffers) {
    std::string text(buffers.empty() ? "" : word);
    for (const BufferId id : buffers) text += fmt::format(" b{}", id);
    return text;
  }

  void print_state(const StatePlan& state) {
    std::string title = state_name_text(state.name);
    std::string words;
    if (state.delay_of) {
      title += fmt::format(" (a delay of {})", name_text(plan_.states[*state.delay_of].name, ")"));
    }
    if (state.turns) words += " turning";
    if (state.hiding != Hiding::None)
      words += fmt::format(" {}", word_of(kHidingWords, state.hiding));
    line("  {}{}:{}", title, lag_text(state.sweep, state.lag), words);
    for (const auto& [what, launch] : kStateLaunchWords) {
      const ElementwiseLaunch& one = state.*launch;
      if (!one.accesses.empty()) line("    {}: {}", what, text_of(plan_, one));
    }
  }

  const Plan& plan_;
  std::string text_;
};

}  // namespace

std::string to_string(const Plan& plan) {
  return Printer(plan).print();
}

}  // namespace rnnc
