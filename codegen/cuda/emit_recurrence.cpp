// A side's part of the kernel, in order:
// 1. Find for each phase the block's elements.
// 2. Load the products' weights, values that are the same at every step, and what states hold
//    before the first step.
// 3. For each step and phase, a pass of rows at a time: make the products, load what else the
//    elementwise work of the next pass reads, wait for the block's other warps, do the elementwise
//    work. Where it needs a reduction, hand on the block's part of it, compute meanwhile what does
//    not need it, join all blocks' parts and go on.
//
// In its text, `first` is the side's first array, `at` where a slice lies in a step of the exchange
// and `parts_at` where its parts of reductions do (codegen/cuda/emit_sides.cpp). `r` is the value
// of a place that was stored last, `q` the one before it, `i` is the same at every step, `l` is
// loaded for the next pass, `m` was for this one, `a` is of products, `v` computed.
#include "codegen/cuda/emit_recurrence.h"

#include <algorithm>
#include <span>

#include "codegen/cuda/kernel_text.h"
#include "codegen/cuda/kernel_traits.h"
#include "ir/text_writer.h"

namespace rnnc {
namespace {

using Kind = Instruction::Kind;
using Source = RecurrenceSource;

constexpr int kStepsAhead = 4;

class RecurrenceEmitter : TextWriter {
 public:
  RecurrenceEmitter(const Plan& plan, const RecurrenceTile& tile, const RecurrenceLayout& layout)
      : plan_(plan), tile_(tile), layout_(layout), phases_(layout.phases()) {}

  std::string emit() {
    position();
    for (size_t p = 0; p < phases_.size(); ++p) operands(p);
    for (size_t p = 0; p < phases_.size(); ++p) invariants(p);
    carries();
    for (size_t p = 0; p < phases_.size(); ++p) first_loads(p);
    if (tile_.clusters) begin_cluster();
    line("  int buffer = 0;");
    line("#pragma unroll 1");
    line("  for (int t = 0; t < steps; ++t) {{");
    line("    const unsigned now = t;");
    for (size_t p = 0; p < phases_.size(); ++p) phase(p);
    if (tile_.clusters) expect("(now + 1u)");
    line("  }}");
    if (tile_.clusters) end_cluster();
    return take_text();
  }

 private:
  using Phase = RecurrencePhase;

  int64_t threads() const { return 32 * tile_.warps; }
  int64_t element_bytes() const { return static_cast<int64_t>(size_of(plan_.dtype)); }

  // ---- Steps 1 and 2. ----

  void position() {
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
    for (size_t s = 0; s < layout_.slices().size(); ++s) {
      const RecurrenceExchange::Slice& slice = layout_.slices()[s];
      line("  typedef rnnc_slice<{}, {}, {}, {}, {}> slice{};", slice.k,
           slice.local ? 1 : slice.blocks, exchange.tiles, exchange.tile_rows, element_bytes(), s);
    }
    for (size_t p = 0; p < phases_.size(); ++p) {
      const Phase& phase = phases_[p];
      line("  typedef rnnc_units<{}, {}, {}> units{};", phase.units, phase.segment_length(),
           phase.segments, p);
      line("  const unsigned unit{} = units{}::first(block);", p, p);
      line("  const unsigned unit_end{} = units{}::end(block);", p, p);
      line("  const unsigned column{} = {};", p, column(phase));
      line("  const unsigned e{} = unit{} + column{};", p, p, p);
      line("  const unsigned own{} = e{} < unit_end{} ? min({}u, unit_end{} - e{}) : 0;", p, p, p,
           phase.span, p, p);
      if (tile_.own_sums) continue;
      line("  typedef rnnc_partial_sums<{}, {}, {}, {}> sums{};", tile_.k_warps, layout_.sum_rows(),
           phase.columns, layout_.sums_bytes(), p);
    }
  }

  /// The thread's first element in its block.
  std::string column(const Phase& phase) const {
    if (tile_.own_sums) {
      return fmt::format("threadIdx.x / 32u * {}u + threadIdx.x % 32u / 4u * 2u",
                         phase.units / tile_.warps);
    }
    return fmt::format("threadIdx.x % {}u * {}u", phase.units / phase.span, phase.span);
  }

  std::string_view engine() const {
    switch (plan_.dtype) {
      case DType::bf16:
        return "bf16";
      case DType::f16:
        return "f16";
      default:
        return plan_.tf32 ? "tf32" : tile_.split ? "split" : "f32";
    }
  }

  static std::string product_name(size_t p, size_t i) { return fmt::format("w{}_{}", p, i); }

  void operands(size_t p) {
    const std::string_view type = cuda_element_type(plan_.dtype);
    const RecurrenceExchange& exchange = layout_.exchange();
    const Phase& phase = phases_[p];
    for (size_t i = 0; i < phase.products.size(); ++i) {
      const RecurrenceProduct& product = phase.products[i];
      const FusedLaunch::Product& of = *product.product;
      const int left_bytes =
          copy_bytes(plan_.buffers[of.left.buffer], {of.k, of.left.column, of.left.stride});
      const int weight_bytes =
          copy_bytes(plan_.buffers[of.weight.buffer], {of.k, of.weight.column});
      const std::string name = product_name(p, i);
      const bool exchanged = product.is_exchanged();
      const bool shared = exchanged && layout_.is_shared(product.slice);
      line(
          "  rnnc_resident_product<rnnc_engine::{}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, "
          "{}, {}, {}> {};",
          engine(), product.k_bytes, product.gates, tile_.rows, tile_.warps, tile_.k_warps,
          product.held, product.shared, product.spill, layout_.lefts(), left_bytes,
          exchanged ? exchange.tile_rows : 0, exchanged && layout_.is_whole(product.slice), shared,
          layout_.own_rows(), name);
      line(
          "  {}.load_weights<{}, {}>(reinterpret_cast<const char*>({}), {}u, unit{}, "
          "unit_end{}, {});",
          name, phase.units, weight_bytes, array(type, true, product.access + 1, "0"),
          phase.kernel->length, p, p,
          layout_.stream_bytes() > 0 ? fmt::format("stream + {}", product.stream) : "nullptr");
      const std::string vector =
          of.blocks == 1 ? "0u" : fmt::format("unit{} / {}u", p, phase.kernel->length / of.blocks);
      line("  const char* const x{}_{} = reinterpret_cast<const char*>({} + {} * {});", p, i,
           array(type, true, product.access, "0"), vector, of.k);
      if (!exchanged) continue;
      if (shared) {
        line("  const char* const y{}_{} = reinterpret_cast<char*>(rnnc_shared) + {};", p, i,
             shared_place(product.slice));
        continue;
      }
      line("  const char* const y{}_{} = exchange + at{} + slice{}::vector(group, {});", p, i,
           product.slice, product.slice, vector);
    }
  }

  /// Where a slice lies in shared memory.
  int64_t shared_place(size_t slice) const {
    const bool local = layout_.slices()[slice].local;
    return (local ? layout_.local() : layout_.clusters()) + layout_.slices()[slice].offset;
  }
  /// Bytes from there on. What a block hands to itself at a step it reads at it or the next.
  std::string shared_step(size_t slice, std::string_view step) const {
    const RecurrenceExchange& exchange = layout_.exchange();
    return layout_.slices()[slice].local
               ? fmt::format("{} % 2 * {}", step, exchange.local_bytes)
               : fmt::format("{} % {} * {}", step, exchange.slots, exchange.cluster_bytes);
  }

  // ---- Clusters: a barrier of each slice and slot counts the bytes that arrive. ----

  int64_t first_barrier(size_t slice) const {
    return layout_.barriers() + static_cast<int64_t>(slice) * layout_.exchange().slots * 8;
  }
  std::string barrier(size_t slice, std::string_view step) const {
    return fmt::format("shared_memory + {}u + {} % {} * 8u", first_barrier(slice), step,
                       layout_.exchange().slots);
  }
  std::string await(size_t slice, std::string_view step) const {
    return fmt::format("rnnc_await_slice({}, {} / {} % 2)", barrier(slice, step), step,
                       layout_.exchange().slots);
  }

  void begin_cluster() {
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

  /// What has arrived already counts. The last thread has the least to do.
  void expect(std::string_view step) {
    line("    if (threadIdx.x == {} && {} < steps) {{", threads() - 1, step);
    for (size_t s = 0; s < layout_.slices().size(); ++s) {
      line("      rnnc_expect({}, (row_end - first_row) * {}u);", barrier(s, step),
           layout_.slices()[s].row_bytes);
    }
    line("    }}");
  }

  /// Nothing is on its way any more to a block that ends.
  void end_cluster() {
    line("  for (unsigned now = max(0, steps - {}); now < steps; ++now) {{",
         layout_.exchange().slots);
    for (size_t s = 0; s < layout_.slices().size(); ++s) line("    {};", await(s, "now"));
    line("  }}");
  }

  /// Row `row` of an array, counted from row 0 at the chunk's first step.
  std::string array(std::string_view type, bool loaded, size_t access, std::string_view row) const {
    return fmt::format("rnnc_at<{}{}, {}>(launch.access[first + {}], {})", loaded ? "const " : "",
                       type, layout_.accesses()[access].stride, access, row);
  }

  bool has_steps(const Access& access) const {
    const Extent extent = plan_.buffers[access.buffer].extent;
    return extent == Extent::Chunk || extent == Extent::Steps;
  }

  const Access& access_of(const Phase& phase, uint32_t argument) const {
    return layout_.accesses()[phase.accesses[argument]];
  }

  /// Of an argument's array at `step`, for row `r` and the thread's first element.
  std::string place(size_t p, uint32_t argument, std::string_view step) const {
    const Kernel::Argument& of = phases_[p].kernel->arguments[argument];
    const bool steps = has_steps(access_of(phases_[p], argument)) && step != "0";
    return array(cuda_element_type(of.dtype), !of.written, phases_[p].accesses[argument],
                 steps ? fmt::format("({}) * {}u + r", step, plan_.batch) : "r") +
           (of.vector ? fmt::format(" + e{}", p) : "");
  }

  /// Elements of a row that a thread has.
  static int64_t span(const Phase& phase, uint32_t argument) {
    return phase.kernel->arguments[argument].vector ? phase.span : 1;
  }

  /// Of these, how many it loads or stores at once: all where they are aligned to their size.
  int64_t at_once(const Phase& phase, uint32_t argument) const {
    const Access& access = access_of(phase, argument);
    const int64_t all = span(phase, argument);
    const int64_t bytes = all * static_cast<int64_t>(size_of(plan_.buffers[access.buffer].dtype));
    const int aligned = copy_bytes(plan_.buffers[access.buffer], {access.column, access.stride});
    return phase.segment_length() % all == 0 && aligned >= bytes ? all : 1;
  }

  /// A loop over the thread's rows of a pass.
  void open_rows(size_t p, bool inside_alone) {
    const Phase& phase = phases_[p];
    const int64_t lanes = phase.units / phase.span;
    line("#pragma unroll");
    line("      for (int j = 0; j < {}; ++j) {{", layout_.items(phase));
    const int64_t at_once = layout_.rows_at_once(phase);
    if (tile_.own_sums) {
      line("        const unsigned pass_row = threadIdx.x % 4u * {0}u + j % {0} + j / {0} * 8u;",
           layout_.own_rows());
    } else {
      line("        const unsigned pass_row = threadIdx.x / {}u + j * {}u;", lanes, at_once);
    }
    line("        const unsigned r = first_row + pass * {}u + pass_row;", tile_.rows);
    const bool extra_threads = !tile_.own_sums && threads() % lanes != 0;
    const bool extra_rows = !tile_.own_sums && layout_.items(phase) * at_once > tile_.rows;
    line("        const bool inside = {}{}own{} > 0 && r < row_end;",
         extra_threads ? fmt::format("threadIdx.x < {}u && ", lanes * at_once) : "",
         extra_rows ? fmt::format("pass_row < {}u && ", tile_.rows) : "", p);
    if (inside_alone) line("        if (!inside) continue;");
  }

  /// A loop over the thread's elements of a row.
  void open_elements(const Phase& phase) {
    line("#pragma unroll");
    line("        for (int s = 0; s < {}; ++s) {{", phase.span);
    line("          const int n = j * {} + s;", phase.span);
  }

  void invariants(size_t p) {
    const Phase& phase = phases_[p];
    for (uint32_t i = 0; i < phase.kernel->arguments.size(); ++i) {
      if (phase.sources[i] != Source::Invariant || !layout_.keeps_invariants(phase)) continue;
      line("  float i{}_{}[{}] = {{}};", p, i, phase.span);
      line("#pragma unroll");
      line("  for (int s = 0; s < {}; ++s) {{", phase.span);
      line("    const unsigned r = 0;");
      line("    if (s < own{}) i{}_{}[s] = rnnc_load({}{});", p, p, i, place(p, i, "0"),
           phase.kernel->arguments[i].vector ? " + s" : "");
      line("  }}");
    }
  }

  size_t carry_index(const Access& access) const {
    const auto found = layout_.carries().find({access.buffer, access.column});
    return static_cast<size_t>(std::distance(layout_.carries().begin(), found));
  }

  void carry_of(char letter, size_t index, int64_t shared, int64_t values) {
    if (!layout_.are_passes_alike()) {
      line("  float {}{}[{}][{}] = {{}};", letter, index, layout_.passes(), values);
      return;
    }
    line("  const rnnc_carried<{}, {}, {}, {}> {}{}{{}};", threads(), layout_.passes(), values,
         shared, letter, index);
    line("  {}{}.clear();", letter, index);
  }

  void unroll_passes() { line("#pragma unroll{}", layout_.are_passes_alike() ? " 1" : ""); }

  void carries() {
    size_t index = 0;
    for (const auto& [place_of, carry] : layout_.carries()) {
      const Phase& phase = phases_[carry.phase];
      const int64_t values = layout_.items(phase) * phase.span;
      carry_of('r', index, carry.shared, values);
      if (carry.before) carry_of('q', index, carry.shared_before, values);
      if (carry.initial) {
        const size_t p = carry.initial_phase;
        unroll_passes();
        line("  for (int pass = 0; pass < {}; ++pass) {{", layout_.passes());
        open_rows(p, true);
        open_elements(phases_[p]);
        line("          if (s < own{}) r{}[pass][n] = rnnc_load({}{});", p, index,
             place(p, carry.initial_argument, "0"),
             phases_[p].kernel->arguments[carry.initial_argument].vector ? " + s" : "");
        line("        }}");
        line("      }}");
        line("  }}");
      }
      ++index;
    }
  }

  // ---- What the elementwise work loads, a pass before it is needed. ----

  std::vector<uint32_t> loads(const Phase& phase) const {
    std::vector<uint32_t> ids;
    for (uint32_t id = 0; id < phase.kernel->body.size(); ++id) {
      const Instruction& instruction = phase.kernel->body[id];
      if (instruction.kind != Kind::Load) continue;
      if (phase.sources[instruction.argument] == Source::Memory) ids.push_back(id);
    }
    return ids;
  }

  /// Values are kept as they lie in memory: a conversion would wait for them.
  void first_loads(size_t p) {
    const Phase& phase = phases_[p];
    for (const uint32_t id : loads(phase)) {
      const uint32_t argument = phase.kernel->body[id].argument;
      line("  typedef rnnc_packet<{}, {}, true> t{}_{};",
           cuda_element_type(phase.kernel->arguments[argument].dtype), at_once(phase, argument), p,
           id);
      line("  t{}_{} l{}_{}[{}] = {{}};", p, id, p, id, packets(phase, argument));
    }
    line("  if (steps > 0) {{");
    line("    const int pass = 0;");
    load(p, "0");
    line("  }}");
  }

  /// Of a thread in a pass.
  int64_t packets(const Phase& phase, uint32_t argument) const {
    return layout_.items(phase) * span(phase, argument) / at_once(phase, argument);
  }

  void load(size_t p, std::string_view step) {
    const Phase& phase = phases_[p];
    if (loads(phase).empty()) return;
    open_rows(p, true);
    for (const uint32_t id : loads(phase)) {
      const uint32_t argument = phase.kernel->body[id].argument;
      const int64_t count = span(phase, argument) / at_once(phase, argument);
      for (int64_t i = 0; i < count; ++i) {
        line("        {}l{}_{}[j * {} + {}] = t{}_{}::load({} + {});",
             i == 0 ? "" : fmt::format("if (own{} > {}) ", p, i), p, id, count, i, p, id,
             place(p, argument, step), i);
      }
    }
    line("      }}");
  }

  /// Takes what was loaded, and loads what comes next.
  void loads_of_next_pass(size_t p) {
    const Phase& phase = phases_[p];
    if (loads(phase).empty()) return;
    for (const uint32_t id : loads(phase)) {
      const int64_t count = packets(phase, phase.kernel->body[id].argument);
      line("      t{}_{} m{}[{}];", p, id, id, count);
      line("#pragma unroll");
      line("      for (int j = 0; j < {}; ++j) m{}[j] = l{}_{}[j];", count, id, p, id);
    }
    line("      const int next = pass + 1 < {} ? t : t + 1;", layout_.passes());
    line("      if (next < steps) {{");
    line("      const int this_pass = pass;");
    line("      const int pass = this_pass + 1 < {} ? this_pass + 1 : 0;", layout_.passes());
    load(p, "next");
    line("      }}");
    prefetch_ahead(p);
  }

  /// Whether what the next step needs is loaded when others no longer wait for this one. (In a
  /// cluster, LSTM 1x256 in f32: 0.80 us, so 0.71. With tensor cores, steps took longer.)
  bool loads_last() const { return layout_.passes() == 1 && tile_.clusters && layout_.is_exact(); }

  void loads_of_next_step(size_t p) {
    if (loads(phases_[p]).empty()) return;
    line("      if (t + 1 < steps) {{");
    load(p, "t + 1");
    line("      }}");
    prefetch_ahead(p);
  }

  /// Where no block waits for another through memory, steps are shorter than memory's latency.
  void prefetch_ahead(size_t p) {
    if (layout_.exchange().step_bytes > 0) return;
    line("      const int ahead = t + {};", kStepsAhead);
    line("      if (ahead < steps) {{");
    prefetch(p, "ahead");
    line("      }}");
  }

  void prefetch(size_t p, std::string_view step) {
    open_rows(p, true);
    for (const uint32_t id : loads(phases_[p])) {
      line("        rnnc_prefetch({});", place(p, phases_[p].kernel->body[id].argument, step));
    }
    line("      }}");
  }

  // ---- Step 3. ----

  void phase(size_t p) {
    const Phase& phase = phases_[p];
    if (phase.blocks() < tile_.blocks) line("    if (block < {}u)", phase.blocks());
    unroll_passes();
    line("    for (int pass = 0; pass < {}; ++pass) {{", layout_.passes());
    const std::vector<int> waits = waits_of(phase);
    variables(p);
    products(p);
    if (!loads_last()) loads_of_next_pass(p);
    // Who stores to shared memory has passed a barrier after its last use.
    const bool shares = !tile_.own_sums && !phase.products.empty();
    if (shares || !phase.partials.empty() || tile_.clusters) line("      __syncthreads();");
    for (int level = 0; level <= phase.last_level(); ++level) {
      const bool reduces = level < phase.last_level();
      const Level parts = reduces ? level_of(phase, level) : Level();
      const bool of_sums = reduces && are_of_sums(phase, parts);
      if (of_sums) hand_on_parts_of_sums(p, parts);
      open_rows(p, true);
      if (level == 0) sums(p);
      packets(p, statements_of(phase, waits, level));
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
      if (level == phase.last_level()) stores(p);
      line("      }}");
      if (!reduces) continue;
      if (!of_sums) hand_on_parts(p, parts);
      while_waiting(p, waits, level + 1);
      join_parts(p, parts);
    }
    if (loads_last()) loads_of_next_step(p);
    if (stores_locally(phase)) line("      __syncthreads();");
    if (shares) line("      buffer ^= 1;");
    line("    }}");
  }

  void products(size_t p) {
    const Phase& phase = phases_[p];
    const std::vector<RecurrenceExchange::Slice>& slices = layout_.slices();
    line("      const unsigned pass_first = first_row + pass * {}u;", tile_.rows);
    line("      const int rows = static_cast<int>(row_end - pass_first);");
    for (size_t i = 0; i < phase.products.size(); ++i) {
      const RecurrenceProduct& product = phase.products[i];
      const Access& left = product.product->left;
      const int64_t row_bytes = left.stride * element_bytes();
      std::string exchanged = "nullptr";
      if (product.is_exchanged()) {
        const bool shared = layout_.is_shared(product.slice);
        const std::string step =
            shared ? fmt::format("(now - {}u)", left.delay) : fmt::format("(t - {})", left.delay);
        exchanged = fmt::format("y{}_{} + {} + slice{}::row(pass * {}u)", p, i,
                                shared ? shared_step(product.slice, step) : step_of_exchange(step),
                                product.slice, tile_.rows);
        if (tile_.clusters && !slices[product.slice].local) {
          line("      if (t >= {}) {};", left.delay, await(product.slice, step));
        }
      }
      const std::string name = product_name(p, i);
      const std::string strides =
          fmt::format("{}, {}", row_bytes,
                      product.is_exchanged() ? fmt::format("slice{}::kTile", product.slice) : "0");
      const std::string operands =
          fmt::format("x{}_{} + static_cast<rnnc_word>({}pass_first) * {}, {}, rows, t >= {}", p, i,
                      has_steps(left) ? fmt::format("t * {}u + ", plan_.batch) : "", row_bytes,
                      exchanged, left.delay);
      const std::string sums = fmt::format("sums{}::at(buffer) + {}", p, product.column);
      if (!tile_.own_sums && !has_totals(phase, i)) {
        line("      {}.multiply<sums{}, {}>({}, {});", name, p, strides, sums, operands);
        continue;
      }
      const std::string totals = fmt::format("totals{}", product.sums);
      if (is_first_part(phase, i)) {
        line("      decltype({})::totals {} = {{}};", product_name(p, product.sums), totals);
      }
      line("      {}.add_to<{}>({}, {});", name, strides, totals, operands);
      if (product.sums == i && !tile_.own_sums)
        line("      {}.store<sums{}>({}, {});", name, p, sums, totals);
    }
  }

  /// Whether other products add to the same sums.
  static bool has_totals(const Phase& phase, size_t product) {
    return std::ranges::count(phase.products, phase.products[product].sums,
                              &RecurrenceProduct::sums) > 1;
  }
  static bool is_first_part(const Phase& phase, size_t product) {
    return std::ranges::find(phase.products, phase.products[product].sums,
                             &RecurrenceProduct::sums) -
               phase.products.begin() ==
           static_cast<std::ptrdiff_t>(product);
  }

  /// Bytes from the exchange's first step on.
  std::string step_of_exchange(std::string_view step) const {
    const int64_t width = layout_.accesses().back().stride;
    return fmt::format("static_cast<rnnc_word>({}) * {}", step, plan_.batch * width * 4);
  }

  void variables(size_t p) {
    const Phase& phase = phases_[p];
    for (uint32_t id = 0; id < phase.kernel->body.size(); ++id) {
      const Kind kind = phase.kernel->body[id].kind;
      if (kind == Kind::Store || kind == Kind::Constant) continue;
      line("      float v{}[{}];", id, layout_.items(phase) * phase.span);
    }
  }

  /// Results of products: each the sum of those that it has parts of.
  void sums(size_t p) {
    const Phase& phase = phases_[p];
    for (uint32_t id = 0; id < phase.kernel->body.size(); ++id) {
      const Instruction& instruction = phase.kernel->body[id];
      if (instruction.kind != Kind::Load) continue;
      if (phase.sources[instruction.argument] != Source::Product) continue;
      const uint32_t index = phase.results[instruction.argument];
      line("        float a{}[{}] = {{}};", id, phase.span);
      if (tile_.own_sums) {
        own_sums(phase, id, index);
        continue;
      }
      for (const int64_t column : columns_of(phase, index)) {
        line("        sums{}::add(a{}, buffer, {} + column{}, pass_row);", p, id, column, p);
      }
    }
  }

  /// The sums of the thread's two elements: rows i and i + 8 of a member's tile.
  void own_sums(const Phase& phase, uint32_t id, uint32_t result) {
    for (size_t i = 0; i < phase.products.size(); ++i) {
      const RecurrenceProduct& product = phase.products[i];
      if (product.sums != i || !product.has(result)) continue;
      for (int64_t s = 0; s < phase.span; ++s) {
        line("        a{}[{}] += totals{}[{}][j / {}].total(j % {} + {});", id, s, i,
             result - product.first, layout_.own_rows(), layout_.own_rows(), 2 * s);
      }
    }
  }

  /// By instruction, n > 0: it depends on no product and no reduction, and is computed while the
  /// block waits for the reductions of level n - 1, which the first that uses its value needs.
  /// Others, -1, are computed in their turn: those that the products' first users need would take
  /// registers from weights.
  static std::vector<int> waits_of(const Phase& phase) {
    const std::vector<Instruction>& body = phase.kernel->body;
    std::vector<int> waits(body.size(), phase.last_level());
    for (uint32_t id = 0; id < body.size(); ++id) {
      const Instruction& instruction = body[id];
      const bool is_late =
          instruction.kind == Kind::Load
              ? phase.sources[instruction.argument] == Source::Product
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

  void while_waiting(size_t p, const std::vector<int>& waits, int level) {
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

  void statements(size_t p, const std::vector<int>& waits, int level) {
    const Phase& phase = phases_[p];
    const std::vector<Instruction>& body = phase.kernel->body;
    for (uint32_t id = 0; id < body.size(); ++id) {
      if (body[id].kind == Kind::Reduce && phase.levels[id] == level - 1) reduced(p, id);
    }
    for (const uint32_t id : statements_of(phase, waits, level)) statement(p, id);
  }

  /// That are computed in their turn.
  static std::vector<uint32_t> statements_of(const Phase& phase, const std::vector<int>& waits,
                                             int level) {
    std::vector<uint32_t> ids;
    for (uint32_t id = 0; id < waits.size(); ++id) {
      if (phase.levels[id] == level && waits[id] < 0) ids.push_back(id);
    }
    return ids;
  }

  void statement(size_t p, uint32_t id) {
    const Phase& phase = phases_[p];
    const Instruction& instruction = phase.kernel->body[id];
    if (instruction.kind == Kind::Load) line("          v{}[n] = {};", id, loaded(p, id));
    if (instruction.kind == Kind::Scalar) {
      line("          v{}[n] = {};", id, cuda_scalar_text(instruction.op, [&](size_t i) {
             return value(phase, instruction.operands.at(i), "n");
           }));
    }
  }

  /// Those of these loads that take a thread's elements of a row at once.
  void packets(size_t p, const std::vector<uint32_t>& ids) {
    const Phase& phase = phases_[p];
    for (const uint32_t id : ids) {
      if (!is_packet(phase, id)) continue;
      const uint32_t argument = phase.kernel->body[id].argument;
      const std::string type =
          fmt::format("rnnc_packet<{}, {}, true>",
                      cuda_element_type(phase.kernel->arguments[argument].dtype), phase.span);
      line("        const {0} c{1} = {0}::load({2});", type, id, place(p, argument, "0"));
    }
  }

  /// Whether a load takes a thread's elements of a row at once from the L1 cache.
  bool is_packet(const Phase& phase, uint32_t id) const {
    const Instruction& load = phase.kernel->body[id];
    return load.kind == Kind::Load && phase.sources[load.argument] == Source::Invariant &&
           !layout_.keeps_invariants(phase) && span(phase, load.argument) > 1 &&
           at_once(phase, load.argument) == phase.span;
  }

  std::string loaded(size_t p, uint32_t id) const {
    const Phase& phase = phases_[p];
    const uint32_t argument = phase.kernel->body[id].argument;
    switch (phase.sources[argument]) {
      case Source::Product:
        return fmt::format("a{}[s]", id);
      case Source::Invariant:
        if (layout_.keeps_invariants(phase)) return fmt::format("i{}_{}[s]", p, argument);
        if (is_packet(phase, id)) return fmt::format("c{}.get(s)", id);
        return fmt::format("s < own{} ? rnnc_load({}{}) : 0.0f", p, place(p, argument, "0"),
                           phase.kernel->arguments[argument].vector ? " + s" : "");
      case Source::Memory: {
        const std::string packets =
            loads_last() ? fmt::format("l{}_{}", p, id) : fmt::format("m{}", id);
        if (span(phase, argument) == 1) return fmt::format("{}[j].get(0)", packets);
        return at_once(phase, argument) == 1 ? fmt::format("{}[n].get(0)", packets)
                                             : fmt::format("{}[j].get(s)", packets);
      }
      case Source::Last:
      case Source::Before:
        break;
    }
    return fmt::format("{}{}[pass][n]", phase.sources[argument] == Source::Last ? 'r' : 'q',
                       carry_index(phase.launch->accesses[argument]));
  }

  static std::string value(const Phase& phase, uint32_t id, std::string_view index) {
    const Instruction& instruction = phase.kernel->body[id];
    return instruction.kind == Kind::Constant ? cuda_float_literal(instruction.value)
                                              : fmt::format("v{}[{}]", id, index);
  }
  /// Of the thread's element `s` of row `j`.
  static std::string value(const Phase& phase, uint32_t id, int64_t s) {
    return value(phase, id, fmt::format("j * {} + {}", phase.span, s));
  }

  /// `work(store, slice)` for what a phase hands on once reductions up to a level are there.
  template <typename Work>
  void for_exchanges(size_t p, int level, const Work& work) const {
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

  /// Whether two halves that make a word are those of neighbouring lanes.
  bool is_of_lanes(const Phase& phase, size_t slice) const {
    return phase.span == 1 && element_bytes() == 2 && layout_.is_whole(slice);
  }
  bool exchanges_by_lanes(size_t p, int level) const {
    bool result = false;
    for_exchanges(p, level, [&](const Instruction&, size_t slice) {
      result = result || is_of_lanes(phases_[p], slice);
    });
    return result;
  }

  /// Hands on what other blocks wait for, as soon as it is there.
  void exchanges(size_t p, int level, bool by_lanes) {
    for_exchanges(p, level, [&](const Instruction& store, size_t slice) {
      if (is_of_lanes(phases_[p], slice) != by_lanes) return;
      by_lanes ? exchange_by_lanes(p, store, slice) : exchange(p, store, slice);
    });
  }

  bool stores_locally(const Phase& phase) const {
    return std::ranges::any_of(layout_.slices(), [&](const auto& slice) {
      return slice.local && std::ranges::any_of(phase.kernel->body, [&](const Instruction& store) {
               return store.kind == Kind::Store &&
                      slice.holds(phase.launch->accesses[store.argument], phase.kernel->length);
             });
    });
  }

  /// Where elements that a phase stores lie in a slice.
  struct InSlice {
    int64_t behind = 0;  // the slice's first element
    int64_t width = 0;
    bool all = false;  // lie in it
  };
  InSlice in_slice(const Phase& phase, const Instruction& store, size_t index) const {
    const RecurrenceExchange::Slice& slice = layout_.slices()[index];
    const int64_t behind = phase.launch->accesses[store.argument].column - slice.column;
    const int64_t width = slice.k * slice.blocks;
    const bool vector = phase.kernel->arguments[store.argument].vector;
    return {behind, width, behind >= 0 && behind + (vector ? phase.kernel->length : 1) <= width};
  }

  /// A word that ends behind the slice, or behind the row, is filled up with zero.
  void exchange(size_t p, const Instruction& store, size_t index) {
    const Phase& phase = phases_[p];
    const auto [behind, width, all] = in_slice(phase, store, index);
    const bool vector = phase.kernel->arguments[store.argument].vector;
    const int64_t pairs = vector ? phase.span : 1;
    const int64_t step = layout_.is_whole(index) ? pairs : 1;
    for (int64_t s = 0; s < pairs; s += step) {
      const std::string element =
          vector ? fmt::format("e{} + {}u + {}u", p, s, static_cast<uint32_t>(behind))
                 : fmt::format("{}u", behind);
      std::string condition = vector ? fmt::format("own{} > {}", p, s) : fmt::format("e{} == 0", p);
      if (!all) condition += fmt::format(" && {} < {}u", element, width);
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

  void exchange_by_lanes(size_t p, const Instruction& store, size_t index) {
    const Phase& phase = phases_[p];
    const auto [behind, width, all] = in_slice(phase, store, index);
    const std::string element = fmt::format("e{} + {}u", p, static_cast<uint32_t>(behind));
    line("        {{");
    line("          const float first = {};", value(phase, store.operands[0], 0));
    line("          const float second = __shfl_xor_sync(0xffffffffu, first, 1);");
    line("          if (inside && column{} % 2 == 0{}) {{", p,
         all ? "" : fmt::format(" && {} < {}u", element, width));
    hand_on(index, element, "first",
            fmt::format("e{0} + 1u < unit_end{0}{1}", p,
                        all ? "" : fmt::format(" && {} + 1u < {}u", element, width)),
            "second");
    line("          }}");
    line("        }}");
  }

  /// An element of a slice, or two where there are `both`.
  void hand_on(size_t index, std::string_view element, std::string_view first,
               std::string_view both = "", std::string_view second = "") {
    const RecurrenceExchange::Slice& slice = layout_.slices()[index];
    const std::string place =
        fmt::format("slice{0}::element({1}) + slice{0}::row(pass * {2}u + pass_row)", index,
                    layout_.is_shared(index) ? fmt::format("0u, ({}) % {}u", element, slice.k)
                                             : fmt::format("group, {}", element),
                    tile_.rows);
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
      line("          rnnc_exchange<rnnc_engine::{}>(exchange + {} + at{} + {}, {});", engine(),
           step_of_exchange("t"), index, place, values);
    }
  }

  void stores(size_t p) {
    const Phase& phase = phases_[p];
    for (const Instruction& instruction : phase.kernel->body) {
      if (instruction.kind == Kind::Store) store(p, instruction);
    }
  }

  int64_t steps_read(const Access& access) const {
    return std::max<int64_t>(plan_.buffers[access.buffer].history, 1);
  }

  void store(size_t p, const Instruction& instruction) {
    const Phase& phase = phases_[p];
    const uint32_t argument = instruction.argument;
    const std::string_view type = cuda_element_type(phase.kernel->arguments[argument].dtype);
    const Access& access = phase.launch->accesses[argument];
    const auto found = layout_.carries().find({access.buffer, access.column});
    if (found != layout_.carries().end()) {
      const size_t index = carry_index(access);
      open_elements(phase);
      if (found->second.before) line("          q{}[pass][n] = r{}[pass][n];", index, index);
      line("          r{}[pass][n] = rnnc_rounded<{}>({});", index, type,
           value(phase, instruction.operands[0], "n"));
      line("        }}");
    }
    const int64_t width = span(phase, argument);
    line("        {}{{", layout_.is_stored_at_last(access)
                             ? fmt::format("if (t + {} >= steps) ", steps_read(access))
                             : "");
    if (width > 1 && at_once(phase, argument) == width) {
      line("          rnnc_packet<{}, {}, true> packet = {{}};", type, width);
      for (int64_t s = 0; s < width; ++s) {
        line("          packet.set({}, {});", s, value(phase, instruction.operands[0], s));
      }
      line("          packet.store({});", place(p, argument, "t"));
    } else {
      for (int64_t s = 0; s < width; ++s) {
        const bool vector = phase.kernel->arguments[argument].vector;
        line("          if ({}) rnnc_store({}{}, {});",
             vector ? fmt::format("own{} > {}", p, s) : fmt::format("e{} == 0", p),
             place(p, argument, "t"), s == 0 ? "" : fmt::format(" + {}", s),
             value(phase, instruction.operands[0], s));
      }
    }
    line("        }}");
  }

  // ---- Reductions. ----

  size_t partial_count() const {
    return phases_.back().first_partial + phases_.back().partials.size();
  }

  std::string statistic(size_t index) const {
    return fmt::format("rnnc_statistics({}) + {}", layout_.statistics(),
                       index * static_cast<size_t>(tile_.rows));
  }

  /// A phase's reductions of one level, that blocks exchange the parts of together.
  struct Level {
    size_t first = 0;  // among the phase's partials
    size_t count = 0;
    size_t before = 0;   // parts of a row before theirs
    bool pairs = false;  // two of a block are a piece of 16 bytes
  };

  Level level_of(const Phase& phase, int level) const {
    Level of;
    while (phase.partials[of.first].level < level) ++of.first;
    while (of.first + of.count < phase.partials.size() &&
           phase.partials[of.first + of.count].level == level) {
      ++of.count;
    }
    of.before = (phase.first_partial + of.first) * static_cast<size_t>(tile_.blocks);
    of.pairs = of.count % 2 == 0 && of.before % 2 == 0 && parts_of_row() % 2 == 0;
    return of;
  }

  size_t parts_of_row() const { return partial_count() * static_cast<size_t>(tile_.blocks); }

  /// Where a block's parts of a row lie: those of a level together.
  std::string place_of_parts(const Level& level, std::string_view row,
                             std::string_view block) const {
    return fmt::format(
        "reinterpret_cast<float2*>(exchange + {} + parts_at) + {} * {}u + {}u + {} * {}u",
        step_of_exchange("t"), row, parts_of_row(), level.before, block, level.count);
  }

  /// Of the thread's elements, hands on the parts that they make with those of its neighbours.
  void hand_on_parts(size_t p, const Level& level) {
    const Phase& phase = phases_[p];
    open_rows(p, false);
    std::string parts;
    for (size_t i = level.first; i < level.first + level.count; ++i) {
      std::string values;
      for (int64_t s = 0; s < phase.span; ++s) {
        values += (s == 0 ? "" : ", ") + value(phase, phase.partials[i].value, s);
      }
      line("        const float values{}[{}] = {{{}}};", i, phase.span, values);
      line("        const float2 part{} = {};", i, part(p, i, fmt::format("values{}", i)));
      parts += fmt::format("{}part{}", i == level.first ? "" : ", ", i);
    }
    line("        const float2 parts[{}] = {{{}}};", level.count, parts);
    line("        if (inside && column{} == 0) rnnc_exchange<{}>({}, parts);", p, level.pairs,
         place_of_parts(level, "r", "block"));
    line("      }}");
  }

  std::string part(size_t p, size_t partial, std::string_view values) const {
    const Phase& phase = phases_[p];
    return fmt::format(
        "rnnc_part<rnnc_reduction::{}, {}, {}, units{}::kFull>({}, inside ? own{} : 0, "
        "unit_end{} - unit{})",
        kind(phase, partial), phase.units / phase.span, phase.span, p, values, p, p, p);
  }

  /// Whether a level's reductions, of one kind, are each of a result of one product, and there are
  /// threads for each element of each: then their parts need not wait for threads that have all.
  bool are_of_sums(const Phase& phase, const Level& level) const {
    const int64_t rows = std::min(tile_.rows, layout_.group_rows());
    const int64_t lanes = phase.units / phase.span;
    if (static_cast<int64_t>(level.count) * rows * lanes > threads()) return false;
    for (size_t i = level.first; i < level.first + level.count; ++i) {
      const Instruction& value = phase.kernel->body[phase.partials[i].value];
      if (phase.partials[i].kind != phase.partials[level.first].kind || value.kind != Kind::Load ||
          phase.sources[value.argument] != Source::Product ||
          columns_of(phase, phase.results[value.argument]).size() != 1) {
        return false;
      }
    }
    return level.count > 1;
  }

  /// Of the sums that make a result, those of each product that it has parts of.
  static std::vector<int64_t> columns_of(const Phase& phase, uint32_t result) {
    std::vector<int64_t> columns;
    for (size_t i = 0; i < phase.products.size(); ++i) {
      const RecurrenceProduct& product = phase.products[i];
      if (!product.has(result) || product.sums != i) continue;
      columns.push_back(product.column + (result - product.first) * phase.units);
    }
    return columns;
  }

  /// As `hand_on_parts`, by more threads: each adds up the sums of one reduction.
  void hand_on_parts_of_sums(size_t p, const Level& level) {
    const Phase& phase = phases_[p];
    const int64_t lanes = phase.units / phase.span;
    std::string columns;
    for (size_t i = level.first; i < level.first + level.count; ++i) {
      const uint32_t argument = phase.kernel->body[phase.partials[i].value].argument;
      const int64_t column = columns_of(phase, phase.results[argument])[0];
      columns += i + 1 == level.first + level.count
                     ? fmt::format("{}", column)
                     : fmt::format("which == {} ? {} : ", i - level.first, column);
    }
    line("      {{");
    line("        const unsigned which = threadIdx.x / {}u % {}u;", lanes, level.count);
    line("        const unsigned pass_row = threadIdx.x / {}u;",
         lanes * static_cast<int64_t>(level.count));
    line("        const unsigned r = first_row + pass * {}u + pass_row;", tile_.rows);
    line("        const bool inside = pass_row < {}u && own{} > 0 && r < row_end;", tile_.rows, p);
    line("        float values[{}] = {{}};", phase.span);
    line("        if (inside) sums{}::add(values, buffer, ({}) + column{}, pass_row);", p, columns,
         p);
    line("        const float2 part[1] = {{{}}};", part(p, level.first, "values"));
    line("        if (inside && column{} == 0) rnnc_exchange<false>({} + which, part);", p,
         place_of_parts(level, "r", "block"));
    line("      }}");
  }

  /// Joins the parts of all blocks of the group.
  void join_parts(size_t p, const Level& level) {
    const Phase& phase = phases_[p];
    std::string kinds;
    for (size_t i = level.first; i < level.first + level.count; ++i) {
      kinds += fmt::format(", rnnc_reduction::{}", kind(phase, i));
    }
    line("      rnnc_parts<units{}, {}, {}, {}, {}, {}, {}{}>::join({}, {}, min(rows, {}));", p,
         phase.blocks(), threads(), tile_.rows, parts_of_row(), level.pairs,
         sets(phase, level.first, level.count, level.pairs), kinds,
         place_of_parts(level, "pass_first", "0u"), statistic(level.first), tile_.rows);
    line("      __syncthreads();");
  }

  /// How many warps share the reductions of a row: as many as there are for each row.
  int64_t sets(const Phase& phase, size_t first, size_t count, bool pairs) const {
    const auto of_level = std::span(phase.partials).subspan(first, count);
    const bool all_one_kind = std::ranges::all_of(of_level, [&](const RecurrencePartial& partial) {
      return partial.kind == of_level.front().kind;
    });
    if (!all_one_kind || phase.blocks() < 32) return 1;
    const auto most = static_cast<int64_t>(pairs ? count / 2 : count);
    int64_t sets = std::min(most, tile_.warps / std::min(tile_.rows, layout_.group_rows()));
    while (sets > 1 && most % sets != 0) --sets;
    return std::max<int64_t>(sets, 1);
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

  /// A reduction's value, once it is there.
  void reduced(size_t p, uint32_t id) {
    const Phase& phase = phases_[p];
    const Op op = phase.kernel->body[id].op;
    line("          v{}[n] = ({})[pass_row].{}{};", id, statistic(phase.partial_of(id)),
         op == Op::Var ? 'y' : 'x',
         op == Op::Var || op == Op::Mean
             ? fmt::format(" / {}", cuda_float_literal(static_cast<double>(phase.kernel->length)))
             : "");
  }

  const Plan& plan_;
  const RecurrenceTile& tile_;
  const RecurrenceLayout& layout_;
  const std::vector<RecurrencePhase>& phases_;
};

}  // namespace

std::string emit_recurrence_side(const Plan& plan, const RecurrenceTile& tile,
                                 const RecurrenceLayout& layout) {
  return RecurrenceEmitter(plan, tile, layout).emit();
}

}  // namespace rnnc
