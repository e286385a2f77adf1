// Of a reduction over a row each block hands on its part, and joins the parts of all
// (recurrence_reductions.cuh).
#include "codegen/cuda/persistent/recurrence_emitter.h"
#include "ir/base/arithmetic.h"

#include <algorithm>

#include "codegen/cuda/device/kernel_text.h"
#include "codegen/cuda/elementwise/kernel_traits.h"

namespace rnnc {
namespace {

using Kind = Instruction::Kind;
using Source = RecurrenceSource;

}  // namespace

size_t RecurrenceEmitter::partial_count() const {
  return phases_.back().first_partial + phases_.back().partials.size();
}

/// Rows that a lap has at most.
int64_t RecurrenceEmitter::most_rows() const {
  return std::min(tile_.rows, layout_.group_rows());
}

std::string RecurrenceEmitter::statistic(size_t index) const {
  return fmt::format("rnnc_statistics({}) + {}", layout_.statistics(),
                     static_cast<int64_t>(index) * most_rows());
}

RecurrenceEmitter::Level RecurrenceEmitter::level_of(const Phase& phase, int level) const {
  Level of;
  while (phase.partials[of.first].level < level) ++of.first;
  while (of.first + of.count < phase.partials.size() &&
         phase.partials[of.first + of.count].level == level) {
    ++of.count;
  }
  of.before = (phase.first_partial + of.first) * static_cast<size_t>(tile_.blocks);
  of.pieces = of.before % 2 == 0 && parts_of_row() % 2 == 0;
  return of;
}

/// Where a block's parts of a row lie: those of a level together. `step`: where the step's part of
/// the exchange begins.
std::string RecurrenceEmitter::place_of_parts(std::string_view step, const Level& level,
                                              std::string_view row, std::string_view block) const {
  return fmt::format("reinterpret_cast<float2*>({} + parts_at) + {} * {}u + {}u + {} * {}u", step,
                     row, parts_of_row(), level.before, block, level.count);
}

/// As `refresh`, the parts that the block hands on for the thread's row.
void RecurrenceEmitter::refresh_parts(size_t p, const Level& level) {
  line("          if (column{} == 0) {{", p);
  line("            float2* const to = {};", place_of_parts("later", level, "row", "block"));
  const int64_t bytes = level.pieces && level.count % 2 == 0 ? 16 : 8;
  for (int64_t at = 0; at < static_cast<int64_t>(level.count) * 8; at += bytes) {
    line("            rnnc_refresh<{}>(reinterpret_cast<char*>(to) + {});", bytes, at);
  }
  line("          }}");
}

/// Of the thread's elements, hands on the parts that they make with those of its neighbours.
void RecurrenceEmitter::hand_on_parts(size_t p, const Level& level) {
  const Phase& phase = phases_[p];
  open_rows(p, false);
  line("        float2* const to = rnnc_kept({});",
       place_of_parts(exchange_now(), level, "row", "block"));
  std::string parts;
  for (size_t i = level.first; i < level.first + level.count; ++i) {
    std::string values;
    for (int64_t s = 0; s < phase.span; ++s) {
      values += (s == 0 ? "" : ", ") + value(phase, phase.partials[i].value, s);
    }
    line("        const float values{}[{}] = {{{}}};", i, phase.span, values);
    line("        const float2 part{} = {};", i,
         part(p, i, phase.span, fmt::format("values{}, inside ? own{} : 0", i, p)));
    parts += fmt::format("{}part{}", i == level.first ? "" : ", ", i);
  }
  line("        const float2 parts[{}] = {{{}}};", level.count, parts);
  line("        if (inside && column{} == 0) rnnc_exchange<{}>(to, parts);", p,
       level.pieces && level.count % 2 == 0);
  line("      }}");
}

/// `values`: a thread's, and how many of these there are.
std::string RecurrenceEmitter::part(size_t p, size_t partial, int64_t span,
                                    std::string_view values) const {
  const Phase& phase = phases_[p];
  return fmt::format(
      "rnnc_part<rnnc_reduction::{}, {}, {}, units{}::kFull>({}, unit_end{} - unit{})",
      kind(phase, partial), phase.units / span, span, p, values, p, p);
}

/// Neighbouring elements of a thread that adds up the sums of one reduction: so many that one warp
/// has all reductions of a row, which it stores at once.
int64_t RecurrenceEmitter::span_of_sums(const Phase& phase, const Level& level) {
  constexpr int64_t kMostSums = 4;
  int64_t span = phase.span;
  while (span < kMostSums && phase.units % (2 * span) == 0 &&
         static_cast<int64_t>(level.count) * phase.units / span > kThreadsOfWarp) {
    span *= 2;
  }
  return span;
}

/// Whether a level's reductions, of one kind, are each of a result of one product, and there are
/// threads for each element of each: then their parts need not wait for threads that have all.
bool RecurrenceEmitter::are_of_sums(const Phase& phase, const Level& level) const {
  if (tile_.k_blocks > 1) return false;
  const int64_t lanes = phase.units / span_of_sums(phase, level);
  if (static_cast<int64_t>(level.count) * most_rows() * lanes > threads()) return false;
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
std::vector<int64_t> RecurrenceEmitter::columns_of(const Phase& phase, uint32_t result) const {
  std::vector<int64_t> columns;
  for (size_t i = 0; i < phase.products.size(); ++i) {
    const RecurrenceProduct& product = phase.products[i];
    if (!product.has(result) || product.sums != i) continue;
    columns.push_back(product.column + (result - product.first) * tile_.k_blocks * phase.units);
  }
  return columns;
}

/// Before the block's warps have met: which part a thread has a share of, where its sums lie and
/// where it goes.
void RecurrenceEmitter::place_parts_of_sums(size_t p, const Level& level) {
  const Phase& phase = phases_[p];
  const auto count = static_cast<int64_t>(level.count);
  const int64_t span = span_of_sums(phase, level);
  const int64_t lanes = phase.units / span;
  std::string columns;
  for (size_t i = level.first; i < level.first + level.count; ++i) {
    const uint32_t argument = phase.kernel->body[phase.partials[i].value].argument;
    const int64_t column = columns_of(phase, phase.results[argument])[0];
    columns += i + 1 == level.first + level.count
                   ? fmt::format("{}", column)
                   : fmt::format("part_of == {} ? {} : ", i - level.first, column);
  }
  line("      const unsigned part_column = threadIdx.x % {}u * {}u;", lanes, span);
  line("      const unsigned part_of = threadIdx.x / {}u % {}u;", lanes, count);
  line("      const unsigned part_row = threadIdx.x / {}u;", lanes * count);
  line("      const unsigned part_all = units{}::count(block);", p);
  line("      const bool has_part = part_row < {}u && part_column < part_all &&", tile_.rows);
  line("                            first_row + lap * {}u + part_row < row_end;", tile_.rows);
  line("      const unsigned part_from = rnnc_kept(sums{}::place(({}) + part_column, part_row));",
       p, columns);
  line("      float2* const part_to = rnnc_kept({} + part_of);",
       place_of_parts(exchange_now(), level,
                      fmt::format("(first_row + lap * {}u + part_row)", tile_.rows), "block"));
}

/// As `hand_on_parts`, by more threads: each adds up the sums of one reduction.
void RecurrenceEmitter::hand_on_parts_of_sums(size_t p, const Level& level) {
  const int64_t span = span_of_sums(phases_[p], level);
  line("      {{");
  line("        float values[{}] = {{}};", span);
  line("        if (has_part) sums{}::add(values, buffer, part_from);", p);
  line("        const float2 part[1] = {{{}}};",
       part(p, level.first, span,
            fmt::format("values, has_part ? min({}u, part_all - part_column) : 0", span)));
  line("        if (has_part && part_column == 0) rnnc_exchange<false>(part_to, part);");
  line("      }}");
}

/// Joins the parts of all blocks of the group, once this one has handed on its own: those of one
/// kind that are neighbours at once.
void RecurrenceEmitter::join_parts(size_t p, const Level& level) {
  const Phase& phase = phases_[p];
  const size_t end = level.first + level.count;
  for (size_t first = level.first; first < end;) {
    size_t last = first + 1;
    while (last < end && phase.partials[last].kind == phase.partials[first].kind) ++last;
    line("      {}::join(", parts(p, level, first, last - first));
    line("          {} + {}u, {}, {}, handed_on{});",
         place_of_parts(exchange_now(), level, "lap_first", "0u"), first - level.first,
         statistic(first),
         layout_.has_all_rows() ? fmt::format("{}", most_rows())
                                : fmt::format("min(rows, {})", most_rows()),
         phase.partials[first].level);
    first = last;
  }
  line("      __syncthreads();");
}

/// The type that joins `count` reductions of a level from `first` on.
std::string RecurrenceEmitter::parts(size_t p, const Level& level, size_t first, size_t count) {
  const Phase& phase = phases_[p];
  const int64_t first_thread = first_joining_warp(phase) * kThreadsOfWarp;
  const std::string name = fmt::format("parts{}_{}", p, first);
  traits_.constant("rnnc_reduction", "kReduction",
                   fmt::format("rnnc_reduction::{}", kind(phase, first)));
  traits_.constant("int", "kBlocks", phase.blocks());
  traits_.constant("int", "kFirstThread", first_thread);
  traits_.constant("int", "kThreads", threads() - first_thread);
  traits_.constant("int", "kRows", most_rows());
  traits_.constant("int", "kCount", count);
  traits_.constant("int", "kApart", level.count);
  traits_.constant("int", "kStride", parts_of_row());
  traits_.constant("bool", "kPairs", level.pieces);
  traits_.end(name);
  return fmt::format("rnnc_parts<{}, units{}>", name, p);
}

/// Warps before it have elements, and work while parts come. The others join them, if they are as
/// many.
int64_t RecurrenceEmitter::first_joining_warp(const Phase& phase) const {
  const int64_t threads = most_rows() * phase.units / phase.span;
  const int64_t warps = ceil_div(threads, kThreadsOfWarp);
  return 2 * warps <= tile_.warps ? warps : 0;
}

std::string_view RecurrenceEmitter::kind(const Phase& phase, size_t partial) {
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
void RecurrenceEmitter::reduced(size_t p, uint32_t id) {
  const Phase& phase = phases_[p];
  const Op op = phase.kernel->body[id].op;
  line("          value{}[my_value] = ({})[lap_row].{}{};", id, statistic(phase.partial_of(id)),
       op == Op::Var ? 'y' : 'x',
       op == Op::Var || op == Op::Mean
           ? fmt::format(" / {}", cuda_float_literal(static_cast<double>(phase.kernel->length)))
           : "");
}

}  // namespace rnnc
