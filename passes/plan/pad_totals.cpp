// 1. Find the totals of Sequence stages whose rows, or whose operands', are not aligned, and whose
//    results are read by elementwise work alone. What reads several reads all of these in rows of
//    one length.
// 2. Operands that are temporaries get wider rows; others are copied chunk by chunk, those of one
//    stage that are alike once, if that costs less than it saves.
// 3. Totals get as many columns as their rows have, and what reads them goes row by row.
#include "passes/plan/pad_totals.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "ir/base/arithmetic.h"
#include "ir/plan/buffer_uses.h"
#include "passes/lower/kernel_builder.h"
#include "passes/plan/wider_rows.h"

namespace rnnc {
namespace {

/// How long the rows of a total's result are, and how far apart they will be.
struct Rows {
  int64_t length = 0;
  int64_t stride = 0;
  friend bool operator==(const Rows&, const Rows&) = default;
};

class PadTotals {
 public:
  PadTotals(Plan& plan, const Machine& machine, const PaddingOptions& options)
      : plan_(plan), options_(options), wider_(plan, machine, options.max_steps), uses_(plan) {}

  bool run() {
    find_totals();
    drop_unreadable();
    if (totals_.empty()) return false;
    for (const LaunchPlace place : totals_) pad_operands(place);
    for (const LaunchPlace place : readers()) read_by_rows(place);
    for (const LaunchPlace place : totals_) pad_result(total_at(place));
    wider_.finish();
    return true;
  }

 private:
  Launch& launch_at(LaunchPlace place) { return plan_.stages[place.stage].launches[place.launch]; }
  const Launch& launch_at(LaunchPlace place) const {
    return plan_.stages[place.stage].launches[place.launch];
  }
  TotalLaunch& total_at(LaunchPlace place) { return std::get<TotalLaunch>(launch_at(place)); }
  const Buffer& buffer_of(const Access& access) const { return plan_.buffers[access.buffer]; }

  int64_t unit_of(const Access& access) const {
    return kAlignedRowBytes / static_cast<int64_t>(size_of(buffer_of(access).dtype));
  }

  // ---- Step 1 ----

  void find_totals() {
    if (plan_.batch * options_.max_steps < options_.least_rows) return;
    for (size_t i = 0; i < plan_.stages.size(); ++i) {
      if (plan_.stages[i].domain != Domain::Sequence) continue;
      for (size_t j = 0; j < plan_.stages[i].launches.size(); ++j) {
        const auto* total = std::get_if<TotalLaunch>(&plan_.stages[i].launches[j]);
        if (total == nullptr || !can_pad(plan_.stages[i], *total)) continue;
        totals_.push_back({i, j});
        rows_.emplace(total->out.buffer, rows_of(*total));
      }
    }
  }

  Rows rows_of(const TotalLaunch& total) const {
    const int64_t unit = std::max(unit_of(total.out), unit_of(total.right));
    return {total.n, round_up(total.n, unit)};
  }

  bool can_pad(const Stage& stage, const TotalLaunch& total) const {
    if (total.right.buffer == kNoBuffer || total.blocks != 1 || total.earlier) return false;
    if (std::min(total.m, total.n) < options_.least_size) return false;
    const bool aligned = is_aligned(total.left) && is_aligned(total.right);
    if (aligned && rows_of(total).stride == total.n) return false;
    const Buffer& out = buffer_of(total.out);
    return out.role == Role::Temporary && total.out.column == 0 && out.width == total.m * total.n &&
           uses_.only_writer(total.out.buffer) &&
           (is_aligned(total.left) || can_widen(total.left) || pays_copy(stage, total, total.m)) &&
           (has_columns(total, rows_of(total)) || pays_copy(stage, total, total.n));
  }

  bool is_aligned(const Access& access) const {
    return access.column % unit_of(access) == 0 && access.stride % unit_of(access) == 0;
  }

  bool can_widen(const Access& access) const {
    const Buffer& buffer = buffer_of(access);
    return buffer.role == Role::Temporary && buffer.extent == Extent::Chunk &&
           access.column % unit_of(access) == 0;
  }

  /// Whether rows of the right operand, or their parts, have so many, or will when they are wider.
  bool has_columns(const TotalLaunch& total, const Rows& rows) const {
    const Buffer& buffer = buffer_of(total.right);
    if (buffer.role != Role::Temporary || buffer.extent != Extent::Chunk) return false;
    int64_t end = total.in_parts ? part_stride(total, total.right) : buffer.width;
    if (!is_aligned(total.right)) {
      if (!can_widen(total.right)) return false;
      end = round_up(end, unit_of(total.right));
    }
    return total.right.column + rows.stride <= end;
  }

  bool pays_copy(const Stage& stage, const TotalLaunch& total, int64_t length) const {
    if (total.in_parts || total.turned) return false;
    return wider_.pays_copy(stage, total, length);
  }

  /// Launches but for totals that touch results of these.
  std::set<LaunchPlace> readers() const {
    std::set<LaunchPlace> found;
    for (const auto& [out, rows] : rows_) {
      for (const BufferUse& use : uses_.of(out)) {
        if (!use.write && use.place && *use.place != *uses_.only_writer(out)) {
          found.insert(*use.place);
        }
      }
    }
    return found;
  }

  void drop_unreadable() {
    while (true) {
      std::set<BufferId> dropped;
      for (const LaunchPlace place : readers()) {
        if (!can_read_by_rows(place)) drop_read(place, dropped);
      }
      for (const auto& [out, rows] : rows_) {
        const auto of_state = [](const BufferUse& use) { return !use.place; };
        if (std::ranges::any_of(uses_.of(out), of_state)) dropped.insert(out);
      }
      if (dropped.empty()) return;
      for (const BufferId out : dropped) rows_.erase(out);
      std::erase_if(totals_, [&](LaunchPlace place) {
        return !rows_.contains(std::get<TotalLaunch>(launch_at(place)).out.buffer);
      });
    }
  }

  void drop_read(LaunchPlace place, std::set<BufferId>& dropped) const {
    TouchedBuffers touched;
    touched.add(plan_, launch_at(place));
    for (const BufferId id : touched.read) {
      if (rows_.contains(id)) dropped.insert(id);
    }
  }

  /// Where it goes row by row, or all that it touches are vectors, which can be taken as rows.
  bool can_read_by_rows(LaunchPlace place) const {
    const auto* launch = std::get_if<ElementwiseLaunch>(&launch_at(place));
    if (launch == nullptr || plan_.stages[place.stage].domain != Domain::Last) return false;
    const Kernel& kernel = plan_.kernels[launch->kernel];
    if (!kernel.loops.empty()) return false;
    std::optional<Rows> common;
    for (size_t i = 0; i < launch->accesses.size(); ++i) {
      const Access& access = launch->accesses[i];
      const Kernel::Argument& argument = kernel.arguments[i];
      if (!argument.vector || argument.count != 1) return false;
      const auto found = rows_.find(access.buffer);
      if (found == rows_.end()) continue;
      const int64_t length = found->second.length;
      if (common && *common != found->second) return false;
      if (access.column % length != 0) return false;
      if (launch->once_rows > 1 && access.stride != length) return false;
      common = found->second;
    }
    if (launch->once_rows > 1 && kernel.length != common->length) return false;
    const auto reduces = [](const Instruction& one) {
      return one.kind == Instruction::Kind::Reduce;
    };
    return kernel.length % common->length == 0 && std::ranges::none_of(kernel.body, reduces);
  }

  // ---- Step 2 ----

  void pad_operands(LaunchPlace place) {
    TotalLaunch& total = total_at(place);
    const Rows rows = rows_.at(total.out.buffer);
    if (!is_aligned(total.left) && can_widen(total.left)) {
      wider_.widen(total.left.buffer, unit_of(total.left));
    } else if (!is_aligned(total.left)) {
      const int64_t width = round_up(total.m, unit_of(total.left));
      total.left = wider_.copy(place, total.left, total.m, width, /*zeros=*/false);
    }
    if (!has_columns(total, rows)) {
      total.right = wider_.copy(place, total.right, rows.length, rows.stride,
                                /*zeros=*/rows.stride > rows.length);
      return;
    }
    if (!is_aligned(total.right)) wider_.widen(total.right.buffer, unit_of(total.right));
    Buffer& right = plan_.buffers[total.right.buffer];
    if (right.pad > 0) right.placement = Placement::Program;
  }

  // ---- Step 3 ----

  void read_by_rows(LaunchPlace place) {
    auto& launch = std::get<ElementwiseLaunch>(launch_at(place));
    Kernel kernel = plan_.kernels[launch.kernel];
    const auto padded = std::ranges::find_if(
        launch.accesses, [&](const Access& access) { return rows_.contains(access.buffer); });
    const Rows rows = rows_.at(padded->buffer);
    if (launch.once_rows == 1) {
      launch.once_rows = kernel.length / rows.length;
      kernel.length = rows.length;
      launch.kernel = add_kernel(plan_, std::move(kernel));
      for (Access& access : launch.accesses) access.stride = rows.length;
    }
    for (Access& access : launch.accesses) {
      if (!rows_.contains(access.buffer)) continue;
      access.column = access.column / rows.length * rows.stride;
      access.stride = rows.stride;
    }
  }

  void pad_result(TotalLaunch& total) {
    total.n = rows_.at(total.out.buffer).stride;
    plan_.buffers[total.out.buffer].width = total.m * total.n;
  }

  Plan& plan_;
  const PaddingOptions& options_;
  WiderRows wider_;
  const BufferUses uses_;  // as they were
  std::vector<LaunchPlace> totals_;
  std::map<BufferId, Rows> rows_;  // of their results
};

}  // namespace

bool run_pad_totals(Plan& plan, const Machine& machine, const PaddingOptions& options) {
  if (machine.kind != Machine::Kind::Cuda) return false;
  return PadTotals(plan, machine, options).run();
}

}  // namespace rnnc
