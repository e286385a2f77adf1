// 1. Find the buffers that may be moved: temporaries that launches of kernels alone touch, of which
//    one stores the whole.
// 2. Launch by launch, in order, so that what earlier ones have put together later ones load: find
//    the families of its kernel (passes/plan/kernel_families.h) as if buffers of one form were
//    arrays, and make one buffer of what each stores.
// 3. Take the buffers away that nothing touches any more.
#include "passes/plan/array_buffers.h"

#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "ir/plan/plan_accesses.h"
#include "passes/lower/unused_buffers.h"
#include "passes/plan/kernel_families.h"

namespace rnnc {
namespace {

const std::vector<LoopLaunch::Carry> kNoCarries;

/// A launch of a kernel.
struct Run {
  uint32_t kernel = 0;
  std::vector<Access>* accesses = nullptr;
  const std::vector<LoopLaunch::Carry>* carries = &kNoCarries;
};

class ArrayBuffers {
 public:
  ArrayBuffers(Plan& plan, int64_t least)
      : plan_(plan), least_(least), form_(plan.buffers.size(), kNoForm) {}

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
    if (auto* one = std::get_if<ElementwiseLaunch>(&launch)) return Run{one->kernel, &one->accesses};
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
          const bool walks = plan_.buffers[access.buffer].extent == Extent::Invariant &&
                             access.stride != 0;
          if (walks) ++others[access.buffer];
          if (!kernel.arguments[i].written) continue;
          ++stores[access.buffer];
          const int64_t width = plan_.buffers[access.buffer].width;
          whole[access.buffer] = kernel.elements(kernel.arguments[i]) == width;
        }
      }
    }
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
    return forms_.try_emplace(key, std::ssize(forms_)).first->second;
  }

  // ---- Step 2 ----

  bool put_together(const Run& run) {
    for (Access& access : *run.accesses) move(access);
    const Kernel& kernel = plan_.kernels[run.kernel];
    std::vector<int64_t> forms(kernel.arguments.size(), kNoForm);
    bool some = false;
    for (size_t i = 0; i < forms.size(); ++i) {
      const Access& access = (*run.accesses)[i];
      if (!kernel.arguments[i].written || access.buffer == kNoBuffer) continue;
      forms[i] = form_[access.buffer];
      some = some || forms[i] != kNoForm;
    }
    if (!some) return false;
    const KernelFamilies found =
        find_families(kernel, *run.accesses, *run.carries, least_, &forms);
    bool changed = false;
    for (const KernelFamily& family : found.families) {
      const Instruction& first = kernel.body[family.members[0]];
      const bool stores = first.kind == Instruction::Kind::Store;
      if (!stores || forms[first.argument] == kNoForm) continue;
      std::vector<BufferId> parts;
      for (const uint32_t member : family.members) {
        parts.push_back((*run.accesses)[kernel.body[member].argument].buffer);
      }
      join(parts);
      changed = true;
    }
    for (Access& access : *run.accesses) move(access);
    return changed;
  }

  void join(const std::vector<BufferId>& parts) {
    const auto whole = static_cast<BufferId>(plan_.buffers.size());
    Buffer buffer = plan_.buffers[parts[0]];
    const int64_t width = buffer.width;
    buffer.width = width * std::ssize(parts);
    plan_.buffers.push_back(std::move(buffer));
    form_.push_back(kNoForm);
    for (size_t i = 0; i < parts.size(); ++i) {
      moved_[parts[i]] = {whole, static_cast<int64_t>(i) * width};
      form_[parts[i]] = kNoForm;
    }
  }

  void move(Access& access) const {
    const auto found = moved_.find(access.buffer);
    if (found == moved_.end()) return;
    const auto& [whole, column] = found->second;
    access.buffer = whole;
    access.column += column;
    if (access.stride != 0) access.stride = plan_.buffers[whole].width;
  }

  static constexpr int64_t kNoForm = -1;
  using Form = std::tuple<DType, Extent, Placement, int64_t, uint32_t, uint32_t, uint32_t>;

  Plan& plan_;
  const int64_t least_;
  std::vector<int64_t> form_;  // by buffer: of those that may be one array
  std::map<Form, int64_t> forms_;
  std::map<BufferId, std::pair<BufferId, int64_t>> moved_;  // to which, from which column on
};

}  // namespace

bool run_array_buffers(Plan& plan, size_t long_kernel, int64_t least) {
  return ArrayBuffers(plan, least).run(long_kernel);
}

}  // namespace rnnc
