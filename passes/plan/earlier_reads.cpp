// 1. Find the copies of earlier steps all of whose readers may read the caller's array in their
//    stead: totals as rows, and of no pad, recurrences as inputs that are copied ahead.
// 2. These do so, and the copies go.
#include "passes/plan/earlier_reads.h"

#include <algorithm>
#include <vector>

#include "ir/persistent/recurrence_inputs.h"
#include "ir/plan/buffer_uses.h"
#include "passes/lower/unused_buffers.h"
#include "passes/plan/wider_rows.h"

namespace rnnc {
namespace {

class EarlierReads {
 public:
  explicit EarlierReads(Plan& plan) : plan_(plan), uses_(plan) {}

  bool run() {
    bool changed = false;
    for (const Stage& stage : plan_.stages) {
      for (const Launch& launch : stage.launches) {
        const auto* copy = std::get_if<EarlierLaunch>(&launch);
        if (copy != nullptr && read_in_place(*copy)) changed = true;
      }
    }
    if (changed) remove_unread_earlier_steps(plan_);
    return changed;
  }

 private:
  bool read_in_place(const EarlierLaunch& copy) {
    if (!uses_.only_writer(copy.target.buffer) || !is_as_aligned(copy)) return false;
    std::vector<std::pair<Launch*, Launch>> readers;  // and what becomes of them
    for (const BufferUse& use : uses_.of(copy.target.buffer)) {
      if (use.write) continue;
      if (!use.place) return false;
      Launch& reader = plan_.stages[use.place->stage].launches[use.place->launch];
      const auto is_it = [&](const auto& known) { return known.first == &reader; };
      if (std::ranges::any_of(readers, is_it)) continue;
      Launch other = reader;
      if (!read_in_place(copy, other)) return false;
      readers.emplace_back(&reader, std::move(other));
    }
    for (auto& [reader, other] : readers) *reader = std::move(other);
    return !readers.empty();
  }

  /// Whether `reader` can, all that it reads of the copy.
  bool read_in_place(const EarlierLaunch& copy, Launch& reader) const {
    if (auto* const total = std::get_if<TotalLaunch>(&reader)) return read_in_place(copy, *total);
    auto* const recurrence = std::get_if<RecurrenceLaunch>(&reader);
    return recurrence != nullptr && read_in_place(copy, *recurrence);
  }

  static bool read_in_place(const EarlierLaunch& copy, TotalLaunch& total) {
    const Access& right = total.right;
    const int64_t begin = right.column - copy.target.column;
    const bool can = right.buffer == copy.target.buffer && total.left.buffer != right.buffer &&
                     right.delay == 0 && !total.turned && !total.in_parts && begin >= 0 &&
                     begin + total.blocks * total.n <= copy.width;
    if (!can) return false;
    total.right = source_of(copy, right);
    total.earlier = true;
    return true;
  }

  bool read_in_place(const EarlierLaunch& copy, RecurrenceLaunch& recurrence) const {
    if (recurrence.tile.sides.size() > 1 || recurrence.tile.input_steps == 0) return false;
    const RecurrenceInputs before = inputs_of(recurrence);
    for (FusedLaunch& phase : recurrence.phases) {
      const auto is_of_copy = [&](const FusedLaunch::Product& product) {
        return product.left.buffer == copy.target.buffer;
      };
      if (std::ranges::any_of(phase.products, is_of_copy)) return false;
      for (uint32_t i = 0; i < phase.accesses.size(); ++i) {
        Access& access = phase.accesses[i];
        if (access.buffer != copy.target.buffer) continue;
        if (access.delay != 0 || !plan_.kernels[phase.kernel].arguments[i].vector) return false;
        access = source_of(copy, access);
        phase.earlier.push_back(i);
      }
    }
    const RecurrenceInputs after = inputs_of(recurrence);
    return after.step_bytes == before.step_bytes && after.copies <= before.copies &&
           copies_earlier(recurrence, after);
  }

  RecurrenceInputs inputs_of(const RecurrenceLaunch& recurrence) const {
    return rnnc::inputs_of(plan_, recurrence.phases, recurrence.tile, 0);
  }

  /// What the copy has at an access is there in the caller's array.
  static Access source_of(const EarlierLaunch& copy, const Access& access) {
    Access source = copy.source;
    source.column += access.column - copy.target.column;
    return source;
  }

  /// Whether rows of the source are aligned, or those of the copy are not either.
  bool is_as_aligned(const EarlierLaunch& copy) const {
    const auto element = static_cast<int64_t>(size_of(plan_.buffers[copy.source.buffer].dtype));
    const auto is_aligned = [&](const Access& access) {
      return access.stride * element % kAlignedRowBytes == 0 &&
             access.column * element % kAlignedRowBytes == 0;
    };
    return copy.source.delay == 0 && copy.target.delay == 0 &&
           (is_aligned(copy.source) || !is_aligned(copy.target));
  }

  Plan& plan_;
  const BufferUses uses_;  // as they were
};

}  // namespace

bool run_earlier_reads(Plan& plan, const Machine& machine) {
  if (machine.kind != Machine::Kind::Cuda) return false;
  return EarlierReads(plan).run();
}

}  // namespace rnnc
