// The kernel, in order:
// 1. Find the block's group of rows and, for each phase, its elements.
// 2. Load the products' weights, values that are the same at every step, and what states hold
//    before the first step.
// 3. For each step and phase, a pass of rows at a time: load what else the elementwise work reads,
//    make the products, wait for the block's other warps, do the elementwise work. Where it needs a
//    reduction, exchange the blocks' parts of it and go on.
//
// In its text, `r` is the value of a place that was stored last, `q` the one before it, `i` is the
// same at every step, `l` was loaded, `v` computed.
#include "codegen/cuda/emit_recurrence.h"

#include <algorithm>

#include "codegen/cuda/kernel_text.h"
#include "codegen/cuda/kernel_traits.h"
#include "ir/text_writer.h"

namespace rnnc {
namespace {

using Kind = Instruction::Kind;
using Source = RecurrenceSource;

class RecurrenceEmitter : TextWriter {
 public:
  RecurrenceEmitter(const Plan& plan, const RecurrenceTile& tile, const RecurrenceLayout& layout,
                    const std::string& name)
      : plan_(plan), tile_(tile), layout_(layout), phases_(layout.phases()), name_(name) {}

  std::string emit() {
    signature();
    position();
    for (size_t p = 0; p < phases_.size(); ++p) operands(p);
    for (size_t p = 0; p < phases_.size(); ++p) invariants(p);
    carries();
    line("  int buffer = 0;");
    line("#pragma unroll 1");
    line("  for (int t = 0; t < steps; ++t) {{");
    for (size_t p = 0; p < phases_.size(); ++p) phase(p);
    line("  }}");
    line("}}");
    return take_text();
  }

 private:
  using Phase = RecurrencePhase;

  int64_t threads() const { return 32 * tile_.warps; }
  int64_t element_bytes() const { return static_cast<int64_t>(size_of(plan_.dtype)); }

  // ---- Steps 1 and 2. ----

  void signature() {
    line("struct {}_launch {{", name_);
    line("  rnnc_rows rows;");
    line("  int steps;");
    line("  int unused;");
    line("  rnnc_access access[{}];", layout_.accesses().size());
    line("}};");
    line("extern \"C\" __global__ void __launch_bounds__({}, 1)", threads());
    line("{}(const __grid_constant__ {}_launch launch) {{", name_, name_);
  }

  void position() {
    line("  rnnc_wait_for_previous();");
    line("  const int steps = launch.steps;");
    line("  const unsigned block = blockIdx.x % {}u;", tile_.blocks);
    line("  const unsigned first_row = blockIdx.x / {}u * {}u;", tile_.blocks,
         layout_.group_rows());
    line("  if (first_row >= launch.rows.count) return;");
    line("  const unsigned row_end = min({}u, first_row + {}u);", plan_.batch,
         layout_.group_rows());
    for (size_t p = 0; p < phases_.size(); ++p) {
      const Phase& phase = phases_[p];
      line("  typedef rnnc_units<{}, {}, {}> units{};", phase.units, phase.segment_length(),
           phase.segments, p);
      line("  const unsigned unit{} = units{}::first(block);", p, p);
      line("  const unsigned unit_end{} = units{}::end(block);", p, p);
      line("  const unsigned e{} = unit{} + threadIdx.x % {}u;", p, p, phase.units);
      line("  typedef rnnc_partial_sums<{}, {}, {}, {}> sums{};", tile_.warps, tile_.rows,
           phase.columns, layout_.sums_bytes(), p);
    }
  }

  std::string_view engine() const {
    switch (plan_.dtype) {
      case DType::bf16:
        return "bf16";
      case DType::f16:
        return "f16";
      default:
        return plan_.tf32 ? "tf32" : "f32";
    }
  }

  static std::string product_name(size_t p, size_t i) { return fmt::format("w{}_{}", p, i); }

  void operands(size_t p) {
    const std::string_view type = cuda_element_type(plan_.dtype);
    const Phase& phase = phases_[p];
    for (size_t i = 0; i < phase.products.size(); ++i) {
      const RecurrenceProduct& product = phase.products[i];
      const FusedLaunch::Product& of = *product.product;
      const int left_bytes =
          copy_bytes(plan_.buffers[of.left.buffer], {of.k, of.left.column, of.left.stride});
      const int weight_bytes =
          copy_bytes(plan_.buffers[of.weight.buffer], {of.k, of.weight.column});
      const std::string name = product_name(p, i);
      line("  rnnc_resident_product<rnnc_engine::{}, {}, {}, {}, {}, {}, {}, {}, {}, {}> {};",
           engine(), product.k_bytes, product.gates, tile_.rows, tile_.warps, product.held,
           product.spill, layout_.lefts(), left_bytes, product.exchanged, name);
      line(
          "  {}.load_weights<{}, {}>(reinterpret_cast<const char*>({}), {}u, unit{}, "
          "unit_end{});",
          name, phase.units, weight_bytes, array(type, true, product.access + 1, "0"),
          phase.kernel->length, p, p);
      line("  const char* const x{}_{} = reinterpret_cast<const char*>({}{});", p, i,
           array(type, true, product.access, "0"),
           of.blocks == 1
               ? ""
               : fmt::format(" + unit{} / {}u * {}", p, phase.kernel->length / of.blocks, of.k));
    }
  }

  /// Row `row` of an array, counted from row 0 at the chunk's first step.
  std::string array(std::string_view type, bool loaded, size_t access, std::string_view row) const {
    return fmt::format("rnnc_at<{}{}, {}>(launch.access[{}], {})", loaded ? "const " : "", type,
                       layout_.accesses()[access].stride, access, row);
  }

  bool has_steps(const Access& access) const {
    const Extent extent = plan_.buffers[access.buffer].extent;
    return extent == Extent::Chunk || extent == Extent::Steps;
  }

  /// Of an argument's array at step `t`, or at the first one, for row `r` and the thread's element.
  std::string place(size_t p, uint32_t argument, bool first_step) const {
    const Kernel::Argument& of = phases_[p].kernel->arguments[argument];
    const size_t access = phases_[p].accesses[argument];
    const bool steps = has_steps(layout_.accesses()[access]) && !first_step;
    return array(cuda_element_type(of.dtype), !of.written, access,
                 steps ? fmt::format("t * {}u + r", plan_.batch) : "r") +
           (of.vector ? fmt::format(" + e{}", p) : "");
  }

  /// Opens a loop over the thread's items of the phase; `pass` is known.
  void open_items(size_t p) {
    const Phase& phase = phases_[p];
    line("#pragma unroll");
    line("      for (int j = 0; j < {}; ++j) {{", layout_.items(phase));
    item(p);
    line("        if (!inside) continue;");
  }

  void item(size_t p) {
    const Phase& phase = phases_[p];
    line("        const unsigned pass_row = threadIdx.x / {}u + j * {}u;", phase.units,
         threads() / phase.units);
    line("        const unsigned r = first_row + pass * {}u + pass_row;", tile_.rows);
    line("        const bool inside = {}e{} < unit_end{} && r < row_end;",
         phase.units * tile_.rows < threads() ? fmt::format("pass_row < {}u && ", tile_.rows) : "",
         p, p);
  }

  void invariants(size_t p) {
    const Phase& phase = phases_[p];
    for (uint32_t i = 0; i < phase.kernel->arguments.size(); ++i) {
      if (phase.sources[i] != Source::Invariant) continue;
      line("  float i{}_{} = 0;", p, i);
      line("  if (e{} < unit_end{}) {{", p, p);
      line("    const unsigned r = 0;");
      line("    i{}_{} = rnnc_load({});", p, i, place(p, i, true));
      line("  }}");
    }
  }

  size_t carry_index(const Access& access) const {
    const auto found = layout_.carries().find({access.buffer, access.column});
    return static_cast<size_t>(std::distance(layout_.carries().begin(), found));
  }

  void carries() {
    size_t index = 0;
    for (const auto& [place_of, carry] : layout_.carries()) {
      const int64_t items = layout_.items(phases_[carry.phase]);
      line("  float r{}[{}][{}] = {{}};", index, layout_.passes(), items);
      if (carry.before) line("  float q{}[{}][{}] = {{}};", index, layout_.passes(), items);
      if (carry.initial) {
        line("#pragma unroll");
        line("  for (int pass = 0; pass < {}; ++pass) {{", layout_.passes());
        open_items(carry.initial_phase);
        line("        r{}[pass][j] = rnnc_load({});", index,
             place(carry.initial_phase, carry.initial_argument, true));
        line("      }}");
        line("  }}");
      }
      ++index;
    }
  }

  // ---- Step 3. ----

  void phase(size_t p) {
    const Phase& phase = phases_[p];
    if (phase.blocks() < tile_.blocks) line("    if (block < {}u)", phase.blocks());
    line("#pragma unroll");
    line("    for (int pass = 0; pass < {}; ++pass) {{", layout_.passes());
    loads(p);
    products(p);
    line("      __syncthreads();");
    variables(p);
    for (int level = 0; level <= phase.last_level(); ++level) {
      open_items(p);
      statements(p, level);
      if (level == phase.last_level()) other_stores(p);
      line("      }}");
      if (level < phase.last_level()) reductions(p, level);
    }
    line("      buffer ^= 1;");
    line("    }}");
  }

  /// As they lie in memory: a conversion would wait for them.
  void loads(size_t p) {
    const Phase& phase = phases_[p];
    std::vector<uint32_t> ids;
    for (uint32_t id = 0; id < phase.kernel->body.size(); ++id) {
      const Instruction& instruction = phase.kernel->body[id];
      if (instruction.kind != Kind::Load) continue;
      if (phase.sources[instruction.argument] == Source::Memory) ids.push_back(id);
    }
    if (ids.empty()) return;
    for (const uint32_t id : ids) {
      const Kernel::Argument& argument = phase.kernel->arguments[phase.kernel->body[id].argument];
      line("      typedef rnnc_packet<{}, 1, true> t{};", cuda_element_type(argument.dtype), id);
      line("      t{} l{}[{}] = {{}};", id, id, layout_.items(phase));
    }
    open_items(p);
    for (const uint32_t id : ids) {
      line("        l{}[j] = t{}::load({});", id, id,
           place(p, phase.kernel->body[id].argument, false));
    }
    line("      }}");
  }

  void products(size_t p) {
    const Phase& phase = phases_[p];
    line("      const unsigned pass_first = first_row + pass * {}u;", tile_.rows);
    line("      const int rows = static_cast<int>(row_end - pass_first);");
    for (size_t i = 0; i < phase.products.size(); ++i) {
      const RecurrenceProduct& product = phase.products[i];
      const Access& left = product.product->left;
      line(
          "      {}.multiply<sums{}::kStride, {}>(sums{}::at(buffer) + {}, x{}_{} + "
          "static_cast<rnnc_word>({}pass_first) * {}, rows, t >= {});",
          product_name(p, i), p, left.stride * element_bytes(), p, product.column, p, i,
          has_steps(left) ? fmt::format("t * {}u + ", plan_.batch) : "",
          left.stride * element_bytes(), left.delay);
    }
  }

  void variables(size_t p) {
    const Phase& phase = phases_[p];
    for (uint32_t id = 0; id < phase.kernel->body.size(); ++id) {
      const Kind kind = phase.kernel->body[id].kind;
      if (kind == Kind::Store || kind == Kind::Constant) continue;
      line("      float v{}[{}];", id, layout_.items(phase));
    }
  }

  /// Those of a level. What other blocks wait for is stored at once, other values after the last.
  void statements(size_t p, int level) {
    const Phase& phase = phases_[p];
    const std::vector<Instruction>& body = phase.kernel->body;
    for (uint32_t id = 0; id < body.size(); ++id) {
      if (body[id].kind == Kind::Reduce && phase.levels[id] == level - 1) reduced(p, id);
    }
    for (uint32_t id = 0; id < body.size(); ++id) {
      if (phase.levels[id] != level) continue;
      if (body[id].kind == Kind::Load) line("        v{}[j] = {};", id, loaded(p, id));
      if (body[id].kind == Kind::Scalar) {
        line("        v{}[j] = {};", id, cuda_scalar_text(body[id].op, [&](size_t i) {
               return value(phase, body[id].operands.at(i));
             }));
      }
      if (body[id].kind == Kind::Store && is_exchanged(phase, body[id])) store(p, body[id]);
    }
  }

  void other_stores(size_t p) {
    for (const Instruction& instruction : phases_[p].kernel->body) {
      if (instruction.kind != Kind::Store || is_exchanged(phases_[p], instruction)) continue;
      store(p, instruction);
    }
  }

  std::string loaded(size_t p, uint32_t id) const {
    const Phase& phase = phases_[p];
    const uint32_t argument = phase.kernel->body[id].argument;
    switch (phase.sources[argument]) {
      case Source::Product:
        return result(p, phase.results[argument]);
      case Source::Invariant:
        return fmt::format("i{}_{}", p, argument);
      case Source::Memory:
        return fmt::format("l{}[j].get(0)", id);
      case Source::Last:
      case Source::Before:
        break;
    }
    return fmt::format("{}{}[pass][j]", phase.sources[argument] == Source::Last ? 'r' : 'q',
                       carry_index(phase.launch->accesses[argument]));
  }

  /// The sum of the products that are parts of a result.
  std::string result(size_t p, uint32_t index) const {
    const Phase& phase = phases_[p];
    std::string text;
    for (const RecurrenceProduct& product : phase.products) {
      if (index < product.first || index >= product.first + product.product->members) continue;
      text += fmt::format("{}sums{}::sum(buffer, {} + threadIdx.x % {}u, pass_row)",
                          text.empty() ? "" : " + ", p,
                          product.column + (index - product.first) * phase.units, phase.units);
    }
    return text;
  }

  bool is_exchanged(const Phase& phase, const Instruction& store) const {
    return layout_.exchanged().contains(phase.launch->accesses[store.argument].buffer);
  }

  void store(size_t p, const Instruction& instruction) {
    const Phase& phase = phases_[p];
    const Kernel::Argument& argument = phase.kernel->arguments[instruction.argument];
    const Access& access = phase.launch->accesses[instruction.argument];
    const std::string stored = value(phase, instruction.operands[0]);
    const auto found = layout_.carries().find({access.buffer, access.column});
    if (found != layout_.carries().end()) {
      const size_t index = carry_index(access);
      if (found->second.before) line("        q{}[pass][j] = r{}[pass][j];", index, index);
      line("        r{}[pass][j] = rnnc_rounded<{}>({});", index, cuda_element_type(argument.dtype),
           stored);
    }
    line("        {}{}({}, {});", argument.vector ? "" : fmt::format("if (e{} == 0) ", p),
         is_exchanged(phase, instruction) ? "rnnc_exchange" : "rnnc_store",
         place(p, instruction.argument, false), stored);
  }

  static std::string value(const Phase& phase, uint32_t id) {
    const Instruction& instruction = phase.kernel->body[id];
    return instruction.kind == Kind::Constant ? cuda_float_literal(instruction.value)
                                              : fmt::format("v{}[j]", id);
  }

  // ---- Reductions. ----

  std::string statistic(size_t index) const {
    return fmt::format("rnnc_statistics({}) + {}", layout_.statistics(),
                       index * static_cast<size_t>(tile_.rows));
  }

  /// Of a row, in the block's part and then in all blocks of the group.
  void reductions(size_t p, int level) {
    const Phase& phase = phases_[p];
    const size_t access = layout_.accesses().size() - 1;
    for (size_t i = 0; i < phase.partials.size(); ++i) {
      if (phase.partials[i].level != level) continue;
      const std::string part = fmt::format("rnnc_part<rnnc_reduction::{}>", kind(phase, i));
      line("#pragma unroll");
      line("      for (int j = 0; j < {}; ++j) {{", layout_.items(phase));
      item(p);
      line("        const float2 part = {}::of_lanes<{}>({}, inside, unit_end{} - unit{});", part,
           phase.units, value(phase, phase.partials[i].value), p, p);
      line("        if (inside && e{} == unit{}) rnnc_exchange({}, part);", p, p,
           partial_place(access, "r", phase.first_partial + i, "block"));
      line("      }}");
    }
    for (size_t i = 0; i < phase.partials.size(); ++i) {
      if (phase.partials[i].level != level) continue;
      line(
          "      rnnc_part<rnnc_reduction::{}>::of_blocks<units{}, {}, {}, {}>({}, {}, min(rows, "
          "{}));",
          kind(phase, i), p, phase.blocks(), threads(), layout_.accesses()[access].stride,
          partial_place(access, "pass_first", phase.first_partial + i, "0u"), statistic(i),
          tile_.rows);
    }
    line("      __syncthreads();");
  }

  static std::string_view kind(const Phase& phase, size_t partial) {
    switch (phase.partials[partial].kind) {
      case RecurrencePartial::Kind::Least:
        return "least";
      case RecurrencePartial::Kind::Greatest:
        return "greatest";
      case RecurrencePartial::Kind::Moments:
        return "moments";
    }
    return "";
  }

  std::string partial_place(size_t access, std::string_view row, size_t partial,
                            std::string_view block) const {
    return fmt::format("{} + ({} * {}u + {}) * 2",
                       array("float", false, access, fmt::format("t * {}u + {}", plan_.batch, row)),
                       partial, tile_.blocks, block);
  }

  /// A reduction's value, once it is there.
  void reduced(size_t p, uint32_t id) {
    const Phase& phase = phases_[p];
    const Op op = phase.kernel->body[id].op;
    line("        v{}[j] = ({})[pass_row].{}{};", id, statistic(phase.partial_of(id)),
         op == Op::Var ? 'y' : 'x',
         op == Op::Var || op == Op::Mean
             ? fmt::format(" / {}", cuda_float_literal(static_cast<double>(phase.kernel->length)))
             : "");
  }

  const Plan& plan_;
  const RecurrenceTile& tile_;
  const RecurrenceLayout& layout_;
  const std::vector<RecurrencePhase>& phases_;
  const std::string& name_;
};

}  // namespace

std::string emit_recurrence_kernel(const Plan& plan, const RecurrenceTile& tile,
                                   const RecurrenceLayout& layout, const std::string& name) {
  return RecurrenceEmitter(plan, tile, layout, name).emit();
}

}  // namespace rnnc
