// 1. The tile: sizes and sides that make sense, and blocks enough for all elements of each phase.
// 2. Room for arrays, and for what blocks exchange; reductions are of vectors.
//    What is loaded of an earlier step is copied ahead.
// 3. Find what the phases store, in buffers of the program's own; sums are among it.
// 4. What products read of it as `left` lies in a Chunk buffer that no other launch writes, and no
//    element of it is stored twice.
// 5. What kernels load of it are the same elements of the same row, or all of it is stored and can
//    be gathered.
// 6. What a side stores no other stores or loads, and products of earlier ones do not read.
#include <algorithm>
#include <functional>
#include <map>

#include "ir/base/arithmetic.h"
#include "ir/base/launch_limits.h"
#include "ir/persistent/recurrence_exchange.h"
#include "ir/persistent/recurrence_footprint.h"
#include "ir/persistent/recurrence_gathers.h"
#include "ir/persistent/recurrence_inputs.h"
#include "ir/persistent/recurrence_shape.h"
#include "ir/plan/kernel_facts.h"
#include "ir/plan/plan_touches.h"
#include "ir/plan/plan_verify_parts.h"
#include "ir/plan/recurrence_sides.h"

namespace rnnc {
namespace {

class RecurrenceVerifier {
 public:
  RecurrenceVerifier(const Plan& plan, const RecurrenceLaunch& launch)
      : plan_(plan), launch_(launch) {}

  Status run() {
    if (Status status = check_tile(); !status) return status;
    if (Status status = verify_arrays(plan_, launch_); !status) return status;
    if (Status status = check_exchange(); !status) return status;
    if (Status status = check_stream(); !status) return status;
    if (Status status = check_earlier_steps(); !status) return status;
    for (size_t i = 0; i < launch_.phases.size(); ++i) find_stores(i);
    if (Status status = check_sums(); !status) return status;
    for (size_t i = 0; i < launch_.phases.size(); ++i) {
      for (const FusedLaunch::Product& product : launch_.phases[i].products) {
        if (Status status = check_product(product); !status) return status;
      }
      if (Status status = check_loads(i); !status) return status;
      if (Status status = check_side(i); !status) return status;
    }
    return {};
  }

 private:
  struct Store {
    Access access;
    int64_t count = 0;
    size_t phase = 0;
    size_t side = 0;
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
        tile.weight_registers < 0 || tile.streamed_words < 0) {
      return fail("a tile of nothing");
    }
    if (tile.k_warps < 1 || tile.warps % tile.k_warps != 0) {
      return fail("{} of {} warps share k", tile.k_warps, tile.warps);
    }
    if (tile.k_warps < tile.warps && std::ranges::any_of(launch_.phases, have_unequal_sums)) {
      return fail("warps share gates of unequal products");
    }
    if (tile.k_blocks < 1 || tile.k_blocks > kMostBlocksAlongK ||
        (tile.k_blocks & (tile.k_blocks - 1)) != 0) {
      return fail("{} blocks share k", tile.k_blocks);
    }
    if (tile.k_blocks > 1 && (tile.clusters || tile.own_sums)) {
      return fail("blocks that share k keep sums to themselves, or are a group");
    }
    if (tile.blocks % tile.k_blocks != 0) {
      return fail("{} of {} blocks share k", tile.k_blocks, tile.blocks);
    }
    if (tile.own_sums && !can_own_sums()) return fail("warps cannot keep their sums to themselves");
    if (tile.input_steps < 0 || tile.input_steps == 1 ||
        (tile.input_steps & (tile.input_steps - 1)) != 0) {
      return fail("inputs of {} steps in shared memory", tile.input_steps);
    }
    if (tile.split && engine_of(plan_) != RecurrenceEngine::Exact) {
      return fail("only f32 products are split");
    }
    if (tile.sides.empty() || tile.sides.front() != 0 ||
        tile.sides.back() >= launch_.phases.size() ||
        std::ranges::adjacent_find(tile.sides, std::greater_equal()) != tile.sides.end()) {
      return fail("a side of no phases");
    }
    if (tile.clusters &&
        (tile.blocks < 2 || tile.blocks > kMostClusterBlocks || tile.sides.size() > 1)) {
      return fail("clusters of {} blocks in {} sides", tile.blocks, tile.sides.size());
    }
    if (tile.clusters && !can_be_clusters(plan_, launch_.phases)) {
      return fail("blocks cannot exchange through each other's shared memory");
    }
    const std::vector<int64_t> segments = phase_segments(plan_, launch_.phases);
    std::map<int64_t, int64_t> units_of_length;
    for (size_t i = 0; i < launch_.phases.size(); ++i) {
      const int64_t length = kernel_of(launch_.phases[i]).length;
      const int64_t units = tile.units[i];
      if (units_of_length.emplace(length, units).first->second != units) {
        return fail("phases of {} have different units", length);
      }
      const int64_t blocks =
          units < 1 ? 0 : footprint::blocks_of_row(length, segments[i], units, tile.k_blocks);
      if (units < 1 || tile.blocks < blocks) {
        return fail("{} blocks of {} units do not make {} elements", tile.blocks, units, length);
      }
      if (count_reductions(plan_, {&launch_.phases[i], 1}) > 0 &&
          blocks != footprint::blocks_with_elements(length, segments[i], units)) {
        return fail("{} blocks reduce {} elements, and some have none", blocks, length);
      }
      if (tile.clusters && (units % 2 != 0 || tile.blocks != blocks)) {
        return fail("clusters of {} blocks with {} of {} elements", tile.blocks, units, length);
      }
    }
    return {};
  }

  bool can_own_sums() const {
    const RecurrenceTile& tile = launch_.tile;
    return !is_exact(plan_, tile) && tile.k_warps == 1 &&
           count_reductions(plan_, launch_.phases) == 0 &&
           gathers_of(plan_, launch_.phases, tile.sides).empty() &&
           std::ranges::all_of(tile.units,
                               [&](int64_t units) { return units == kUnitsOfWarp * tile.warps; });
  }

  // ---- The exchange ----

  Status check_exchange() const {
    const int64_t width = exchange_width(plan_, launch_);
    if (width == 0) {
      if (launch_.exchange == kNoBuffer) return {};
      return fail("an exchange of nothing");
    }
    if (launch_.exchange >= plan_.buffers.size()) return fail("no place for what blocks exchange");
    const Buffer& exchange = plan_.buffers[launch_.exchange];
    if (exchange.extent != Extent::Chunk || exchange.history != 0 || exchange.dtype != DType::f32 ||
        exchange.placement == Placement::Caller || exchange.width != width) {
      return fail("{} cannot hold the {} words of a row that blocks exchange", exchange.name,
                  width);
    }
    for (const FusedLaunch& phase : launch_.phases) {
      const Kernel& kernel = kernel_of(phase);
      for (const Instruction& instruction : kernel.body) {
        const bool reduces = instruction.kind == Instruction::Kind::Reduce;
        if (reduces && !kernel.body[instruction.operands[0]].vector) {
          return fail("{} reduces one value per row", kernel.name);
        }
      }
      if (is_touched(phase, launch_.exchange)) {
        return fail("{} is for what blocks exchange alone", exchange.name);
      }
    }
    return {};
  }

  bool is_touched(const FusedLaunch& phase, BufferId id) const {
    return std::ranges::any_of(touches(plan_, phase),
                               [id](const Touch& touch) { return touch.access.buffer == id; });
  }

  Status check_stream() const {
    const int64_t width = stream_width(launch_.tile);
    if (width == 0) {
      if (launch_.stream == kNoBuffer) return {};
      return fail("a stream of no weights");
    }
    if (launch_.stream >= plan_.buffers.size()) return fail("no place for weights off the chip");
    const Buffer& stream = plan_.buffers[launch_.stream];
    if (stream.extent != Extent::Invariant || stream.dtype != DType::f32 ||
        stream.placement == Placement::Caller || stream.width != width) {
      return fail("{} cannot hold {} words of weights", stream.name, width);
    }
    for (const FusedLaunch& phase : launch_.phases) {
      if (is_touched(phase, launch_.stream)) {
        return fail("{} is for weights off the chip alone", stream.name);
      }
    }
    return {};
  }

  Status check_sums() const {
    for (const BufferId id : launch_.sums) {
      if (id >= plan_.buffers.size()) return fail("no place for sums over the steps");
      const Buffer& sums = plan_.buffers[id];
      if (sums.extent != Extent::Batch || sums.dtype != DType::f32 ||
          sums.placement == Placement::Caller) {
        return fail("{} cannot hold sums over the steps", sums.name);
      }
      if (!stores_.contains(id)) return fail("nothing is added to {}", sums.name);
    }
    return {};
  }

  // ---- Values ----

  void find_stores(size_t index) {
    const FusedLaunch& phase = launch_.phases[index];
    const Kernel& kernel = kernel_of(phase);
    for (size_t i = 0; i < kernel.arguments.size(); ++i) {
      const Kernel::Argument& argument = kernel.arguments[i];
      if (!argument.written) continue;
      const int64_t count = argument.vector ? kernel.length : 1;
      stores_[phase.accesses[i].buffer].push_back(
          {phase.accesses[i], count, index, side_of(launch_.tile.sides, index)});
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
    if (plan_.buffers[left.buffer].dtype != plan_.dtype) {
      return fail("products read {}, which they would have to round for each other", name_of(left));
    }
    if (plan_.buffers[left.buffer].extent != Extent::Chunk) {
      return fail("products read {}, which has no place for each step", name_of(left));
    }
    if (is_written_elsewhere(left, product.k * product.blocks)) {
      return fail("products read {}, which another launch writes", name_of(left));
    }
    return check_stored_once(left, product.k * product.blocks, std::move(stores), "products read");
  }

  /// Every element from the access on.
  Status check_stored_once(const Access& access, int64_t count, std::vector<Store> stores,
                           std::string_view readers) const {
    const auto column = [](const Store& store) { return store.access.column; };
    std::ranges::sort(stores, {}, column);
    int64_t end = access.column;
    for (const Store& store : stores) {
      if (column(store) < end && &store != stores.data()) {
        return fail("{} is stored twice where {} it", name_of(access), readers);
      }
      if (column(store) > end) break;
      end = column(store) + store.count;
    }
    if (end < access.column + count) {
      return fail("{} more of {} than is stored", readers, name_of(access));
    }
    return {};
  }

  /// Of the elements from the access on.
  bool is_written_elsewhere(const Access& access, int64_t count) const {
    const auto writes = [&](const Launch& other) {
      if (std::get_if<RecurrenceLaunch>(&other) == &launch_) return false;
      return std::ranges::any_of(touches(plan_, other), [&](const Touch& touch) {
        return touch.write && touch.access.buffer == access.buffer &&
               touch.access.column < access.column + count &&
               access.column < touch.access.column + touch.count;
      });
    };
    return std::ranges::any_of(plan_.stages, [&](const Stage& stage) {
      return std::ranges::any_of(stage.launches, writes);
    });
  }

  Status check_loads(size_t index) const {
    const FusedLaunch& phase = launch_.phases[index];
    const Kernel& kernel = kernel_of(phase);
    for (size_t i = 0; i < kernel.arguments.size(); ++i) {
      if (!is_gathered(plan_, launch_.phases, index, i)) continue;
      const Access& access = phase.accesses[i];
      const int64_t count = kernel.arguments[i].vector ? kernel.length : 1;
      const std::vector<Store> stores = stores_to(access, count);
      if (Status status = check_stored_once(access, count, stores, "kernels gather"); !status) {
        return status;
      }
      const bool is_earlier =
          std::ranges::all_of(stores, [index](const Store& store) { return store.phase < index; });
      const bool has_steps = plan_.buffers[access.buffer].extent == Extent::Chunk;
      if (access.delay == 0 ? !is_earlier : !has_steps) {
        return fail("kernels gather elements of {} before they are stored", name_of(access));
      }
    }
    return {};
  }

  /// What is of the step before is copied ahead, by a side that is alone.
  Status check_earlier_steps() const {
    const RecurrenceTile& tile = launch_.tile;
    if (std::ranges::all_of(launch_.phases, &std::vector<uint32_t>::empty, &FusedLaunch::earlier)) {
      return {};
    }
    const bool is_copied = tile.sides.size() == 1 && tile.input_steps > 0 &&
                           copies_earlier(launch_, inputs_of(plan_, launch_.phases, tile, 0));
    return is_copied ? Status() : fail("kernels load of an earlier step what is not copied ahead");
  }

  // ---- Sides ----

  Status check_side(size_t index) const {
    const FusedLaunch& phase = launch_.phases[index];
    const size_t side = side_of(launch_.tile.sides, index);
    const auto is_of_other = [side](const Store& store) { return store.side != side; };
    const Kernel& kernel = kernel_of(phase);
    for (size_t i = 0; i < kernel.arguments.size(); ++i) {
      const Kernel::Argument& argument = kernel.arguments[i];
      if (argument.product) continue;
      const Access& access = phase.accesses[i];
      const int64_t count = argument.vector ? kernel.length : 1;
      if (std::ranges::any_of(stores_to(access, count), is_of_other)) {
        return fail("side {} {} what another stores of {}", side,
                    argument.written ? "stores" : "loads", name_of(access));
      }
    }
    for (const FusedLaunch::Product& product : phase.products) {
      const auto is_of_later = [side](const Store& store) { return store.side > side; };
      if (std::ranges::any_of(stores_to(product.left, product.k * product.blocks), is_of_later)) {
        return fail("side {} waits for a later one's {}", side, name_of(product.left));
      }
    }
    return {};
  }

  const Plan& plan_;
  const RecurrenceLaunch& launch_;
  std::map<BufferId, std::vector<Store>> stores_;
};

}  // namespace

Status verify_arrays(const Plan& plan, const RecurrenceLaunch& launch) {
  const int64_t count = count_arrays(plan, launch.phases, launch.tile.sides.size());
  if (count <= kMostArrays) return {};
  return fail("its kernel takes {} arrays, and may take {}", count, kMostArrays);
}

Status verify_recurrence(const Plan& plan, const RecurrenceLaunch& launch) {
  return RecurrenceVerifier(plan, launch).run();
}

}  // namespace rnnc
