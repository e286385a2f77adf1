// What kernels gather, blocks hand on as words of f32, rounded as they are stored. Who gathers
// looks at them until they are there (recurrence.cuh), and at the first steps reads memory instead.
#include "codegen/cuda/persistent/recurrence_emitter.h"

#include <algorithm>

#include "codegen/cuda/device/kernel_text.h"

namespace rnnc {
namespace {

using Kind = Instruction::Kind;
using Source = RecurrenceSource;

}  // namespace

/// Which of the side's gathered buffers an access is to; their number if it is to none.
size_t RecurrenceEmitter::gathered_of(const Access& access) const {
  const auto found =
      std::ranges::find(layout_.gathered(), access.buffer, &RecurrenceGather::buffer);
  return static_cast<size_t>(found - layout_.gathered().begin());
}

/// Where in the exchange an element of row `row` is, counted from the first that is gathered.
/// `step`: where the step's part of the exchange begins.
std::string RecurrenceEmitter::place_of_gathered(size_t index, std::string_view step,
                                                 std::string_view element) const {
  return fmt::format("{} + gathered_at{} + (row * {}u + {}) * 4u", step, index,
                     layout_.gathered()[index].width, element);
}

/// `work(index, element, dtype, value)` for each value that the thread hands on of it once
/// reductions up to a level are there.
template <typename Work>
void RecurrenceEmitter::for_gathered(size_t p, int level, const Work& work) {
  const Phase& phase = phases_[p];
  for (uint32_t id = 0; id < phase.kernel->body.size(); ++id) {
    const Instruction& store = phase.kernel->body[id];
    if (store.kind != Kind::Store || phase.levels[id] != level) continue;
    const Access& access = phase.launch->accesses[store.argument];
    const Kernel::Argument& argument = phase.kernel->arguments[store.argument];
    const int64_t count = argument.vector ? phase.kernel->length : 1;
    const size_t index = gathered_of(access);
    if (index == layout_.gathered().size() || !layout_.gathered()[index].holds(access, count)) {
      continue;
    }
    const RecurrenceGather& gather = layout_.gathered()[index];
    const int64_t behind = access.column - gather.column;
    const bool all = behind >= 0 && behind + count <= gather.width;
    for (int64_t s = 0; s < span(phase, store.argument); ++s) {
      const std::string element = argument.vector ? fmt::format("element{} + {}u + {}u", p, s,
                                                                static_cast<uint32_t>(behind))
                                                  : fmt::format("{}u", behind);
      line("        if ({}{}) {{",
           argument.vector ? fmt::format("own{} > {}", p, s) : fmt::format("element{} == 0", p),
           all ? "" : fmt::format(" && {} < {}u", element, gather.width));
      work(index, fmt::format("({})", element), argument.dtype, value(phase, store.operands[0], s));
      line("        }}");
    }
  }
}

void RecurrenceEmitter::hand_on_gathered(size_t p, int level) {
  for_gathered(p, level,
               [&](size_t index, std::string_view element, DType dtype, std::string_view value) {
                 line("          rnnc_exchange<rnnc_engine::f32>({},",
                      place_of_gathered(index, exchange_now(), element));
                 line("              rnnc_rounded<{}>({}));", cuda_element_type(dtype), value);
               });
}

void RecurrenceEmitter::refresh_gathered(size_t p, int level) {
  for_gathered(p, level, [&](size_t index, std::string_view element, DType, std::string_view) {
    line("          rnnc_refresh<4>({});", place_of_gathered(index, "later", element));
  });
}

/// Loads of what is gathered where reductions of a level are there.
std::vector<uint32_t> RecurrenceEmitter::gathered_at(const Phase& phase, int level) {
  std::vector<uint32_t> ids;
  for (uint32_t id = 0; id < phase.kernel->body.size(); ++id) {
    const Instruction& load = phase.kernel->body[id];
    const bool gathers = load.kind == Kind::Load && phase.sources[load.argument] == Source::Gather;
    if (gathers && phase.levels[id] == level) ids.push_back(id);
  }
  return ids;
}

/// How many words a thread gathers for a load in a lap.
int64_t RecurrenceEmitter::words(const Phase& phase, uint32_t id) const {
  return layout_.items(phase) * span(phase, phase.kernel->body[id].argument);
}

/// Where a load's words begin among those that the thread gathers at once.
int64_t RecurrenceEmitter::first_word(const Phase& phase, uint32_t id) const {
  int64_t first = 0;
  for (const uint32_t other : gathered_at(phase, phase.levels[id])) {
    if (other < id) first += words(phase, other);
  }
  return first;
}

void RecurrenceEmitter::gather(size_t p, int level) {
  const Phase& phase = phases_[p];
  const std::vector<uint32_t> ids = gathered_at(phase, level);
  if (ids.empty()) return;
  line("      unsigned gathered{}[{}];", level,
       first_word(phase, ids.back()) + words(phase, ids.back()));
  line("      rnnc_gather(gathered{}, [&](int word) {{", level);
  for (const uint32_t id : ids) {
    const uint32_t argument = phase.kernel->body[id].argument;
    const Access& access = phase.launch->accesses[argument];
    const size_t index = gathered_of(access);
    const int64_t first = first_word(phase, id);
    const int64_t of_row = span(phase, argument);
    const bool vector = phase.kernel->arguments[argument].vector;
    const int64_t behind = access.column - layout_.gathered()[index].column;
    line("        if (word >= {} && word < {}) {{", first, first + words(phase, id));
    line("        const int my_row = (word - {}) / {};", first, of_row);
    line("        const unsigned my_element = (word - {}) % {};", first, of_row);
    find_row(p);
    line("        if (!inside || my_element >= own{} || t < {}) return 0u;", p, access.delay);
    line("        return rnnc_gathered({});",
         place_of_gathered(index,
                           access.delay == 0
                               ? exchange_now()
                               : fmt::format("exchange + {}", step_of_exchange(fmt::format(
                                                                  "(t - {})", access.delay))),
                           vector ? fmt::format("(element{} + my_element + {}u)", p, behind)
                                  : fmt::format("{}u", behind)));
    line("        }}");
  }
  line("        return 0u;");
  line("      }});");
}

/// The value of a load, of the thread's element `s` of row `j`.
std::string RecurrenceEmitter::gathered(size_t p, uint32_t id) const {
  const Phase& phase = phases_[p];
  const uint32_t argument = phase.kernel->body[id].argument;
  const uint32_t delay = phase.launch->accesses[argument].delay;
  const bool vector = phase.kernel->arguments[argument].vector;
  std::string word =
      fmt::format("__uint_as_float(gathered{}[{} + my_row * {}{}])", phase.levels[id],
                  first_word(phase, id), span(phase, argument), vector ? " + my_element" : "");
  if (delay == 0) return word;
  return fmt::format("t >= {} ? {} : my_element < own{} ? rnnc_load({}{}) : 0.0f", delay, word, p,
                     place(p, argument, "t"), vector ? " + my_element" : "");
}

}  // namespace rnnc
