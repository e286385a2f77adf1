// What the elementwise work loads of memory, before it is needed: to shared memory some steps ahead
// where it is aligned and there is room (ir/persistent/recurrence_inputs.h), else to registers one
// step ahead, and kept as it lies in memory.
#include "codegen/cuda/persistent/recurrence_emitter.h"

#include <algorithm>

#include "codegen/cuda/device/kernel_text.h"
#include "codegen/cuda/elementwise/kernel_traits.h"

namespace rnnc {
namespace {

using Kind = Instruction::Kind;
using Source = RecurrenceSource;

constexpr int kStepsAhead = 4;  // at least

}  // namespace

/// Row `row` of an array, counted from row 0 at the chunk's first step.
std::string RecurrenceEmitter::array(std::string_view type, bool loaded, size_t access,
                                     std::string_view row) const {
  return fmt::format("rnnc_at<{}{}, {}>(launch.access[first + {}], {})", loaded ? "const " : "",
                     type, layout_.accesses()[access].stride, access, row);
}

/// Row `row` at a step.
std::string RecurrenceEmitter::array_at(std::string_view type, bool loaded, size_t access,
                                        std::string_view step) const {
  if (!plan_.descending) {
    return array(type, loaded, access, fmt::format("({}) * {}u + row", step, plan_.batch));
  }
  const int64_t stride = layout_.accesses()[access].stride;
  return fmt::format("rnnc_at_step<{}{}, {}, {}>(launch.access[first + {}], {}, row)",
                     loaded ? "const " : "", type, stride, -plan_.batch * stride, access, step);
}

bool RecurrenceEmitter::has_steps(const Access& access) const {
  const Extent extent = plan_.buffers[access.buffer].extent;
  return extent == Extent::Chunk || extent == Extent::Steps;
}

const Access& RecurrenceEmitter::access_of(const Phase& phase, uint32_t argument) const {
  return layout_.accesses()[phase.accesses[argument]];
}

/// Of an argument's array at `step`, for the thread's first element; `row` is where it has no steps.
std::string RecurrenceEmitter::place(size_t p, uint32_t argument, std::string_view step,
                                     std::string_view row) const {
  const Kernel::Argument& of = phases_[p].kernel->arguments[argument];
  const bool steps = has_steps(access_of(phases_[p], argument)) && step != "0";
  const std::string_view type = cuda_element_type(of.dtype);
  const size_t access = phases_[p].accesses[argument];
  return (steps ? array_at(type, !of.written, access, step)
                : array(type, !of.written, access, row)) +
         (of.vector ? fmt::format(" + element{}", p) : "");
}

/// Elements of a row that a thread has.
int64_t RecurrenceEmitter::span(const Phase& phase, uint32_t argument) {
  return phase.kernel->arguments[argument].vector ? phase.span : 1;
}

/// Of these, how many it loads or stores at once: all where they are aligned to their size.
int64_t RecurrenceEmitter::at_once(const Phase& phase, uint32_t argument) const {
  const Access& access = access_of(phase, argument);
  const int64_t all = span(phase, argument);
  const int64_t bytes = all * static_cast<int64_t>(size_of(plan_.buffers[access.buffer].dtype));
  const int aligned = copy_bytes(plan_.buffers[access.buffer], {access.column, access.stride});
  return phase.segment_length() % all == 0 && aligned >= bytes ? all : 1;
}

/// Loads of what lies in memory and is loaded to registers a step ahead, by instruction.
std::vector<uint32_t> RecurrenceEmitter::loads(const Phase& phase) const {
  std::vector<uint32_t> ids;
  for (uint32_t id = 0; id < phase.kernel->body.size(); ++id) {
    const Instruction& instruction = phase.kernel->body[id];
    if (instruction.kind != Kind::Load) continue;
    if (phase.sources[instruction.argument] != Source::Memory) continue;
    if (layout_.input(phase, instruction.argument) == nullptr) ids.push_back(id);
  }
  return ids;
}

/// Values are kept as they lie in memory: a conversion would wait for them.
void RecurrenceEmitter::first_loads(size_t p) {
  const Phase& phase = phases_[p];
  if (loads(phase).empty()) return;
  for (const uint32_t id : loads(phase)) {
    const uint32_t argument = phase.kernel->body[id].argument;
    line("  typedef rnnc_packet<{}, {}, true> packet{}_{};",
         cuda_element_type(phase.kernel->arguments[argument].dtype), at_once(phase, argument), p,
         id);
    line("  packet{}_{} loaded{}_{}[{}] = {{}};", p, id, p, id, packets(phase, argument));
  }
  line("  if (steps > 0) {{");
  line("    const int lap = 0;");
  load(p, "0");
  line("  }}");
}

/// How many packets a thread loads of an argument in a lap.
int64_t RecurrenceEmitter::packets(const Phase& phase, uint32_t argument) const {
  return layout_.items(phase) * span(phase, argument) / at_once(phase, argument);
}

void RecurrenceEmitter::load(size_t p, std::string_view step) {
  const Phase& phase = phases_[p];
  if (loads(phase).empty()) return;
  open_rows(p, true);
  for (const uint32_t id : loads(phase)) {
    const uint32_t argument = phase.kernel->body[id].argument;
    const int64_t count = span(phase, argument) / at_once(phase, argument);
    for (int64_t i = 0; i < count; ++i) {
      line("        {}loaded{}_{}[my_row * {} + {}] = packet{}_{}::load({} + {});",
           i == 0 ? "" : fmt::format("if (own{} > {}) ", p, i), p, id, count, i, p, id,
           place(p, argument, step), i);
    }
  }
  line("      }}");
}

/// Takes what was loaded, and loads what comes next.
void RecurrenceEmitter::loads_of_next_lap(size_t p) {
  const Phase& phase = phases_[p];
  if (loads(phase).empty()) return;
  for (const uint32_t id : loads(phase)) {
    const int64_t count = packets(phase, phase.kernel->body[id].argument);
    line("      packet{}_{} arrived{}[{}];", p, id, id, count);
    line("#pragma unroll");
    line(
        "      for (int my_row = 0; my_row < {}; ++my_row) arrived{}[my_row] = "
        "loaded{}_{}[my_row];",
        count, id, p, id);
  }
  line("      const int next = lap + 1 < {} ? t : t + 1;", layout_.laps());
  line("      if (next < steps) {{");
  line("      const int this_lap = lap;");
  line("      const int lap = this_lap + 1 < {} ? this_lap + 1 : 0;", layout_.laps());
  load(p, "next");
  line("      }}");
  prefetch_ahead(p);
}

void RecurrenceEmitter::loads_of_next_step(size_t p) {
  if (loads(phases_[p]).empty()) return;
  line("      if (t + 1 < steps) {{");
  load(p, "t + 1");
  line("      }}");
  prefetch_ahead(p);
}

/// A load that waits for memory delays the next step, and loads behind it that look for what other
/// blocks write. Lanes whose elements are in one sector of the cache ask for different steps: each
/// need not ask at all of them.
void RecurrenceEmitter::prefetch_ahead(size_t p) {
  const Phase& phase = phases_[p];
  const int64_t lanes = phase.units / phase.span;
  const int64_t turns = lanes >= 4 ? 4 : lanes >= 2 ? 2 : 1;
  line("      const int ahead = t + {} + static_cast<int>(column{} / {}u % {}u);", kStepsAhead, p,
       phase.span, turns);
  line("      if (t % {} == 0 && ahead < steps) {{", turns);
  prefetch(p, "ahead");
  line("      }}");
}

void RecurrenceEmitter::prefetch(size_t p, std::string_view step) {
  open_rows(p, true);
  for (const uint32_t id : loads(phases_[p])) {
    line("        rnnc_prefetch({});", place(p, phases_[p].kernel->body[id].argument, step));
  }
  line("      }}");
}

/// Those of these loads that take a thread's elements of a row at once.
void RecurrenceEmitter::packets(size_t p, const std::vector<uint32_t>& ids) {
  const Phase& phase = phases_[p];
  for (const uint32_t id : ids) {
    if (input_packet(p, id) || !is_packet(phase, id)) continue;
    const uint32_t argument = phase.kernel->body[id].argument;
    const std::string type =
        fmt::format("rnnc_packet<{}, {}, true>",
                    cuda_element_type(phase.kernel->arguments[argument].dtype), phase.span);
    line("        const {0} packed{1} = {0}::load({2});", type, id, place(p, argument, "0"));
  }
}

/// Whether a load takes a thread's elements of a row at once from the L1 cache.
bool RecurrenceEmitter::is_packet(const Phase& phase, uint32_t id) const {
  const Instruction& load = phase.kernel->body[id];
  return load.kind == Kind::Load && phase.sources[load.argument] == Source::Invariant &&
         !layout_.keeps_invariants(phase) && span(phase, load.argument) > 1 &&
         at_once(phase, load.argument) == phase.span;
}

std::string RecurrenceEmitter::loaded(size_t p, uint32_t id) const {
  const Phase& phase = phases_[p];
  const uint32_t argument = phase.kernel->body[id].argument;
  switch (phase.sources[argument]) {
    case Source::Product:
      return fmt::format("sum{}[my_element]", id);
    case Source::Invariant:
      if (layout_.keeps_invariants(phase))
        return fmt::format("fixed{}_{}[my_element]", p, argument);
      if (is_packet(phase, id)) return fmt::format("packed{}.get(my_element)", id);
      return fmt::format("my_element < own{} ? rnnc_load({}{}) : 0.0f", p, place(p, argument, "0"),
                         phase.kernel->arguments[argument].vector ? " + my_element" : "");
    case Source::Memory: {
      if (layout_.input(phase, argument) != nullptr) {
        const bool is_row = phase.kernel->arguments[argument].vector;
        return fmt::format("packed{}.get({})", id, is_row ? "my_element" : "0");
      }
      const std::string packets =
          loads_last() ? fmt::format("loaded{}_{}", p, id) : fmt::format("arrived{}", id);
      if (span(phase, argument) == 1) return fmt::format("{}[my_row].get(0)", packets);
      return at_once(phase, argument) == 1 ? fmt::format("{}[my_value].get(0)", packets)
                                           : fmt::format("{}[my_row].get(my_element)", packets);
    }
    case Source::Gather:
      return gathered(p, id);
    case Source::Last:
    case Source::Before:
      break;
  }
  return fmt::format("{}{}[lap][my_value]",
                     phase.sources[argument] == Source::Last ? "last" : "before",
                     carry_index(phase.launch->accesses[argument]));
}

}  // namespace rnnc
