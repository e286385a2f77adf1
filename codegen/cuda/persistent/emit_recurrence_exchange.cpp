// A block hands on what others wait for as soon as it is there: through memory, where who waits
// looks at the data (recurrence.cuh); of clusters to each block's shared memory, where a barrier of
// each slice and slot counts the bytes that arrive; to itself through its own.
#include "codegen/cuda/persistent/recurrence_emitter.h"

#include <algorithm>

#include "codegen/cuda/device/kernel_text.h"
#include "codegen/cuda/elementwise/kernel_traits.h"
#include "ir/base/arithmetic.h"

namespace rnnc {
namespace {

using Kind = Instruction::Kind;

/// Steps ahead.
constexpr int64_t kStepsRefreshed = 8;

}  // namespace

/// Where a slice lies in shared memory.
int64_t RecurrenceEmitter::shared_place(size_t slice) const {
  const bool local = layout_.slices()[slice].local;
  return (local ? layout_.local() : layout_.clusters()) + layout_.slices()[slice].offset;
}

/// How far behind shared_place the slice lies for a step, in bytes. What a block hands to itself at
/// a step it reads at that step or the next one, so that two places do.
std::string RecurrenceEmitter::shared_step(size_t slice, std::string_view step) const {
  const RecurrenceExchange& exchange = layout_.exchange();
  return layout_.slices()[slice].local
             ? fmt::format("{} % 2 * {}", step, exchange.local_bytes)
             : fmt::format("{} % {} * {}", step, exchange.slots, exchange.cluster_bytes);
}

int64_t RecurrenceEmitter::first_barrier(size_t slice) const {
  return layout_.barriers() + static_cast<int64_t>(slice) * layout_.exchange().slots * 8;
}

std::string RecurrenceEmitter::barrier(size_t slice, std::string_view step) const {
  return fmt::format("shared_memory + {}u + {} % {} * 8u", first_barrier(slice), step,
                     layout_.exchange().slots);
}

std::string RecurrenceEmitter::await(size_t slice, std::string_view step) const {
  return fmt::format("rnnc_await_slice({}, {} / {} % 2)", barrier(slice, step), step,
                     layout_.exchange().slots);
}

void RecurrenceEmitter::begin_cluster() {
  line("  const auto shared_memory =");
  line("      static_cast<unsigned>(__cvta_generic_to_shared(rnnc_shared));");
  line("  if (threadIdx.x == 0) {{");
  for (size_t s = 0; s < layout_.slices().size(); ++s) {
    line("    for (unsigned slot = 0; slot < {}; ++slot) rnnc_begin_barrier({});",
         layout_.exchange().slots, barrier(s, "slot"));
  }
  line("    rnnc_publish_barriers();");
  line("  }}");
  line("  rnnc_sync_cluster();");
  expect("0u");
}

/// Of blocks that share k: a barrier for each buffer of what they hand to each other.
void RecurrenceEmitter::begin_sharing() {
  line("  if (threadIdx.x == 0) {{");
  line("    const auto barriers =");
  line("        static_cast<unsigned>(__cvta_generic_to_shared(rnnc_shared)) + {}u;",
       layout_.block_barriers());
  for (int64_t buffer = 0; buffer < kSumBuffers; ++buffer) {
    line("    rnnc_begin_barrier(barriers + {}u);", buffer * kBytesOfBarrier);
  }
  line("    rnnc_publish_barriers();");
  line("  }}");
  line("  rnnc_sync_cluster();");
  line("  unsigned parity = 0;  // of the barriers of `buffer`");
}

/// What has arrived already counts. The last thread has the least to do.
void RecurrenceEmitter::expect(std::string_view step) {
  line("    if (threadIdx.x == {} && {} < steps) {{", threads() - 1, step);
  for (size_t s = 0; s < layout_.slices().size(); ++s) {
    line("      rnnc_expect({}, (row_end - first_row) * {}u);", barrier(s, step),
         layout_.slices()[s].row_bytes);
  }
  line("    }}");
}

/// Nothing is on its way any more to a block that ends.
void RecurrenceEmitter::end_cluster() {
  line("  for (unsigned now = max(0, steps - {}); now < steps; ++now) {{",
       layout_.exchange().slots);
  for (size_t s = 0; s < layout_.slices().size(); ++s) line("    {};", await(s, "now"));
  line("  }}");
}

/// Where a step's part of the exchange begins, in bytes from the first step's.
std::string RecurrenceEmitter::step_of_exchange(std::string_view step) const {
  const int64_t width = layout_.accesses().back().stride;
  return fmt::format("static_cast<rnnc_word>({}) * {}", step, plan_.batch * width * 4);
}

/// The address of that part, for the step that is running.
std::string RecurrenceEmitter::exchange_now() const {
  return layout_.keeps_addresses() ? "exchange_now"
                                   : fmt::format("exchange + {}", step_of_exchange("t"));
}

/// `work(store, slice)` for what a phase hands on once reductions up to a level are there.
template <typename Work>
void RecurrenceEmitter::for_exchanges(size_t p, int level, const Work& work) const {
  const Phase& phase = phases_[p];
  const std::vector<RecurrenceExchange::Slice>& slices = layout_.slices();
  for (uint32_t id = 0; id < phase.kernel->body.size(); ++id) {
    const Instruction& store = phase.kernel->body[id];
    if (store.kind != Kind::Store || phase.levels[id] != level) continue;
    const Access& access = phase.launch->accesses[store.argument];
    const bool vector = phase.kernel->arguments[store.argument].vector;
    const int64_t count = vector ? phase.kernel->length : 1;
    for (size_t s = 0; s < slices.size(); ++s) {
      if (slices[s].holds(access, count)) work(store, s);
    }
  }
}

/// Whether two halves that make a word are those of two lanes.
bool RecurrenceEmitter::is_of_lanes(const Phase& phase, size_t slice) const {
  return phase.span == 1 && element_bytes() == 2 && layout_.is_whole(slice);
}

bool RecurrenceEmitter::exchanges_by_lanes(size_t p, int level) const {
  bool result = false;
  for_exchanges(p, level, [&](const Instruction&, size_t slice) {
    result = result || is_of_lanes(phases_[p], slice);
  });
  return result;
}

/// Hands on what other blocks wait for, as soon as it is there.
void RecurrenceEmitter::exchanges(size_t p, int level, bool by_lanes) {
  for_exchanges(p, level, [&](const Instruction& store, size_t slice) {
    if (is_of_lanes(phases_[p], slice) != by_lanes) return;
    by_lanes ? exchange_by_lanes(p, store, slice) : exchange(p, store, slice);
  });
  if (!by_lanes) hand_on_gathered(p, level);
}

/// Whether the phase hands on anything through memory.
bool RecurrenceEmitter::stores_to_exchange(size_t p) const {
  const Phase& phase = phases_[p];
  bool result = phase.last_level() > 0;  // parts of reductions
  for (int level = 0; level <= phase.last_level(); ++level) {
    for_exchanges(p, level, [&](const Instruction&, size_t slice) {
      result = result || !layout_.is_shared(slice);
    });
  }
  return result || std::ranges::any_of(phase.kernel->body, [&](const Instruction& store) {
           return store.kind == Kind::Store &&
                  gathered_of(phase.launch->accesses[store.argument]) < layout_.gathered().size();
         });
}

/// Where the thread will hand on values of its row some steps later. Last of all: nobody waits.
void RecurrenceEmitter::refreshes(size_t p) {
  if (!stores_to_exchange(p)) return;
  line("        if (t + {} < steps) {{", kStepsRefreshed);
  line("          char* const later = {} + {};", exchange_now(),
       step_of_exchange(fmt::format("{}", kStepsRefreshed)));
  for (int level = 0; level <= phases_[p].last_level(); ++level) {
    for_exchanges(p, level, [&](const Instruction& store, size_t slice) {
      if (!layout_.is_shared(slice)) refresh(p, store, slice);
    });
    refresh_gathered(p, level);
    if (level < phases_[p].last_level()) refresh_parts(p, level_of(phases_[p], level));
  }
  line("        }}");
}

/// What `exchange` and `exchange_by_lanes` store, and the pad behind a vector.
void RecurrenceEmitter::refresh(size_t p, const Instruction& store, size_t index) {
  constexpr int64_t kSectorBytes = 32;
  const Phase& phase = phases_[p];
  const RecurrenceExchange::Slice& slice = layout_.slices()[index];
  const bool vector = phase.kernel->arguments[store.argument].vector;
  const bool by_lanes = is_of_lanes(phase, index);
  const int64_t pairs = vector ? phase.span : 1;
  const int64_t at_once = by_lanes ? 2 : layout_.is_whole(index) ? pairs : 1;
  const int64_t bytes = at_once * element_bytes();
  const int64_t pad = ceil_div(slice.k, at_once) * bytes % kSectorBytes;  // where it begins
  for (int64_t s = 0; s < pairs; s += at_once) {
    const auto [element, condition] = handed_on(p, store, index, s);
    line("          if ({}{}) {{", condition,
         by_lanes ? fmt::format(" && column{} % 2 == 0", p) : "");
    line("            char* const to = later + slice_at{} + {};", index,
         place_in_slice(index, element));
    line("            rnnc_refresh<{}>(to);", bytes);
    if (pad > 0) {
      line("            if (({}) % {}u + {}u >= {}u) rnnc_refresh_pad<{}>(to + {});", element,
           slice.k, at_once, slice.k, pad, bytes);
    }
    line("          }}");
  }
}

bool RecurrenceEmitter::stores_locally(const Phase& phase) const {
  return std::ranges::any_of(layout_.slices(), [&](const auto& slice) {
    return slice.local && std::ranges::any_of(phase.kernel->body, [&](const Instruction& store) {
             return store.kind == Kind::Store &&
                    slice.holds(phase.launch->accesses[store.argument], phase.kernel->length);
           });
  });
}

RecurrenceEmitter::InSlice RecurrenceEmitter::in_slice(const Phase& phase, const Instruction& store,
                                                       size_t index) const {
  const RecurrenceExchange::Slice& slice = layout_.slices()[index];
  const int64_t behind = phase.launch->accesses[store.argument].column - slice.column;
  const int64_t width = slice.k * slice.blocks;
  const bool vector = phase.kernel->arguments[store.argument].vector;
  return {behind, width, behind >= 0 && behind + (vector ? phase.kernel->length : 1) <= width};
}

RecurrenceEmitter::HandedOn RecurrenceEmitter::handed_on(size_t p, const Instruction& store,
                                                         size_t index, int64_t s) const {
  const Phase& phase = phases_[p];
  const auto [behind, width, all] = in_slice(phase, store, index);
  const bool vector = phase.kernel->arguments[store.argument].vector;
  HandedOn result = {
      .element = vector ? fmt::format("element{} + {}u + {}u", p, s, static_cast<uint32_t>(behind))
                        : fmt::format("{}u", behind),
      .condition = vector ? fmt::format("own{} > {}", p, s) : fmt::format("element{} == 0", p)};
  if (!all) result.condition += fmt::format(" && {} < {}u", result.element, width);
  return result;
}

/// A word that ends behind the slice, or behind the row, is filled up with zero.
void RecurrenceEmitter::exchange(size_t p, const Instruction& store, size_t index) {
  const Phase& phase = phases_[p];
  const auto [behind, width, all] = in_slice(phase, store, index);
  const bool vector = phase.kernel->arguments[store.argument].vector;
  const int64_t pairs = vector ? phase.span : 1;
  const int64_t step = layout_.is_whole(index) ? pairs : 1;
  for (int64_t s = 0; s < pairs; s += step) {
    const auto [element, condition] = handed_on(p, store, index, s);
    line("        if ({}) {{", condition);
    const std::string first = value(phase, store.operands[0], s);
    if (step == 1) {
      hand_on(index, element, first);
    } else {
      const std::string last = all ? "" : fmt::format(" && {} + 1u < {}u", element, width);
      hand_on(index, element, first, fmt::format("own{} > {}{}", p, s + 1, last),
              value(phase, store.operands[0], s + 1));
    }
    line("        }}");
  }
}

void RecurrenceEmitter::exchange_by_lanes(size_t p, const Instruction& store, size_t index) {
  const Phase& phase = phases_[p];
  const auto [behind, width, all] = in_slice(phase, store, index);
  const std::string element = fmt::format("element{} + {}u", p, static_cast<uint32_t>(behind));
  line("        {{");
  line("          const float first = {};", value(phase, store.operands[0], 0));
  line("          const float second = __shfl_xor_sync(0xffffffffu, first, {});",
       tile_.own_sums ? 2 : 1);
  line("          if (inside && column{} % 2 == 0{}) {{", p,
       all ? "" : fmt::format(" && {} < {}u", element, width));
  hand_on(index, element, "first",
          fmt::format("element{0} + 1u < unit_end{0}{1}", p,
                      all ? "" : fmt::format(" && {} + 1u < {}u", element, width)),
          "second");
  line("          }}");
  line("        }}");
}

/// Where a slice has an element of the thread's row.
std::string RecurrenceEmitter::place_in_slice(size_t index, std::string_view element) const {
  return fmt::format("slice{0}::element({1}) + slice{0}::row(lap * {2}u + lap_row)", index,
                     layout_.is_shared(index)
                         ? fmt::format("0u, ({}) % {}u", element, layout_.slices()[index].k)
                         : fmt::format("group, {}", element),
                     tile_.rows);
}

/// An element of a slice, or two where there are `both`.
void RecurrenceEmitter::hand_on(size_t index, std::string_view element, std::string_view first,
                                std::string_view both, std::string_view second) {
  const RecurrenceExchange::Slice& slice = layout_.slices()[index];
  const std::string place = place_in_slice(index, element);
  if (tile_.clusters && !slice.local) {
    line("          rnnc_send<rnnc_engine::{}, {}>(shared_memory + {}u + {} + {}, {}, {}{});",
         engine(), tile_.blocks, shared_place(index), shared_step(index, "now"), place,
         barrier(index, "now"), first, both.empty() ? "" : fmt::format(", {}, {}", second, both));
    return;
  }
  const std::string values =
      both.empty() ? std::string(first) : fmt::format("{}, {} ? {} : 0.0f", first, both, second);
  if (slice.local) {
    line(
        "          rnnc_keep<rnnc_engine::{}>(reinterpret_cast<char*>(rnnc_shared) + {} + {} + "
        "{}, {});",
        engine(), shared_place(index), shared_step(index, "now"), place, values);
  } else {
    line("          rnnc_exchange<rnnc_engine::{}>({} + slice_at{} + {}, {});", engine(),
         exchange_now(), index, place, values);
  }
}

}  // namespace rnnc
