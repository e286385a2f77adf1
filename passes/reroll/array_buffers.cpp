// 1. Find the buffers that may be moved: temporaries that launches of kernels alone touch, of which
//    one stores the whole.
// 2. Launch by launch, in order, so that what earlier ones have put together later ones load: find
//    the families of its kernel (passes/reroll/kernel_families.h) as if buffers of one form were
//    arrays, and make one buffer of what each stores.
//    What lies side by side in the operand of a sum over steps already is put in that order.
//    Then likewise of such buffers, and of others, which loops around loops store.
// 3. Take the buffers away that nothing touches any more.
#include "passes/reroll/array_buffers.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "ir/plan/plan_accesses.h"
#include "passes/lower/unused_buffers.h"
#include "passes/reroll/folded_kernel.h"
#include "passes/reroll/loop_nests.h"

namespace rnnc {
namespace {

const std::vector<LoopCarry> kNoCarries;

/// A launch of a kernel.
struct Run {
  uint32_t kernel = 0;
  std::vector<Access>* accesses = nullptr;
  const std::vector<LoopCarry>* carries = &kNoCarries;
};

class ArrayBuffers {
 public:
  ArrayBuffers(Plan& plan, int64_t least, bool nests)
      : plan_(plan), least_(least), nests_(nests), form_(plan.buffers.size(), kNoForm) {}

  bool run(size_t long_kernel) {
    find_movable();
    bool changed = false;
    for (Stage& stage : plan_.stages) {
      for (Launch& launch : stage.launches) {
        const std::optional<Run> run = run_of(launch);
        if (!run || plan_.kernels[run->kernel].body.size() < long_kernel) continue;
        changed = put_together(*run) || changed;
      }
    }
    if (!changed) return false;
    for_each_access(plan_, [this](Access& access) { move(access); });
    remove_unused_temporaries(plan_);
    return true;
  }

 private:
  static std::optional<Run> run_of(Launch& launch) {
    if (auto* one = std::get_if<ElementwiseLaunch>(&launch))
      return Run{one->kernel, &one->accesses};
    if (auto* one = std::get_if<FusedLaunch>(&launch)) return Run{one->kernel, &one->accesses};
    if (auto* one = std::get_if<LoopLaunch>(&launch)) {
      return Run{one->kernel, &one->accesses, &one->carries};
    }
    return std::nullopt;
  }

  // ---- Step 1 ----

  void find_movable() {
    std::vector<int> others(plan_.buffers.size(), 0);  // touches that no kernel has
    std::vector<int> stores(plan_.buffers.size(), 0);
    std::vector<bool> whole(plan_.buffers.size(), false);
    for_each_access(plan_, [&](const Access& access) { ++others[access.buffer]; });
    for (Stage& stage : plan_.stages) {
      for (Launch& launch : stage.launches) {
        const std::optional<Run> run = run_of(launch);
        if (!run) continue;
        const Kernel& kernel = plan_.kernels[run->kernel];
        for (size_t i = 0; i < run->accesses->size(); ++i) {
          const Access& access = (*run->accesses)[i];
          if (access.buffer == kNoBuffer) continue;
          --others[access.buffer];
          const bool walks =
              plan_.buffers[access.buffer].extent == Extent::Invariant && access.stride != 0;
          if (walks) ++others[access.buffer];
          if (!kernel.arguments[i].written) continue;
          ++stores[access.buffer];
          const int64_t width = plan_.buffers[access.buffer].width;
          whole[access.buffer] = kernel.elements(kernel.arguments[i]) == width;
        }
      }
    }
    find_sums(others);
    for (BufferId id = 0; id < plan_.buffers.size(); ++id) {
      const bool alone = others[id] == 0 && stores[id] == 1 && whole[id];
      if (alone && is_temporary(plan_.buffers[id])) form_[id] = form_of(plan_.buffers[id]);
    }
  }

  static bool is_temporary(const Buffer& buffer) {
    return buffer.role == Role::Temporary && buffer.pad == 0;
  }

  int64_t form_of(const Buffer& buffer) {
    const Form key(buffer.dtype, buffer.extent, buffer.placement, buffer.width, buffer.history,
                   buffer.sweep, buffer.lag);
    const int64_t form = forms_.try_emplace(key, next_form_).first->second;
    next_form_ = std::max(next_form_, form + 1);
    return form;
  }

  // ---- Sums over steps ----

  /// A sum of a temporary that kernels store piece by piece, whose rows they load likewise.
  struct Sum {
    BufferId out = kNoBuffer;
    int64_t n = 1;
    std::map<int64_t, int64_t> pieces = {};  // of the operand, by column: elements
  };

  /// `others`: touches of launches other than kernels.
  void find_sums(const std::vector<int>& others) {
    std::map<BufferId, BufferId> operands;  // by sum
    for (const Stage& stage : plan_.stages) {
      for (const Launch& launch : stage.launches) {
        const auto* total = std::get_if<TotalLaunch>(&launch);
        if (total == nullptr || total->blocks != 1 || total->in_parts) continue;
        const Access& left = total->left;
        const Access& out = total->out;
        const bool whole = left.column == 0 && out.column == 0 && left.delay == 0 &&
                           plan_.buffers[left.buffer].width == total->m &&
                           plan_.buffers[out.buffer].width == total->m * total->n;
        const bool alone = others[left.buffer] == 1 && others[out.buffer] == 1;
        if (!whole || !alone || !is_temporary(plan_.buffers[left.buffer])) continue;
        sums_[left.buffer] = {out.buffer, total->n};
        operands[out.buffer] = left.buffer;
      }
    }
    for_each_kernel_access([&](const Access& access, const Kernel& kernel, size_t argument) {
      const auto sum = sums_.find(access.buffer);
      if (sum == sums_.end()) return;
      const bool written = kernel.arguments[argument].written;
      const int64_t count = written ? kernel.elements(kernel.arguments[argument]) : 0;
      const bool is_new = sum->second.pieces.emplace(access.column, count).second;
      if (!written || !is_new) sums_.erase(sum);
    });
    std::erase_if(sums_, [this](const auto& sum) {
      int64_t end = 0;
      for (const auto& [column, count] : sum.second.pieces) {
        if (column != end) return true;
        end += count;
      }
      return end != plan_.buffers[sum.first].width;
    });
    for_each_kernel_access([&](const Access& access, const Kernel& kernel, size_t argument) {
      const auto operand = operands.find(access.buffer);
      if (operand == operands.end() || !sums_.contains(operand->second)) return;
      const Sum& sum = sums_.at(operand->second);
      const auto [column, count] = piece_at(sum, access.column);
      const int64_t end = access.column + kernel.elements(kernel.arguments[argument]);
      const bool walks = access.stride != 0 || kernel.arguments[argument].written;
      if (walks || end > (column + count) * sum.n) sums_.erase(operand->second);
    });
  }

  template <typename Visit>
  void for_each_kernel_access(const Visit& visit) {
    for (Stage& stage : plan_.stages) {
      for (Launch& launch : stage.launches) {
        const std::optional<Run> run = run_of(launch);
        if (!run) continue;
        for (size_t i = 0; i < run->accesses->size(); ++i) {
          visit((*run->accesses)[i], plan_.kernels[run->kernel], i);
        }
      }
    }
  }

  /// Of the operand, by a column of the sum.
  static std::pair<int64_t, int64_t> piece_at(const Sum& sum, int64_t column) {
    return *std::prev(sum.pieces.upper_bound(column / sum.n));
  }

  /// Pieces in this order first, then the others.
  void put_in_order(BufferId operand, const std::vector<int64_t>& first) {
    Sum& sum = sums_.at(operand);
    std::map<int64_t, int64_t> moved;  // by column as it was
    Sum ordered = {sum.out, sum.n};
    int64_t end = 0;
    const auto append = [&](int64_t column) {
      if (!moved.emplace(column, end).second) return;
      ordered.pieces.emplace(end, sum.pieces.at(column));
      end += sum.pieces.at(column);
    };
    std::ranges::for_each(first, append);
    for (const auto& [column, count] : sum.pieces) append(column);
    for_each_kernel_access([&](Access& access, const Kernel&, size_t) {
      if (access.buffer == operand) access.column = moved.at(access.column);
      if (access.buffer != sum.out) return;
      const int64_t column = piece_at(sum, access.column).first;
      access.column += (moved.at(column) - column) * sum.n;
    });
    sum = std::move(ordered);
  }

  // ---- Step 2 ----

  bool put_together(const Run& run) {
    for (Access& access : *run.accesses) move(access);
    const Kernel& kernel = plan_.kernels[run.kernel];
    if (have_no_forms(forms_of(kernel, *run.accesses))) return false;
    bool changed = false;
    for (const bool nests : {false, true}) {
      const FamilyOptions options = {.least = least_, .nests = nests};
      changed = put_together(run, kernel, *run.accesses, *run.carries, options) || changed;
      if (!nests_) return changed;
      const KernelFamilies found = find_families(kernel, *run.accesses, *run.carries, options);
      if (found.families.empty()) continue;
      const RerolledKernel rolled = reroll_kernel(kernel, *run.carries, found);
      if (rolled.kernel.body.size() < kLongLoops) break;
      std::vector<Access> accesses;
      for (const uint32_t i : rolled.arguments) accesses.push_back((*run.accesses)[i]);
      changed = put_together(run, fold_loops(rolled.kernel).kernel, accesses, rolled.carries,
                             {.least = kLeastOuterTurns}) ||
                changed;
    }
    return changed;
  }

  /// What families of `kernel`, which is the run's or what loops leave of it, store.
  bool put_together(const Run& run, const Kernel& kernel, const std::vector<Access>& accesses,
                    const std::vector<LoopCarry>& carries, FamilyOptions options) {
    const std::vector<int64_t> forms = forms_of(kernel, accesses);
    if (have_no_forms(forms)) return false;
    options.forms = &forms;
    const KernelFamilies found = find_families(kernel, accesses, carries, options);
    bool changed = false;
    std::map<BufferId, std::vector<int64_t>> orders;  // of sums' operands
    for (const KernelFamily& family : found.families) {
      const Instruction& first = kernel.body[family.members[0]];
      const bool stores = first.kind == Instruction::Kind::Store;
      if (!stores || forms[first.argument] == kNoForm) continue;
      std::vector<BufferId> parts;
      std::vector<int64_t> columns;
      for (const uint32_t member : family.members) {
        const uint32_t argument = kernel.body[member].argument;
        const Access& access = accesses[argument];
        parts.push_back(access.buffer);
        if (!sums_.contains(access.buffer)) continue;
        const std::map<int64_t, int64_t>& pieces = sums_.at(access.buffer).pieces;
        const int64_t end = access.column + kernel.elements(kernel.arguments[argument]);
        for (auto piece = pieces.find(access.column); piece != pieces.end() && piece->first < end;
             ++piece) {
          columns.push_back(piece->first);
        }
      }
      changed = true;
      if (!sums_.contains(parts[0])) {
        join(parts);
      } else {
        std::vector<int64_t>& order = orders[parts[0]];
        order.insert(order.end(), columns.begin(), columns.end());
      }
    }
    for (const auto& [operand, order] : orders) put_in_order(operand, order);
    for (Access& access : *run.accesses) move(access);
    return changed;
  }

  static bool have_no_forms(const std::vector<int64_t>& forms) {
    return std::ranges::all_of(forms, [](int64_t form) { return form == kNoForm; });
  }

  /// By argument that is stored, the form of a buffer or of a piece of a sum's operand.
  std::vector<int64_t> forms_of(const Kernel& kernel, const std::vector<Access>& accesses) {
    std::vector<int64_t> forms(kernel.arguments.size(), kNoForm);
    for (size_t i = 0; i < forms.size(); ++i) {
      const Access& access = accesses[i];
      if (!kernel.arguments[i].written || access.buffer == kNoBuffer) continue;
      const int64_t elements = kernel.elements(kernel.arguments[i]);
      // Of what has been put together already the whole.
      if (elements == plan_.buffers[access.buffer].width) forms[i] = form_[access.buffer];
      if (!sums_.contains(access.buffer)) continue;
      forms[i] = piece_forms_.try_emplace({access.buffer, elements}, next_form_).first->second;
      next_form_ = std::max(next_form_, forms[i] + 1);
    }
    return forms;
  }

  void join(const std::vector<BufferId>& parts) {
    const auto whole = static_cast<BufferId>(plan_.buffers.size());
    Buffer buffer = plan_.buffers[parts[0]];
    const int64_t width = buffer.width;
    buffer.width = width * std::ssize(parts);
    form_.push_back(form_of(buffer));
    plan_.buffers.push_back(std::move(buffer));
    for (size_t i = 0; i < parts.size(); ++i) {
      moved_[parts[i]] = {whole, static_cast<int64_t>(i) * width};
      form_[parts[i]] = kNoForm;
    }
  }

  void move(Access& access) const {
    for (auto found = moved_.find(access.buffer); found != moved_.end();
         found = moved_.find(access.buffer)) {
      const auto& [whole, column] = found->second;
      access.buffer = whole;
      access.column += column;
      if (access.stride != 0) access.stride = plan_.buffers[whole].width;
    }
  }

  static constexpr int64_t kNoForm = -1;
  using Form = std::tuple<DType, Extent, Placement, int64_t, uint32_t, uint32_t, uint32_t>;

  Plan& plan_;
  const int64_t least_;
  const bool nests_;
  std::vector<int64_t> form_;  // by buffer: of those that may be one array
  std::map<Form, int64_t> forms_;
  std::map<std::pair<BufferId, int64_t>, int64_t> piece_forms_;  // by operand and elements
  int64_t next_form_ = 0;
  std::map<BufferId, Sum> sums_;                            // by operand
  std::map<BufferId, std::pair<BufferId, int64_t>> moved_;  // to which, from which column on
};

}  // namespace

bool run_array_buffers(Plan& plan, size_t long_kernel, int64_t least, bool nests) {
  return ArrayBuffers(plan, least, nests).run(long_kernel);
}

}  // namespace rnnc
