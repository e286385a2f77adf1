// A side's part of the kernel, in order:
// 1. Find for each phase the block's elements.
// 2. Load the products' weights, values that are the same at every step, and what states hold
//    before the first step.
// 3. For each step and phase, a lap of rows at a time: make the products, load what else the
//    elementwise work of the next lap reads, wait for the block's other warps, do the elementwise
//    work. Where it needs a reduction, hand on the block's part of it, compute meanwhile what does
//    not need it, join all blocks' parts and go on.
//
// recurrence_names.h says what names in the text stand for.
#include "codegen/cuda/persistent/emit_recurrence.h"

#include <algorithm>

#include "codegen/cuda/device/kernel_text.h"
#include "codegen/cuda/persistent/recurrence_emitter.h"

namespace rnnc {
namespace {

using Kind = Instruction::Kind;
using Source = RecurrenceSource;

/// From the last reduction's result on, until a block asks for what others then hand on.
constexpr int kCyclesToState = 350;

}  // namespace

RecurrenceSideText RecurrenceEmitter::emit() {
  slice_traits();
  for (size_t p = 0; p < phases_.size(); ++p) phase_traits(p);
  position();
  line("  // What stays on the chip for all steps: weights, what does not change, states.");
  for (size_t p = 0; p < phases_.size(); ++p) operands(p);
  for (size_t p = 0; p < phases_.size(); ++p) invariants(p);
  carries();
  for (size_t p = 0; p < phases_.size(); ++p) first_loads(p);
  first_inputs();
  for (size_t p = 0; p < phases_.size(); ++p) {
    if (!is_begun_a_step_ahead(p)) continue;
    line("  {};", first_words(p, 0));
    line("  if (steps > 0{}) {}.begin(words{}_0);",
         phases_[p].blocks() < tile_.blocks ? fmt::format(" && block < {}u", phases_[p].blocks())
                                            : "",
         left(p, 0, "0", "0"), p);
  }
  if (tile_.clusters) begin_cluster();
  if (tile_.k_blocks > 1) begin_sharing();
  line("  // ---- All steps. ----");
  line("  int buffer = 0;");
  line("#pragma unroll 1");
  line("  for (int t = 0; t < steps; ++t) {{");
  line("    const unsigned now = t;");
  if (layout_.exchange().step_bytes > 0 && layout_.keeps_addresses()) {
    line("    char* const exchange_now = rnnc_kept(exchange + {});", step_of_exchange("t"));
  }
  for (size_t p = 0; p < phases_.size(); ++p) phase(p);
  if (tile_.clusters) expect("(now + 1u)");
  far_ahead();
  line("  }}");
  if (tile_.clusters) end_cluster();
  return {traits_.take(), take_text()};
}

void RecurrenceEmitter::slice_traits() {
  const RecurrenceExchange& exchange = layout_.exchange();
  for (size_t s = 0; s < layout_.slices().size(); ++s) {
    const RecurrenceExchange::Slice& slice = layout_.slices()[s];
    traits_.constant("unsigned", "kK", slice.k);
    traits_.constant("unsigned", "kVectors", slice.local ? 1 : slice.blocks);
    traits_.constant("unsigned", "kTiles", exchange.tiles);
    traits_.constant("unsigned", "kTileRows", exchange.tile_rows);
    traits_.constant("unsigned", "kElementBytes", element_bytes());
    traits_.end(fmt::format("slice{}", s), "rnnc_slice");
  }
}

void RecurrenceEmitter::phase_traits(size_t p) {
  const Phase& phase = phases_[p];
  traits_.constant("unsigned", "kUnits", phase.units);
  traits_.constant("unsigned", "kSegmentLength", phase.segment_length());
  traits_.constant("unsigned", "kSegments", phase.segments);
  traits_.constant("unsigned", "kKBlocks", tile_.k_blocks);
  traits_.end(fmt::format("units{}", p), "rnnc_units");
  if (tile_.own_sums) return;
  traits_.constant("int", "kWarps", tile_.k_warps);
  traits_.constant("int", "kRows", layout_.sum_rows());
  traits_.constant("int", "kColumns", phase.columns);
  traits_.constant("int", "kBytes", layout_.sums_bytes());
  traits_.end(fmt::format("sums{}", p), "rnnc_partial_sums");
  if (tile_.k_blocks == 1) return;
  traits_.constant("int", "kBlocks", tile_.k_blocks);
  traits_.constant("int", "kRows", layout_.sum_rows());
  traits_.constant("int", "kColumns", ceil_div(phase.own_gates, kTileGates) * kTileGates);
  traits_.constant("unsigned", "kGates", phase.own_gates);
  traits_.constant("unsigned", "kAt", layout_.block_sums());
  traits_.constant("unsigned", "kBarriersAt", layout_.block_barriers());
  traits_.end(fmt::format("blocks{}", p), "rnnc_block_sums");
}

void RecurrenceEmitter::position() {
  line("  // Which elements are the block's, and the thread's.");
  const RecurrenceExchange& exchange = layout_.exchange();
  if (exchange.step_bytes > 0) {
    line("  char* const exchange = reinterpret_cast<char*>({});",
         array("float", false, layout_.accesses().size() - 1, "0"));
  }
  if (layout_.stream_bytes() > 0) {
    const size_t access = layout_.accesses().size() - (exchange.step_bytes > 0 ? 2 : 1);
    line("  char* const stream = reinterpret_cast<char*>({}) + blockIdx.x * {}u;",
         array("float", false, access, "0"), layout_.stream_bytes());
  }
  for (size_t p = 0; p < phases_.size(); ++p) {
    const Phase& phase = phases_[p];
    line("  const unsigned unit{} = units{}::first(block);", p, p);
    if (tile_.k_blocks > 1) {
      line("  const unsigned sharing{} = units{}::first_of_sharing(block);", p, p);
    }
    line("  const unsigned unit_end{} = units{}::end(block);", p, p);
    line("  const unsigned column{} = {};", p, column(phase));
    if (tile_.k_blocks > 1) {
      line("  const unsigned shared_column{0} = column{0} + block % {1}u * {2}u;", p,
           tile_.k_blocks, phase.units);
    }
    line("  const unsigned element{} = unit{} + column{};", p, p, p);
    line("  const unsigned own{} = element{} < unit_end{} ? min({}u, unit_end{} - element{}) : 0;",
         p, p, p, phase.span, p, p);
  }
}

/// The thread's first element in its block.
std::string RecurrenceEmitter::column(const Phase& phase) const {
  if (tile_.own_sums) {
    return fmt::format("threadIdx.x / 32u * {}u + threadIdx.x % 32u / 4u * 2u{}",
                       phase.units / tile_.warps,
                       phase.span == 1 ? " + threadIdx.x % 4u / 2u" : "");
  }
  return fmt::format("threadIdx.x % {}u * {}u", phase.units / phase.span, phase.span);
}

/// A loop over the thread's rows of a lap.
void RecurrenceEmitter::open_rows(size_t p, bool inside_alone) {
  const Phase& phase = phases_[p];
  line("#pragma unroll");
  line("      for (int my_row = 0; my_row < {}; ++my_row) {{", layout_.items(phase));
  find_row(p);
  if (inside_alone) line("        if (!inside) continue;");
}

/// The thread's row `j` of a lap.
void RecurrenceEmitter::find_row(size_t p) {
  const Phase& phase = phases_[p];
  const int64_t lanes = phase.units / phase.span;
  const int64_t at_once = layout_.rows_at_once(phase);
  if (tile_.own_sums) {
    line(
        "        const unsigned lap_row = threadIdx.x % {0}u * {1}u + my_row % {1} + my_row / {1} "
        "* 8u;",
        phase.span == 1 ? 2 : 4, layout_.own_rows());
  } else {
    line("        const unsigned lap_row = threadIdx.x / {}u + my_row * {}u;", lanes, at_once);
  }
  line("        const unsigned row = first_row + lap * {}u + lap_row;", tile_.rows);
  const bool extra_threads = !tile_.own_sums && threads() % lanes != 0;
  const bool extra_rows = !tile_.own_sums && layout_.items(phase) * at_once > tile_.rows;
  line("        const bool inside = {}{}own{} > 0 && row < row_end;",
       extra_threads ? fmt::format("threadIdx.x < {}u && ", lanes * at_once) : "",
       extra_rows ? fmt::format("lap_row < {}u && ", tile_.rows) : "", p);
}

/// A loop over the thread's elements of a row.
void RecurrenceEmitter::open_elements(const Phase& phase) {
  line("#pragma unroll");
  line("        for (int my_element = 0; my_element < {}; ++my_element) {{", phase.span);
  line("          const int my_value = my_row * {} + my_element;", phase.span);
}

void RecurrenceEmitter::invariants(size_t p) {
  const Phase& phase = phases_[p];
  for (uint32_t i = 0; i < phase.kernel->arguments.size(); ++i) {
    if (phase.sources[i] != Source::Invariant || !layout_.keeps_invariants(phase)) continue;
    line("  float fixed{}_{}[{}] = {{}};", p, i, phase.span);
    line("#pragma unroll");
    line("  for (int my_element = 0; my_element < {}; ++my_element) {{", phase.span);
    line("    const unsigned row = 0;");
    line("    if (my_element < own{}) fixed{}_{}[my_element] = rnnc_load({}{});", p, p, i,
         place(p, i, "0"), phase.kernel->arguments[i].vector ? " + my_element" : "");
    line("  }}");
  }
}

size_t RecurrenceEmitter::carry_index(const Access& access) const {
  const auto found = layout_.carries().find({access.buffer, access.column});
  return static_cast<size_t>(std::distance(layout_.carries().begin(), found));
}

void RecurrenceEmitter::carry_of(std::string_view name, size_t index, int64_t shared,
                                 int64_t values) {
  if (!layout_.are_laps_alike()) {
    line("  float {}{}[{}][{}] = {{}};", name, index, layout_.laps(), values);
    return;
  }
  const std::string type = fmt::format("carried_{}{}", name, index);
  traits_.constant("int", "kThreads", threads());
  traits_.constant("int", "kLaps", layout_.laps());
  traits_.constant("int", "kValues", values);
  traits_.constant("int", "kAt", shared);
  traits_.end(type, "rnnc_carried");
  line("  const {} {}{}{{}};", type, name, index);
  line("  {}{}.clear();", name, index);
}

void RecurrenceEmitter::carries() {
  size_t index = 0;
  for (const auto& [place_of, carry] : layout_.carries()) {
    const Phase& phase = phases_[carry.phase];
    const int64_t values = layout_.items(phase) * phase.span;
    carry_of("last", index, carry.shared, values);
    if (carry.before) carry_of("before", index, carry.shared_before, values);
    if (carry.initial) {
      const size_t p = carry.initial_phase;
      unroll_laps();
      line("  for (int lap = 0; lap < {}; ++lap) {{", layout_.laps());
      open_rows(p, true);
      open_elements(phases_[p]);
      line("          if (my_element < own{}) last{}[lap][my_value] = rnnc_load({}{});", p, index,
           place(p, carry.initial_argument, "0"),
           phases_[p].kernel->arguments[carry.initial_argument].vector ? " + my_element" : "");
      line("        }}");
      line("      }}");
      line("  }}");
    }
    ++index;
  }
}

void RecurrenceEmitter::phase(size_t p) {
  const Phase& phase = phases_[p];
  const bool begins = is_begun_ahead(p) && !is_begun_a_step_ahead(p);
  line("    // ---- Phase {}. ----", p);
  if (phase.blocks() < tile_.blocks) line("    if (block < {}u)", phase.blocks());
  if (begins) {
    line("    {{");
    line("    {};", first_words(p, 0));
    line("    {}.begin(words{}_0);", left(p, 0, "t", "0"), p);
  }
  unroll_laps();
  line("    for (int lap = 0; lap < {}; ++lap) {{", layout_.laps());
  const std::vector<int> waits = waits_of(phase);
  variables(p);
  if (!phase.products.empty()) line("      // Its products.");
  products(p);
  if (!loads_last()) loads_of_next_lap(p);
  await_inputs(p);
  const Level first = phase.last_level() > 0 ? level_of(phase, 0) : Level();
  const bool of_sums = phase.last_level() > 0 && are_of_sums(phase, first);
  if (of_sums) place_parts_of_sums(p, first);
  // Who stores to shared memory has passed a barrier after its last use.
  const bool shares = !tile_.own_sums && !phase.products.empty();
  const bool shares_inputs = !tile_.own_sums && has_inputs(phase);
  if (shares || shares_inputs || !phase.partials.empty() || tile_.clusters) {
    line("      __syncthreads();");
  }
  if (shares && tile_.k_blocks > 1) share_sums(p);
  if (tile_.own_sums && has_inputs(phase)) line("      rnnc_sync_warp();");
  if (tile_.own_sums && phase.products.empty()) inputs_ahead(p);
  for (int level = 0; level <= phase.last_level(); ++level) {
    if (of_sums && level == 0) hand_on_parts_of_sums(p, first);
    if (level == 0) gather(p, level);
    elementwise(p, waits, level);
    if (level < phase.last_level()) reductions(p, waits, level, of_sums && level == 0);
  }
  if (loads_last()) loads_of_next_step(p);
  if (!tile_.own_sums) inputs_ahead(p);
  if (stores_locally(phase)) line("      __syncthreads();");
  if (waits_together()) line("      __syncthreads();");
  if (shares) turn_buffer();
  line("    }}");
  if (begins) line("    }}");
}

/// Elementwise work that needs reductions up to a level, and none of later ones.
void RecurrenceEmitter::elementwise(size_t p, const std::vector<int>& waits, int level) {
  const Phase& phase = phases_[p];
  line("      // Its elementwise work{}.",
       level == 0 ? "" : fmt::format(", with {} in a row of its reductions", level));
  open_rows(p, true);
  packets(p, statements_of(phase, waits, level));
  if (level == 0) sums(p);
  if (level == 0 && tile_.k_blocks > 1 && !phase.products.empty()) sums_of_blocks(p);
  open_elements(phase);
  statements(p, waits, level);
  line("        }}");
  exchanges(p, level, false);
  if (exchanges_by_lanes(p, level)) {
    line("      }}");
    open_rows(p, false);
    exchanges(p, level, true);
    line("      }}");
    open_rows(p, true);
  }
  if (level == phase.last_level()) {
    if (is_begun_at_end(p)) {
      line("      }}");
      line("      rnnc_spend(joined, {});", kCyclesToState);
      begin_next(p);
      open_rows(p, true);
    }
    stores(p);
    refreshes(p);
  }
  line("      }}");
}

/// What a level of reductions needs: the block hands on its parts of them, computes what needs none
/// of them, and joins the parts of all blocks.
void RecurrenceEmitter::reductions(size_t p, const std::vector<int>& waits, int level,
                                   bool are_handed_on) {
  const Phase& phase = phases_[p];
  const Level parts = level_of(phase, level);
  if (!are_handed_on) {
    hand_on_parts(p, parts);
    line("      __syncthreads();");
  }
  line("      const unsigned handed_on{} = rnnc_clock();", level);
  while_waiting(p, waits, level + 1);
  gather(p, level + 1);
  join_parts(p, parts);
  if (level + 1 == phase.last_level() && is_begun_at_end(p)) {
    line("      const unsigned joined = rnnc_clock();");
  }
}

void RecurrenceEmitter::variables(size_t p) {
  const Phase& phase = phases_[p];
  for (uint32_t id = 0; id < phase.kernel->body.size(); ++id) {
    const Kind kind = phase.kernel->body[id].kind;
    if (kind == Kind::Store || kind == Kind::Constant) continue;
    line("      float value{}[{}];", id, layout_.items(phase) * phase.span);
  }
}

/// By instruction, n > 0: it depends on no product and no reduction, and is computed while the
/// block waits for the reductions of level n - 1, which the first that uses its value needs.
/// Others, -1, are computed in their turn: those that the products' first users need would take
/// registers from weights.
std::vector<int> RecurrenceEmitter::waits_of(const Phase& phase) {
  const std::vector<Instruction>& body = phase.kernel->body;
  std::vector<int> waits(body.size(), phase.last_level());
  for (uint32_t id = 0; id < body.size(); ++id) {
    const Instruction& instruction = body[id];
    const bool is_late =
        instruction.kind == Kind::Load
            ? phase.sources[instruction.argument] == Source::Product ||
                  phase.sources[instruction.argument] == Source::Gather
            : instruction.kind == Kind::Reduce || instruction.kind == Kind::Store ||
                  std::ranges::any_of(instruction.operands,
                                      [&](uint32_t operand) { return waits[operand] < 0; });
    if (is_late) waits[id] = -1;
  }
  for (uint32_t id = static_cast<uint32_t>(body.size()); id-- > 0;) {
    const int level = waits[id] < 0 ? phase.levels[id] : waits[id];
    for (const uint32_t operand : body[id].operands) {
      if (waits[operand] >= 0) waits[operand] = std::min(waits[operand], level);
    }
  }
  std::ranges::replace(waits, 0, -1);
  return waits;
}

void RecurrenceEmitter::while_waiting(size_t p, const std::vector<int>& waits, int level) {
  const Phase& phase = phases_[p];
  const std::vector<Instruction>& body = phase.kernel->body;
  std::vector<uint32_t> now;
  for (uint32_t id = 0; id < body.size(); ++id) {
    if (waits[id] == level && body[id].kind != Kind::Constant) now.push_back(id);
  }
  if (now.empty()) return;
  open_rows(p, true);
  packets(p, now);
  open_elements(phase);
  for (const uint32_t id : now) statement(p, id);
  line("        }}");
  line("      }}");
}

void RecurrenceEmitter::statements(size_t p, const std::vector<int>& waits, int level) {
  const Phase& phase = phases_[p];
  const std::vector<Instruction>& body = phase.kernel->body;
  for (uint32_t id = 0; id < body.size(); ++id) {
    if (body[id].kind == Kind::Reduce && phase.levels[id] == level - 1) reduced(p, id);
  }
  for (const uint32_t id : statements_of(phase, waits, level)) statement(p, id);
}

/// Instructions of a level that are computed when its reductions are there, and not while they are
/// awaited (waits_of).
std::vector<uint32_t> RecurrenceEmitter::statements_of(const Phase& phase,
                                                       const std::vector<int>& waits, int level) {
  std::vector<uint32_t> ids;
  for (uint32_t id = 0; id < waits.size(); ++id) {
    if (phase.levels[id] == level && waits[id] < 0) ids.push_back(id);
  }
  return ids;
}

void RecurrenceEmitter::statement(size_t p, uint32_t id) {
  const Phase& phase = phases_[p];
  const Instruction& instruction = phase.kernel->body[id];
  if (instruction.kind == Kind::Load) line("          value{}[my_value] = {};", id, loaded(p, id));
  if (instruction.kind == Kind::Scalar) {
    const auto operand = [&](size_t i) {
      return value(phase, instruction.operands.at(i), "my_value");
    };
    line("          value{}[my_value] = {};", id,
         cuda_scalar_text(instruction.op, operand, precision_of(plan_.dtype)));
  }
}

std::string RecurrenceEmitter::value(const Phase& phase, uint32_t id, std::string_view index) {
  const Instruction& instruction = phase.kernel->body[id];
  return instruction.kind == Kind::Constant ? cuda_float_literal(instruction.value)
                                            : fmt::format("value{}[{}]", id, index);
}

/// The text of a value, for the thread's element `s` of its row `j`.
std::string RecurrenceEmitter::value(const Phase& phase, uint32_t id, int64_t s) {
  return value(phase, id, fmt::format("my_row * {} + {}", phase.span, s));
}

void RecurrenceEmitter::stores(size_t p) {
  const Phase& phase = phases_[p];
  for (const Instruction& instruction : phase.kernel->body) {
    if (instruction.kind == Kind::Store) store(p, instruction);
  }
}

int64_t RecurrenceEmitter::steps_read(const Access& access) const {
  return std::max<int64_t>(plan_.buffers[access.buffer].history, 1);
}

void RecurrenceEmitter::store(size_t p, const Instruction& instruction) {
  const Phase& phase = phases_[p];
  const uint32_t argument = instruction.argument;
  const std::string_view type = cuda_element_type(phase.kernel->arguments[argument].dtype);
  const Access& access = phase.launch->accesses[argument];
  const auto found = layout_.carries().find({access.buffer, access.column});
  if (found != layout_.carries().end()) {
    const size_t index = carry_index(access);
    open_elements(phase);
    if (found->second.before)
      line("          before{}[lap][my_value] = last{}[lap][my_value];", index, index);
    line("          last{}[lap][my_value] = rnnc_rounded<{}>({});", index, type,
         value(phase, instruction.operands[0], "my_value"));
    line("        }}");
  }
  const int64_t width = span(phase, argument);
  const bool at_last = layout_.is_stored_at_last(access);
  line("        {}{{",
       at_last ? fmt::format("if (t + {} >= steps) ", steps_read(access)) : std::string());
  std::string_view row = "row";
  if (at_last && !has_steps(access)) {
    row = "last_row";
    line("          unsigned last_row = row;");
    line("          rnnc_keep_here(last_row);  // not before the loop");
  }
  if (width > 1 && at_once(phase, argument) == width) {
    line("          rnnc_packet<{}, {}, true> packet = {{}};", type, width);
    for (int64_t s = 0; s < width; ++s) {
      line("          packet.set({}, {});", s, value(phase, instruction.operands[0], s));
    }
    line("          packet.store({});", place(p, argument, "t", row));
  } else {
    for (int64_t s = 0; s < width; ++s) {
      const bool vector = phase.kernel->arguments[argument].vector;
      line("          if ({}) rnnc_store({}{}, {});",
           vector ? fmt::format("own{} > {}", p, s) : fmt::format("element{} == 0", p),
           place(p, argument, "t", row), s == 0 ? "" : fmt::format(" + {}", s),
           value(phase, instruction.operands[0], s));
    }
  }
  line("        }}");
}

RecurrenceSideText emit_recurrence_side(const Plan& plan, const RecurrenceTile& tile,
                                        const RecurrenceLayout& layout) {
  return RecurrenceEmitter(plan, tile, layout).emit();
}

}  // namespace rnnc
