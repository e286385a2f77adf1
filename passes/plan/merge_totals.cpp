// 1. Find the left operands of a stage's totals that can lie side by side: each in a Chunk buffer
//    of its own, and all written by one launch.
// 2. Put them in order: those that two right operands share in the middle, so that each of these
//    has its own one behind the other. (A GRU's r and z meet x, h and 1, its n one of them each.)
// 3. One buffer takes their place, and one launch that of the totals of each right operand, as far
//    as their left operands are neighbours.
// 4. Products of neighbours that add up in one place become one, on a GPU over weights that are
//    stacked once a call. (H100, LSTM 64x1024 in bf16: the four of a chunk of 128 steps wrote and
//    read 200 MB for their sums.) On a CPU weights are not copied for it.
#include "passes/plan/merge_totals.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "ir/base/arithmetic.h"
#include "ir/plan/buffer_uses.h"
#include "ir/plan/plan_accesses.h"
#include "passes/lower/kernel_builder.h"
#include "passes/lower/once_stages.h"
#include "passes/lower/unused_buffers.h"

namespace rnnc {
namespace {

constexpr int64_t kAlignedBytes = 16;

class MergeTotals {
 public:
  MergeTotals(Plan& plan, const Machine& machine, bool gaps)
      : plan_(plan), machine_(machine), gaps_(gaps), uses_(plan) {}

  bool run() {
    bool changed = false;
    for (size_t i = 0; i < plan_.stages.size(); ++i) {
      if (plan_.stages[i].domain != Domain::Sequence) continue;
      while (merge_some(i)) changed = true;
    }
    if (!changed) return false;
    append_once(plan_, once_);
    remove_unused_temporaries(plan_);
    return true;
  }

 private:
  /// What a total's left operand is multiplied with; of sums of rows nothing.
  using Right = std::tuple<BufferId, uint32_t, int64_t, int64_t>;
  static Right right_of(const TotalLaunch& total) {
    return {total.right.buffer, total.right.delay, total.right.column, total.n};
  }

  /// Left operands with their totals' numbers in the stage, by right operand, in order.
  struct Lefts {
    std::vector<BufferId> buffers;
    std::vector<Right> rights;
    std::map<Right, std::vector<std::pair<BufferId, size_t>>> totals;
  };

  Buffer& buffer_of(BufferId id) { return plan_.buffers[id]; }
  const Buffer& buffer_of(BufferId id) const { return plan_.buffers[id]; }

  BufferId add(Buffer buffer) {
    plan_.buffers.push_back(std::move(buffer));
    return static_cast<BufferId>(plan_.buffers.size() - 1);
  }

  // ---- Step 1 ----

  bool can_move(const TotalLaunch& total) const {
    const Buffer& left = buffer_of(total.left.buffer);
    const Buffer& out = buffer_of(total.out.buffer);
    if (!gaps_ && next_column(total.m, left.dtype) != total.m) return false;
    return total.blocks == 1 && left.role == Role::Temporary && left.extent == Extent::Chunk &&
           left.history == 0 && left.pad == 0 && left.width == total.m &&
           out.role == Role::Temporary && out.width == total.m * total.n &&
           uses_.only_writer(total.left.buffer) && uses_.only_writer(total.out.buffer);
  }

  /// By what they must have in common.
  auto find_lefts(size_t stage) const {
    std::map<std::tuple<LaunchPlace, DType, Placement>, Lefts> found;
    const std::vector<Launch>& launches = plan_.stages[stage].launches;
    for (size_t i = 0; i < launches.size(); ++i) {
      const auto* total = std::get_if<TotalLaunch>(&launches[i]);
      if (total == nullptr || !can_move(*total)) continue;
      const BufferId id = total->left.buffer;
      Lefts& lefts = found[{*uses_.only_writer(id), buffer_of(id).dtype, buffer_of(id).placement}];
      if (std::ranges::count(lefts.buffers, id) == 0) lefts.buffers.push_back(id);
      const Right right = right_of(*total);
      if (!lefts.totals.contains(right)) lefts.rights.push_back(right);
      lefts.totals[right].emplace_back(id, i);
    }
    return found;
  }

  // ---- Step 2 ----

  static bool meets(const Lefts& lefts, BufferId id, const Right& right) {
    const auto is_left = [&](const auto& total) { return total.first == id; };
    return std::ranges::any_of(lefts.totals.at(right), is_left);
  }

  /// The first right operand's own ones, those that it shares with the next one that has others,
  /// and the rest.
  static std::vector<BufferId> in_order(const Lefts& lefts) {
    const Right& first = lefts.rights[0];
    const auto has_others = [&](const Right& right) {
      return std::ranges::any_of(lefts.totals.at(right), [&](const auto& total) {
        return !meets(lefts, total.first, first);
      });
    };
    const auto second = std::ranges::find_if(lefts.rights, has_others);
    const auto place = [&](BufferId id) {
      const bool in_first = meets(lefts, id, first);
      if (second == lefts.rights.end()) return in_first ? 0 : 3;
      const bool in_second = meets(lefts, id, *second);
      return in_first ? (in_second ? 1 : 0) : (in_second ? 2 : 3);
    };
    std::vector<BufferId> order = lefts.buffers;
    std::ranges::stable_sort(order, {}, place);
    return order;
  }

  // ---- Step 3 ----

  /// Of the first that can be; false if there are none.
  bool merge_some(size_t stage) {
    for (const auto& [common, lefts] : find_lefts(stage)) {
      if (lefts.buffers.size() < 2) continue;
      merge(stage, lefts);
      return true;
    }
    return false;
  }

  void merge(size_t stage, const Lefts& lefts) {
    const std::vector<BufferId> order = in_order(lefts);
    std::map<BufferId, int64_t> columns = place_side_by_side(order);
    std::set<size_t> merged;  // launches that others do
    for (const auto& [right, totals] : lefts.totals) merge_totals(stage, totals, columns, merged);
    merge_products(plan_.stages[stage], columns, merged);
    std::vector<Launch>& launches = plan_.stages[stage].launches;
    for (auto at = merged.rbegin(); at != merged.rend(); ++at) {
      launches.erase(launches.begin() + static_cast<std::ptrdiff_t>(*at));
    }
    const std::vector<Launch> zeros = fill_gaps(order, columns);
    move_to(order[0], columns);
    launches.insert(launches.begin(), zeros.begin(), zeros.end());
  }

  /// Zeros, a launch for all gaps of one length.
  std::vector<Launch> fill_gaps(const std::vector<BufferId>& order,
                                const std::map<BufferId, int64_t>& columns) {
    const int64_t stride = wholes_.at(order[0]).width;
    std::map<int64_t, std::vector<Access>> gaps;  // by length
    for (const BufferId id : order) {
      const int64_t end = columns.at(id) + buffer_of(id).width;
      const int64_t length = next_column(end, buffer_of(id).dtype) - end;
      if (length == 0) continue;
      gaps[length].push_back({.buffer = order[0], .column = end, .stride = stride});
    }
    std::vector<Launch> launches;
    for (const auto& [length, accesses] : gaps) {
      KernelBuilder builder(plan_, length);
      for (const Access& access : accesses) {
        builder.store(access, /*vector=*/true, builder.constant(0));
      }
      launches.emplace_back(builder.finish());
    }
    return launches;
  }

  /// Where what lies behind such an end begins: a GPU's products want rows that are aligned.
  int64_t next_column(int64_t end, DType dtype) const {
    if (machine_.kind == Machine::Kind::Cpu) return end;
    return round_up(end, kAlignedBytes / static_cast<int64_t>(size_of(dtype)));
  }

  /// Columns in the first one's buffer, which grows.
  std::map<BufferId, int64_t> place_side_by_side(const std::vector<BufferId>& order) {
    std::map<BufferId, int64_t> columns;
    int64_t end = 0;
    for (const BufferId id : order) {
      columns.emplace(id, end);
      end = next_column(end + buffer_of(id).width, buffer_of(id).dtype);
    }
    add_whole(order, end);
    return columns;
  }

  void add_whole(const std::vector<BufferId>& order, int64_t width) {
    Buffer whole = buffer_of(order[0]);
    whole.width = width;
    whole.name.clear();
    for (const BufferId id : order) {
      whole.name += (whole.name.empty() ? "" : "|") + buffer_of(id).name;
    }
    wholes_.emplace(order[0], std::move(whole));
  }

  /// Accesses go to one buffer in place of several. Of Chunk buffers they get its stride.
  void move_to(BufferId whole, const std::map<BufferId, int64_t>& columns) {
    buffer_of(whole) = wholes_.at(whole);
    const Buffer& buffer = buffer_of(whole);
    for_each_access(plan_, [&](Access& access) {
      const auto found = columns.find(access.buffer);
      if (found == columns.end()) return;
      access.buffer = whole;
      access.column += found->second;
      if (buffer.extent == Extent::Chunk) access.stride = buffer.width;
    });
  }

  TotalLaunch& total_at(size_t stage, size_t launch) {
    return std::get<TotalLaunch>(plan_.stages[stage].launches[launch]);
  }

  /// The totals of one right operand, run by run of neighbours. Sums of rows have no gaps between
  /// them: what makes them knows no such columns.
  void merge_totals(size_t stage, std::vector<std::pair<BufferId, size_t>> totals,
                    const std::map<BufferId, int64_t>& columns, std::set<size_t>& merged) {
    const auto column = [&](const auto& total) { return columns.at(total.first); };
    std::ranges::sort(totals, {}, column);
    const bool sums = total_at(stage, totals[0].second).right.buffer == kNoBuffer;
    for (size_t begin = 0; begin < totals.size();) {
      size_t end = begin + 1;
      while (end < totals.size()) {
        const Buffer& before = buffer_of(totals[end - 1].first);
        const int64_t last = column(totals[end - 1]) + before.width;
        if (column(totals[end]) != (sums ? last : next_column(last, before.dtype))) break;
        ++end;
      }
      const auto at = [&](size_t i) { return totals.begin() + static_cast<std::ptrdiff_t>(i); };
      if (end > begin + 1) merge_run(stage, {at(begin), at(end)}, columns, merged);
      begin = end;
    }
  }

  int64_t old_width(BufferId id) const { return buffer_of(id).width; }

  /// In the first one's place. The zeros in gaps make rows that nothing reads.
  void merge_run(size_t stage, const std::vector<std::pair<BufferId, size_t>>& run,
                 const std::map<BufferId, int64_t>& columns, std::set<size_t>& merged) {
    std::vector<BufferId> outs;
    std::map<BufferId, int64_t> places;  // of these
    TotalLaunch& first = total_at(stage, run[0].second);
    const int64_t begin = columns.at(run[0].first);
    for (const auto& [left, launch] : run) {
      const TotalLaunch& total = total_at(stage, launch);
      outs.push_back(total.out.buffer);
      places.emplace(total.out.buffer, (columns.at(left) - begin) * total.n);
      if (launch != run[0].second) merged.insert(launch);
    }
    const int64_t end = columns.at(run.back().first) + old_width(run.back().first) - begin;
    const bool sums = first.right.buffer == kNoBuffer;
    first.m = sums ? end : next_column(end, buffer_of(run[0].first).dtype);
    add_whole(outs, first.m * first.n);
    move_to(outs[0], places);
  }

  // ---- Step 4 ----

  /// Where products add up, and their weights' rows.
  using Sum = std::tuple<BufferId, uint32_t, int64_t, int64_t>;

  bool is_part(const Launch& launch, const std::map<BufferId, int64_t>& columns) const {
    const auto* gemm = std::get_if<GemmLaunch>(&launch);
    if (gemm == nullptr || !columns.contains(gemm->left.buffer)) return false;
    const Buffer& weight = buffer_of(gemm->weight.buffer);
    return gemm->transposed && gemm->blocks == 1 && gemm->repeats == 1 &&
           gemm->weight.stride == 0 && gemm->left.column == 0 && gemm->left.delay == 0 &&
           gemm->k == old_width(gemm->left.buffer) && weight.extent == Extent::Invariant &&
           weight.dtype == plan_.dtype;
  }

  void merge_products(Stage& stage, const std::map<BufferId, int64_t>& columns,
                      std::set<size_t>& merged) {
    std::map<Sum, std::vector<size_t>> sums;
    for (size_t i = 0; i < stage.launches.size(); ++i) {
      if (!is_part(stage.launches[i], columns)) continue;
      const auto& gemm = std::get<GemmLaunch>(stage.launches[i]);
      sums[{gemm.out.buffer, gemm.out.delay, gemm.out.column, gemm.n}].push_back(i);
    }
    const auto gemm_at = [&](size_t i) -> GemmLaunch& {
      return std::get<GemmLaunch>(stage.launches[i]);
    };
    const auto column = [&](size_t i) { return columns.at(gemm_at(i).left.buffer); };
    for (auto& [sum, parts] : sums) {
      std::ranges::sort(parts, {}, column);
      for (size_t begin = 0; begin < parts.size();) {
        size_t end = begin + 1;
        while (end < parts.size() &&
               column(parts[end]) == end_of(gemm_at(parts[end - 1]), columns)) {
          ++end;
        }
        const std::vector<size_t> run(parts.begin() + static_cast<std::ptrdiff_t>(begin),
                                      parts.begin() + static_cast<std::ptrdiff_t>(end));
        if (run.size() > 1) merge_products(stage, run, columns, merged);
        begin = end;
      }
    }
  }

  /// Of a product's left operand and the zeros behind it.
  int64_t end_of(const GemmLaunch& gemm, const std::map<BufferId, int64_t>& columns) const {
    return next_column(columns.at(gemm.left.buffer) + gemm.k, buffer_of(gemm.left.buffer).dtype);
  }

  /// Neighbours, in order. What they become runs where the earliest of them did.
  void merge_products(Stage& stage, const std::vector<size_t>& run,
                      const std::map<BufferId, int64_t>& columns, std::set<size_t>& merged) {
    std::vector<GemmLaunch> parts;
    std::vector<int64_t> ends;  // along k
    for (const size_t i : run) {
      parts.push_back(std::get<GemmLaunch>(stage.launches[i]));
      ends.push_back(end_of(parts.back(), columns) - columns.at(parts[0].left.buffer));
    }
    GemmLaunch whole = parts[0];
    whole.accumulate = std::ranges::all_of(parts, &GemmLaunch::accumulate);
    whole.k = ends.back();
    if (!are_neighbours(parts, ends)) {
      if (machine_.kind == Machine::Kind::Cpu) return;
      whole.weight = {.buffer = stack_weights(parts, ends)};
    }
    const size_t first = *std::ranges::min_element(run);
    stage.launches[first] = whole;
    for (const size_t i : run) {
      if (i != first) merged.insert(i);
    }
  }

  static bool are_neighbours(const std::vector<GemmLaunch>& parts,
                             const std::vector<int64_t>& ends) {
    int64_t begin = 0;
    for (size_t i = 0; i < parts.size(); ++i) {
      const bool next = parts[i].weight.buffer == parts[0].weight.buffer &&
                        begin + parts[i].k == ends[i] &&
                        parts[i].weight.column == parts[0].weight.column + begin * parts[i].n;
      if (!next) return false;
      begin = ends[i];
    }
    return true;
  }

  static CopyLaunch copy_of(const GemmLaunch& part, const Access& target) {
    return {.source = part.weight, .target = target, .rows = part.k, .columns = part.n};
  }

  Buffer stack_buffer(const std::vector<GemmLaunch>& parts, int64_t k) const {
    Buffer stack{.name = "",
                 .dtype = plan_.dtype,
                 .placement = Placement::Program,
                 .extent = Extent::Invariant,
                 .width = k * parts[0].n};
    for (const GemmLaunch& part : parts) {
      stack.name += (stack.name.empty() ? "" : "|") + buffer_of(part.weight.buffer).name;
    }
    return stack;
  }

  /// Each one's rows, and zeros up to where the next one's begin.
  BufferId stack_weights(const std::vector<GemmLaunch>& parts, const std::vector<int64_t>& ends) {
    const BufferId stack = add(stack_buffer(parts, ends.back()));
    int64_t begin = 0;
    for (size_t i = 0; i < parts.size(); ++i) {
      const int64_t n = parts[i].n;
      once_.emplace_back(copy_of(parts[i], {.buffer = stack, .column = begin * n}));
      begin += parts[i].k;
      if (begin == ends[i]) continue;
      KernelBuilder builder(plan_, n);
      builder.store({.buffer = stack, .column = begin * n, .stride = n}, /*vector=*/true,
                    builder.constant(0));
      once_.emplace_back(builder.finish(ends[i] - begin));
      begin = ends[i];
    }
    return stack;
  }

  Plan& plan_;
  const Machine& machine_;
  const bool gaps_;
  const BufferUses uses_;  // as they were: totals that have become one keep their writer
  std::map<BufferId, Buffer> wholes_;  // what the first ones become
  std::vector<Launch> once_;           // at the end of Once stages
};

}  // namespace

bool run_merge_totals(Plan& plan, const Machine& machine) {
  return MergeTotals(plan, machine, /*gaps=*/false).run();
}

bool run_merge_unaligned_totals(Plan& plan, const Machine& machine) {
  if (machine.kind == Machine::Kind::Cpu) return false;
  return MergeTotals(plan, machine, /*gaps=*/true).run();
}

}  // namespace rnnc
