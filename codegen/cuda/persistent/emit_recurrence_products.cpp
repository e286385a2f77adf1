// Products of a phase: their operands, when what they multiply with is asked for, and the sums that
// they make.
#include <algorithm>

#include "codegen/cuda/device/kernel_text.h"
#include "codegen/cuda/elementwise/kernel_traits.h"
#include "codegen/cuda/persistent/recurrence_emitter.h"

namespace rnnc {
namespace {

using Kind = Instruction::Kind;
using Source = RecurrenceSource;

}  // namespace

std::string_view RecurrenceEmitter::engine() const {
  switch (plan_.dtype) {
    case DType::bf16:
      return "bf16";
    case DType::f16:
      return "f16";
    default:
      return plan_.tf32 ? "tf32" : tile_.split ? "split" : "f32";
  }
}

void RecurrenceEmitter::product_traits(size_t p, size_t i) {
  const RecurrenceProduct& product = phases_[p].products[i];
  const FusedLaunch::Product& of = *product.product;
  const bool exchanged = product.is_exchanged();
  traits_.constant("rnnc_engine", "kEngine", fmt::format("rnnc_engine::{}", engine()));
  traits_.constant("int", "kGates", product.gates);
  traits_.constant("int", "kKBytes", product.k_bytes);
  traits_.constant("int", "kWarps", tile_.warps);
  traits_.constant("int", "kKWarps", tile_.k_warps);
  traits_.constant("int", "kKBlocks", tile_.k_blocks);
  traits_.constant("int", "kHeld", product.held);
  traits_.constant("int", "kShared", product.shared);
  traits_.constant("int", "kSharedAt", product.spill);
  traits_.constant("int", "kRows", tile_.rows);
  const int granule =
      copy_bytes(plan_.buffers[of.left.buffer], {of.k, of.left.column, of.left.stride});
  // What is rounded is loaded where it is waited for.
  traits_.constant("int", "kLeftGranule", is_wide(of.left) ? std::min(granule, 8) : granule);
  traits_.constant("int", "kLeftsAt", layout_.lefts());
  traits_.constant("int", "kLeftPieces", layout_.left_pieces());
  const bool one_row = layout_.group_rows() == 1;
  traits_.constant("int", "kTileRows",
                   exchanged ? layout_.exchange().tile_rows : static_cast<int64_t>(one_row));
  traits_.constant("bool", "kWholeWords", exchanged && layout_.is_whole(product.slice));
  traits_.constant("bool", "kLeftInShared", exchanged && layout_.is_shared(product.slice));
  traits_.constant("int", "kOwnSums", layout_.own_sums());
  traits_.end(fmt::format("product{}_{}", p, i), "rnnc_resident_product");
}

void RecurrenceEmitter::operands(size_t p) {
  const std::string_view type = cuda_element_type(plan_.dtype);
  const Phase& phase = phases_[p];
  for (size_t i = 0; i < phase.products.size(); ++i) {
    const RecurrenceProduct& product = phase.products[i];
    const FusedLaunch::Product& of = *product.product;
    const std::string name = product_name(p, i);
    const bool exchanged = product.is_exchanged();
    const bool shared = exchanged && layout_.is_shared(product.slice);
    product_traits(p, i);
    line("  product{}_{} {};", p, i, name);
    const std::string unit = fmt::format("{}{}", tile_.k_blocks > 1 ? "sharing" : "unit", p);
    line("  {}.load_weights<{}, {}>(reinterpret_cast<const char*>({}), {}u, {}, unit_end{}, {});",
         name, tile_.k_blocks * phase.units,
         copy_bytes(plan_.buffers[of.weight.buffer], {of.k, of.weight.column}),
         array(type, true, product.access + 1, "0"), phase.kernel->length, unit, p,
         layout_.stream_bytes() > 0 ? fmt::format("stream + {}", product.stream) : "nullptr");
    const std::string vector =
        of.blocks == 1 ? "0u" : fmt::format("{} / {}u", unit, phase.kernel->length / of.blocks);
    line("  const char* const memory{}_{} = reinterpret_cast<const char*>({} + {} * {});", p, i,
         array(is_wide(of.left) ? "float" : type, true, product.access, "0"), vector, of.k);
    if (!exchanged) continue;
    if (shared) {
      line(
          "  const unsigned exchanged{}_{} = {}.lane_place(reinterpret_cast<const "
          "char*>(rnnc_shared) + "
          "{});",
          p, i, name, shared_place(product.slice));
      continue;
    }
    line(
        "  const char* const exchanged{}_{} = {}.lane_place(exchange + slice_at{} + "
        "slice{}::vector(group, {}));",
        p, i, name, product.slice, product.slice, vector);
  }
}

/// Whether a phase's first left operand is asked for before its lap begins: as soon as the one
/// before it has been multiplied with, so that it comes while the block does the elementwise work
/// (LSTM 64x1024 in bf16, two laps), or at the end of the step before.
bool RecurrenceEmitter::is_begun_ahead(size_t p) const {
  if (phases_[p].products.empty()) return false;
  const RecurrenceProduct& first = phases_[p].products[0];
  const bool shared = first.is_exchanged() && layout_.is_shared(first.slice);
  const int64_t words = 4 * first.pieces * tile_.rows / kExchangeTileRows;
  const bool has_room = words <= kMostWordsAhead && tile_.streamed_words == 0;
  return !shared && has_room && (layout_.laps() > 1 || !first.own || ends_in_reductions(p));
}

/// Whether a step is one phase with reductions, after which all warps of a block begin at the same
/// time. They then ask for what the next step needs before what else ends the step, but no earlier
/// than it can be there: too early a look delays it. (A layer-norm LSTM 3.15 us, so 3.10; after 200
/// cycles 3.31.)
bool RecurrenceEmitter::ends_in_reductions(size_t p) const {
  return phases_.size() == 1 && phases_[p].last_level() > 0 && layout_.laps() == 1;
}

bool RecurrenceEmitter::is_begun_at_end(size_t p) const {
  return ends_in_reductions(p) && is_begun_ahead(p);
}

/// Whether a phase's first left operand is asked for in the step before the one that needs it.
bool RecurrenceEmitter::is_begun_a_step_ahead(size_t p) const {
  return is_begun_ahead(p) && (phases_.size() == 1 || !phases_[p].products[0].own);
}

/// A product's left operand.
std::string RecurrenceEmitter::left(size_t p, size_t i, std::string_view step,
                                    std::string_view lap) const {
  const RecurrenceProduct& product = phases_[p].products[i];
  const Access& left = product.product->left;
  const int64_t row_bytes = row_bytes_of(left);
  const std::string first = fmt::format("(first_row + {} * {}u)", lap, tile_.rows);
  // Of memory it is step 0 alone that is read. (Many loads must not have all their addresses
  // computed before the steps.)
  const bool aligned =
      copy_bytes(plan_.buffers[left.buffer], {product.product->k, left.column, left.stride}) == 16;
  const bool at_first = product.is_exchanged() && left.delay == 1 && aligned;
  std::string exchanged = "nullptr";
  if (product.is_exchanged()) {
    const bool shared = layout_.is_shared(product.slice);
    exchanged =
        fmt::format("exchanged{}_{} + {} + slice{}::row({} * {}u)", p, i,
                    shared ? shared_step(product.slice, fmt::format("(now - {}u)", left.delay))
                           : step_of_exchange(fmt::format("({} - {})", step, left.delay)),
                    product.slice, lap, tile_.rows);
  }
  return fmt::format(
      "{}.left<{}, {}, {}{}>(memory{}_{} + {}, {}, "
      "static_cast<int>(row_end - {}), {})",
      product_name(p, i), row_bytes,
      product.is_exchanged() ? fmt::format("slice{}::kTile", product.slice) : "0",
      layout_.has_all_rows(), is_wide(left) ? ", true" : "", p, i,
      has_steps(left) && !at_first
          ? row_at(left, step, first)
          : fmt::format("static_cast<rnnc_word>({}) * {}", first, row_bytes),
      exchanged, first,
      product.is_exchanged() ? fmt::format("{} >= {}", step, left.delay) : "false");
}

/// What a product reads of far earlier steps has left the L2 cache: blocks bring their group's rows
/// back some steps ahead, from memory or the exchange, by a warp between those that do elementwise
/// work and those that copy inputs.
void RecurrenceEmitter::far_ahead() {
  constexpr int kSteps = 4;
  for (size_t p = 0; p < phases_.size(); ++p) {
    for (size_t i = 0; i < phases_[p].products.size(); ++i) {
      const RecurrenceProduct& product = phases_[p].products[i];
      const Access& left = product.product->left;
      if (!product.is_exchanged() || layout_.is_shared(product.slice)) continue;
      if (left.delay <= 2 * kSteps) continue;
      const int64_t k_bytes =
          product.product->k * static_cast<int64_t>(size_of(plan_.buffers[left.buffer].dtype));
      line("    if (threadIdx.x / 32u == {}u && t % {} == {}) {{", tile_.warps / 2 - 1, kSteps,
           kSteps / 2);
      line("#pragma unroll 1");
      line("      for (int ahead = t + {0}; ahead < min(t + {1}, steps); ++ahead) {{", kSteps,
           2 * kSteps);
      line("        if (ahead >= {}) {{", left.delay);
      line(
          "          rnnc_prefetch_part<{}>(exchange + {} + slice_at{} + slice{}::vector(group, "
          "0),",
          tile_.blocks, step_of_exchange(fmt::format("(ahead - {})", left.delay)), product.slice,
          product.slice);
      line("              slice{0}::kTile * {1}u, block);", product.slice,
           layout_.exchange().tiles);
      line("        }} else {{");
      line("          rnnc_prefetch_part<{}>(memory{}_{} + {},", tile_.blocks, p, i,
           row_at(left, "ahead", "first_row"));
      line("              (row_end - first_row - 1) * {}u + {}u, block);", row_bytes_of(left),
           k_bytes);
      line("        }}");
      line("      }}");
      line("    }}");
    }
  }
}

/// Whether it is rounded as it is loaded.
bool RecurrenceEmitter::is_wide(const Access& left) const {
  return plan_.buffers[left.buffer].dtype != plan_.dtype;
}

/// In memory.
int64_t RecurrenceEmitter::row_bytes_of(const Access& left) const {
  return left.stride * static_cast<int64_t>(size_of(plan_.buffers[left.buffer].dtype));
}

/// Bytes from row 0 at the first step to a row at another.
std::string RecurrenceEmitter::row_at(const Access& left, std::string_view step,
                                      std::string_view row) const {
  const int64_t row_bytes = row_bytes_of(left);
  if (plan_.descending) {
    return fmt::format("static_cast<rnnc_word>({}) * {} - static_cast<rnnc_word>({}) * {}", row,
                       row_bytes, step, plan_.batch * row_bytes);
  }
  return fmt::format("static_cast<rnnc_word>({} * {}u + {}) * {}", step, plan_.batch, row,
                     row_bytes);
}

std::string RecurrenceEmitter::first_words(size_t p, size_t i) const {
  return fmt::format("decltype({})::first_words words{}_{}", product_name(p, i), p, i);
}

void RecurrenceEmitter::begin_next(size_t p) {
  const bool steps = is_begun_a_step_ahead(p);
  if (!steps) {
    line("      if (lap + 1 < {}) {}.begin(words{}_0);", layout_.laps(),
         left(p, 0, "t", "(lap + 1)"), p);
    return;
  }
  line("      {{");
  line("        const int next_lap = lap + 1 < {} ? lap + 1 : 0;", layout_.laps());
  line("        const int next = next_lap > 0 ? t : t + 1;");
  line("        if (next < steps) {}.begin(words{}_0);", left(p, 0, "next", "next_lap"), p);
  line("      }}");
}

/// The next one's left operand is on its way while a product is made.
void RecurrenceEmitter::products(size_t p) {
  const Phase& phase = phases_[p];
  line("      const unsigned lap_first = first_row + lap * {}u;", tile_.rows);
  line("      const int rows = static_cast<int>(row_end - lap_first);");
  if (tile_.k_blocks > 1 && !phase.products.empty()) {
    line("      if (threadIdx.x == {}{}) blocks{}::expect(buffer, rows);", threads() - 1,
         may_have_no_rows() ? " && rows > 0" : "", p);
  }
  bool is_begun = is_begun_ahead(p);
  const auto begin = [&](size_t i) {
    if (!is_begun) line("      {};", first_words(p, i));
    line("      const auto left{}_{} = {};", p, i, left(p, i, "t", "lap"));
    if (!is_begun) line("      left{}_{}.begin(words{}_{});", p, i, p, i);
    is_begun = false;
  };
  for (size_t i = 0; i < phase.products.size(); ++i) {
    const RecurrenceProduct& product = phase.products[i];
    const int64_t delay = product.product->left.delay;
    if (i == 0) begin(i);
    if (tile_.clusters && product.is_exchanged() && !layout_.slices()[product.slice].local) {
      line("      if (t >= {}) {};", delay,
           await(product.slice, fmt::format("(now - {}u)", delay)));
    }
    line("      left{}_{}.await(words{}_{});", p, i, p, i);
    if (i + 1 < phase.products.size()) begin(i + 1);
    // A warp has time while its left operand comes from shared memory.
    if (tile_.own_sums && i + 1 == phase.products.size()) inputs_ahead(p);
    multiply(p, i);
    if (i == 0 && is_begun_ahead(p) && !is_begun_at_end(p)) begin_next(p);
  }
}

void RecurrenceEmitter::multiply(size_t p, size_t i) {
  const Phase& phase = phases_[p];
  const RecurrenceProduct& product = phase.products[i];
  const std::string name = product_name(p, i);
  const std::string operand = fmt::format("left{}_{}, words{}_{}", p, i, p, i);
  const std::string sums = fmt::format("sums{}::at(buffer) + {}", p, product.column);
  if (!tile_.own_sums && !has_totals(phase, i)) {
    line("      {}.multiply<sums{}>({}, {});", name, p, sums, operand);
    return;
  }
  const std::string totals = fmt::format("totals{}", product.sums);
  if (is_first_part(phase, i)) {
    line("      decltype({})::totals {} = {{}};", product_name(p, product.sums), totals);
  }
  line("      {}.add_to({}, {});", name, totals, operand);
  if (product.sums == i && !tile_.own_sums) {
    line("      {}.store<sums{}>({}, {});", name, p, sums, totals);
  }
}

/// Whether other products add to the same sums.
bool RecurrenceEmitter::has_totals(const Phase& phase, size_t product) {
  return std::ranges::count(phase.products, phase.products[product].sums,
                            &RecurrenceProduct::sums) > 1;
}

bool RecurrenceEmitter::is_first_part(const Phase& phase, size_t product) {
  return std::ranges::find(phase.products, phase.products[product].sums, &RecurrenceProduct::sums) -
             phase.products.begin() ==
         static_cast<std::ptrdiff_t>(product);
}

/// Where blocks share k, hands on what the block's warps have for the others.
void RecurrenceEmitter::share_sums(size_t p) {
  const Phase& phase = phases_[p];
  for (size_t i = 0; i < phase.products.size(); ++i) {
    const RecurrenceProduct& product = phase.products[i];
    if (product.sums != i) continue;
    traits_.constant("unsigned", "kMembers", product.product->members);
    traits_.constant("unsigned", "kUnits", phase.units);
    traits_.constant("unsigned", "kColumn", product.column);
    traits_.constant("unsigned", "kTo", product.own_column);
    traits_.constant("unsigned", "kThreads", threads());
    const std::string name = fmt::format("handed{}_{}", p, i);
    traits_.end(name);
    line("      blocks{}::hand_on<{}, sums{}>(buffer, rows);", p, name, p);
  }
  // Who has no elements goes on with the others, or would hand on too early.
  if (phase.blocks() * phase.units > phase.kernel->length) {
    line("      if (unit{0} >= unit_end{0}{1}) blocks{0}::await(buffer, parity);", p,
         may_have_no_rows() ? " && rows > 0" : "");
  }
}

/// Results of products: each the sum of those that it has parts of.
void RecurrenceEmitter::sums(size_t p) {
  const Phase& phase = phases_[p];
  for (uint32_t id = 0; id < phase.kernel->body.size(); ++id) {
    const Instruction& instruction = phase.kernel->body[id];
    if (instruction.kind != Kind::Load) continue;
    if (phase.sources[instruction.argument] != Source::Product) continue;
    const uint32_t index = phase.results[instruction.argument];
    line("        float sum{}[{}] = {{}};", id, phase.span);
    if (tile_.own_sums) {
      own_sums(phase, id, index);
      continue;
    }
    for (const int64_t column : columns_of(phase, index)) {
      line("        sums{0}::add(sum{1}, buffer, sums{0}::place({2} + {3}{0}, lap_row));", p, id,
           column, tile_.k_blocks > 1 ? "shared_column" : "column");
    }
  }
}

/// The next lap puts its sums into the other buffer.
void RecurrenceEmitter::turn_buffer() {
  if (tile_.k_blocks == 1) {
    line("      buffer ^= 1;");
    return;
  }
  if (may_have_no_rows()) line("      if (rows > 0) {{");
  line("      parity ^= static_cast<unsigned>(buffer);");
  line("      buffer ^= 1;");
  if (may_have_no_rows()) line("      }}");
}

/// Adds to these what other blocks that share k have for them.
void RecurrenceEmitter::sums_of_blocks(size_t p) {
  const Phase& phase = phases_[p];
  line("        blocks{}::await(buffer, parity);", p);
  for (uint32_t id = 0; id < phase.kernel->body.size(); ++id) {
    const Instruction& instruction = phase.kernel->body[id];
    if (instruction.kind != Kind::Load) continue;
    if (phase.sources[instruction.argument] != Source::Product) continue;
    const uint32_t result = phase.results[instruction.argument];
    for (size_t i = 0; i < phase.products.size(); ++i) {
      const RecurrenceProduct& product = phase.products[i];
      if (product.sums != i || !product.has(result)) continue;
      line("        blocks{0}::add(sum{1}, buffer, blocks{0}::place({2} + column{0}, lap_row));", p,
           id, product.own_column + (result - product.first) * phase.units);
    }
  }
}

/// The sums of the thread's elements: two are rows i and i + 8 of a member's tile.
void RecurrenceEmitter::own_sums(const Phase& phase, uint32_t id, uint32_t result) {
  for (size_t i = 0; i < phase.products.size(); ++i) {
    const RecurrenceProduct& product = phase.products[i];
    if (product.sums != i || !product.has(result)) continue;
    const std::string totals =
        fmt::format("totals{}[{}][my_row / {}]", i, result - product.first, layout_.own_rows());
    if (phase.span == 1) {
      line("        sum{}[0] += threadIdx.x % 4u < 2u ? {}.total(0) : {}.total(2);", id, totals,
           totals);
      continue;
    }
    for (int64_t s = 0; s < phase.span; ++s) {
      line("        sum{}[{}] += {}.total(my_row % {} + {});", id, s, totals, layout_.own_rows(),
           2 * s);
    }
  }
}

}  // namespace rnnc
