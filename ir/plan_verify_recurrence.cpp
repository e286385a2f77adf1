// 1. The tile: sizes that make sense, and blocks enough for all elements of each phase.
// 2. Room for the parts of reductions, which are of vectors.
// 3. Find what the phases store, in buffers of the program's own.
// 4. What products read of it as `left` lies in a Chunk buffer that no other launch writes, and no
//    element of it is stored twice.
// 5. What kernels load of it are the same elements of the same row.
#include <algorithm>
#include <map>
#include <numeric>

#include "ir/kernel_facts.h"
#include "ir/plan_touches.h"
#include "ir/plan_verify_parts.h"

namespace rnnc {
namespace {

class RecurrenceVerifier {
 public:
  RecurrenceVerifier(const Plan& plan, const RecurrenceLaunch& launch)
      : plan_(plan), launch_(launch) {}

  Status run() {
    if (Status status = check_tile(); !status) return status;
    if (Status status = check_partials(); !status) return status;
    for (const FusedLaunch& phase : launch_.phases) find_stores(phase);
    for (const FusedLaunch& phase : launch_.phases) {
      for (const FusedLaunch::Product& product : phase.products) {
        if (Status status = check_product(product); !status) return status;
      }
      if (Status status = check_loads(phase); !status) return status;
    }
    return {};
  }

 private:
  struct Store {
    Access access;
    int64_t count = 0;
    bool vector = false;
    int64_t length = 0;  // of its phase
  };

  const Kernel& kernel_of(const FusedLaunch& phase) const { return plan_.kernels[phase.kernel]; }
  const std::string& name_of(const Access& access) const {
    return plan_.buffers[access.buffer].name;
  }

  // ---- The tile ----

  Status check_tile() const {
    const RecurrenceTile& tile = launch_.tile;
    if (launch_.phases.empty()) return fail("a recurrence of no phases");
    if (tile.units.size() != launch_.phases.size()) {
      return fail("{} phases, units of {}", launch_.phases.size(), tile.units.size());
    }
    if (tile.groups < 1 || tile.groups > plan_.batch || tile.warps < 1 || tile.rows < 1 ||
        tile.weight_registers < 0) {
      return fail("a tile of nothing");
    }
    std::map<int64_t, int64_t> units_of_length;
    for (size_t i = 0; i < launch_.phases.size(); ++i) {
      const int64_t length = kernel_of(launch_.phases[i]).length;
      const int64_t units = tile.units[i];
      if (units_of_length.emplace(length, units).first->second != units) {
        return fail("phases of {} have different units", length);
      }
      if (units < 1 || tile.blocks < blocks_for(launch_.phases[i], units)) {
        return fail("{} blocks of {} units do not make {} elements", tile.blocks, units, length);
      }
    }
    return {};
  }

  /// No block of the launch has elements of two blocks of a weight.
  int64_t blocks_for(const FusedLaunch& phase, int64_t units) const {
    int64_t segments = 1;
    for (const FusedLaunch::Product& product : phase.products) {
      segments = std::lcm(segments, product.blocks);
    }
    const int64_t segment = kernel_of(phase).length / segments;
    return segments * ((segment + units - 1) / units);
  }

  // ---- Reductions ----

  Status check_partials() const {
    const int64_t reductions = count_reductions(plan_, launch_);
    if (reductions == 0) {
      if (launch_.partials == kNoBuffer) return {};
      return fail("parts of reductions, and no reduction");
    }
    if (launch_.partials >= plan_.buffers.size()) return fail("no place for parts of reductions");
    const Buffer& partials = plan_.buffers[launch_.partials];
    if (partials.extent != Extent::Chunk || partials.history != 0 || partials.dtype != DType::f32 ||
        partials.placement == Placement::Caller ||
        partials.width != 2 * launch_.tile.blocks * reductions) {
      return fail("{} cannot hold the parts of {} reductions", partials.name, reductions);
    }
    for (const FusedLaunch& phase : launch_.phases) {
      const Kernel& kernel = kernel_of(phase);
      for (const Instruction& instruction : kernel.body) {
        const bool reduces = instruction.kind == Instruction::Kind::Reduce;
        if (reduces && !kernel.body[instruction.operands[0]].vector) {
          return fail("{} reduces one value per row", kernel.name);
        }
      }
      for (const Touch& touch : touches(plan_, phase)) {
        if (touch.access.buffer == launch_.partials) {
          return fail("{} is for parts of reductions alone", partials.name);
        }
      }
    }
    return {};
  }

  // ---- Values ----

  void find_stores(const FusedLaunch& phase) {
    const Kernel& kernel = kernel_of(phase);
    for (size_t i = 0; i < kernel.arguments.size(); ++i) {
      const Kernel::Argument& argument = kernel.arguments[i];
      if (!argument.written) continue;
      const int64_t count = argument.vector ? kernel.length : 1;
      stores_[phase.accesses[i].buffer].push_back(
          {phase.accesses[i], count, argument.vector, kernel.length});
    }
  }

  /// Of the elements from the access on.
  std::vector<Store> stores_to(const Access& access, int64_t count) const {
    std::vector<Store> result;
    const auto found = stores_.find(access.buffer);
    if (found == stores_.end()) return result;
    std::ranges::copy_if(found->second, std::back_inserter(result), [&](const Store& store) {
      return store.access.column < access.column + count &&
             access.column < store.access.column + store.count;
    });
    return result;
  }

  Status check_product(const FusedLaunch::Product& product) const {
    const Access& left = product.left;
    std::vector<Store> stores = stores_to(left, product.k * product.blocks);
    if (stores.empty()) return {};
    if (plan_.buffers[left.buffer].extent != Extent::Chunk) {
      return fail("products read {}, which has no place for each step", name_of(left));
    }
    if (is_written_elsewhere(left.buffer)) {
      return fail("products read {}, which another launch writes", name_of(left));
    }
    const auto column = [](const Store& store) { return store.access.column; };
    std::ranges::sort(stores, {}, column);
    for (size_t i = 1; i < stores.size(); ++i) {
      if (column(stores[i - 1]) + stores[i - 1].count > column(stores[i])) {
        return fail("{} is stored twice where products read it", name_of(left));
      }
    }
    return {};
  }

  bool is_written_elsewhere(BufferId id) const {
    const auto writes = [&](const Launch& other) {
      if (std::get_if<RecurrenceLaunch>(&other) == &launch_) return false;
      return std::ranges::any_of(touches(plan_, other), [id](const Touch& touch) {
        return touch.write && touch.access.buffer == id;
      });
    };
    return std::ranges::any_of(plan_.stages, [&](const Stage& stage) {
      return std::ranges::any_of(stage.launches, writes);
    });
  }

  Status check_loads(const FusedLaunch& phase) const {
    const Kernel& kernel = kernel_of(phase);
    for (size_t i = 0; i < kernel.arguments.size(); ++i) {
      const Kernel::Argument& argument = kernel.arguments[i];
      if (argument.written || argument.product) continue;
      const Access& access = phase.accesses[i];
      for (const Store& store : stores_to(access, argument.vector ? kernel.length : 1)) {
        if (store.vector != argument.vector || store.access.column != access.column ||
            store.length != kernel.length) {
          return fail("other elements of {} are loaded than are stored", name_of(access));
        }
        if (!argument.vector && access.delay > 1) {
          return fail("{} is loaded {} steps later", name_of(access), access.delay);
        }
      }
    }
    return {};
  }

  const Plan& plan_;
  const RecurrenceLaunch& launch_;
  std::map<BufferId, std::vector<Store>> stores_;
};

}  // namespace

Status verify_recurrence(const Plan& plan, const RecurrenceLaunch& launch) {
  return RecurrenceVerifier(plan, launch).run();
}

}  // namespace rnnc
