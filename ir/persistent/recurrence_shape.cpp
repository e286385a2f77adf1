#include "ir/persistent/recurrence_shape.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "ir/persistent/recurrence_exchange.h"
#include "ir/persistent/recurrence_gathers.h"
#include "ir/persistent/recurrence_partials.h"
#include "ir/persistent/recurrence_sources.h"
#include "ir/plan/kernel_facts.h"
#include "ir/plan/plan_touches.h"
#include "ir/plan/recurrence_kernel.h"
#include "ir/plan/recurrence_sides.h"

namespace rnnc {
namespace {

using Phase = RecurrenceShape::Phase;
using Product = RecurrenceShape::Product;

class ShapeFinder {
 public:
  ShapeFinder(const Plan& plan, std::span<const FusedLaunch> phases, std::span<const size_t> sides)
      : plan_(plan), phases_(phases), sides_(sides) {}

  std::vector<Phase> run() {
    const std::vector<int64_t> segments = phase_segments(plan_, phases_);
    for (size_t p = 0; p < phases_.size(); ++p) {
      const Kernel& kernel = plan_.kernels[phases_[p].kernel];
      Phase& phase = result_.emplace_back();
      phase.length = kernel.length;
      phase.segments = segments[p];
      count_arguments(p);
      count_instructions(phase, kernel);
      add_products(p);
    }
    for (size_t side = 0; side < sides_.size(); ++side) {
      const RecurrenceSide of = side_at(sides_, side, phases_.size());
      for (const auto& [place, carry] : sources_of(plan_, phases_, of).carries) {
        result_[of.begin + carry.phase].carried += carry.values();
      }
    }
    return std::move(result_);
  }

 private:
  bool is_written(std::span<const FusedLaunch> phases, BufferId buffer) const {
    return std::ranges::any_of(phases, [&](const FusedLaunch& phase) {
      return std::ranges::any_of(touches(plan_, phase), [buffer](const Touch& touch) {
        return touch.write && touch.access.buffer == buffer;
      });
    });
  }

  void count_arguments(size_t p) {
    const FusedLaunch& launch = phases_[p];
    const Kernel& kernel = plan_.kernels[launch.kernel];
    Phase& phase = result_[p];
    for (size_t i = 0; i < kernel.arguments.size(); ++i) {
      const Kernel::Argument& argument = kernel.arguments[i];
      if (argument.written || argument.product) continue;
      const BufferId buffer = launch.accesses[i].buffer;
      if (is_gathered(plan_, phases_, p, i)) {
        ++phase.gathered;
      } else if (plan_.buffers[buffer].extent == Extent::Invariant) {
        ++phase.fixed;
      } else if (is_written(phases_, buffer)) {
        // Of what an earlier phase writes, the step before it is another value.
        const bool before = launch.accesses[i].delay > 0 && is_written(phases_.first(p), buffer);
        phase.kept += before ? 2 : 1;
      } else if (argument.vector) {
        ++phase.loaded;
      }
    }
    if (phase.fixed > kMostInvariants) phase.fixed = 0;
  }

  static void count_instructions(Phase& phase, const Kernel& kernel) {
    for (const Instruction& instruction : kernel.body) {
      if (instruction.kind == Instruction::Kind::Reduce) ++phase.reductions;
      if (instruction.kind == Instruction::Kind::Scalar) {
        phase.specials += info(instruction.op).specials;
      }
    }
    phase.partials = std::ssize(partials_of(kernel));
    for (const int level : reduction_levels(kernel)) {
      phase.levels = std::max<int64_t>(phase.levels, level);
    }
  }

  void add_products(size_t p) {
    const FusedLaunch& launch = phases_[p];
    const size_t side = side_of(sides_, p);
    const auto [begin, end] = side_at(sides_, side, phases_.size());
    const std::vector<size_t> common = common_sums(launch);
    for (size_t i = 0; i < launch.products.size(); ++i) {
      const FusedLaunch::Product& product = launch.products[i];
      const Access& left = product.left;
      const std::tuple vectors(left.buffer, left.column, product.k, product.blocks);
      Product& of = result_[p].products.emplace_back();
      of.members = product.members;
      of.k_bytes = product.k * static_cast<int64_t>(size_of(plan_.dtype));
      of.blocks = product.blocks;
      of.exchanged = is_written(phases_, left.buffer);
      const bool is_of_side = is_written(phases_.subspan(begin, end - begin), left.buffer);
      of.early = of.exchanged && (!is_of_side || left.delay > 1);
      of.stays = of.exchanged && stays_in_block(plan_, phases_, sides_, p, product);
      of.added = common[i] != i;
      of.sends = lefts_.insert(vectors).second && of.exchanged;
      of.keeps = of.stays && lefts_of_sides_.emplace(side, vectors).second &&
                 all_stay_in_block(plan_, phases_, sides_, side, product);
    }
  }

  const Plan& plan_;
  std::span<const FusedLaunch> phases_;
  std::span<const size_t> sides_;
  using Vectors = std::tuple<BufferId, int64_t, int64_t, int64_t>;  // buffer, column, k, blocks
  std::set<Vectors> lefts_;
  std::set<std::pair<size_t, Vectors>> lefts_of_sides_;
  std::vector<Phase> result_;
};

}  // namespace

RecurrenceEngine engine_of(const Plan& plan) {
  if (plan.dtype != DType::f32) return RecurrenceEngine::Half;
  return plan.tf32 ? RecurrenceEngine::Tf32 : RecurrenceEngine::Exact;
}

bool is_exact(const Plan& plan, const RecurrenceTile& tile) {
  return engine_of(plan) == RecurrenceEngine::Exact && !tile.split;
}

RecurrenceShape shape_of(const Plan& plan, std::span<const FusedLaunch> phases,
                         std::span<const size_t> sides) {
  return {.engine = engine_of(plan),
          .batch = plan.batch,
          .element_bytes = static_cast<int64_t>(size_of(plan.dtype)),
          .reduces = count_reductions(plan, phases) > 0,
          .slots = cluster_slots(plan, phases),
          .phases = ShapeFinder(plan, phases, sides).run(),
          .sides = {sides.begin(), sides.end()}};
}

std::vector<bool> unlike_sides(const RecurrenceShape& shape) {
  const std::span<const Phase> phases = shape.phases;
  const auto of = [&](size_t side) {
    const auto [begin, end] = side_at(shape.sides, side, phases.size());
    return phases.subspan(begin, end - begin);
  };
  std::vector<bool> result;
  for (size_t i = 0; i < shape.sides.size(); ++i) {
    bool unlike = true;
    for (size_t j = 0; j < i; ++j) unlike = unlike && !std::ranges::equal(of(i), of(j));
    result.insert(result.end(), of(i).size(), unlike);
  }
  return result;
}

}  // namespace rnnc
