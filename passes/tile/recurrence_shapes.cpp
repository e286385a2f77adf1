#include "passes/tile/recurrence_shapes.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "ir/persistent/recurrence_exchange.h"
#include "ir/persistent/recurrence_gathers.h"
#include "ir/persistent/recurrence_kernel.h"
#include "ir/plan/kernel_facts.h"
#include "ir/plan/plan_touches.h"
#include "ir/plan/recurrence_sides.h"

namespace rnnc {
namespace {

bool is_written(const Plan& plan, std::span<const FusedLaunch> phases, BufferId buffer) {
  return std::ranges::any_of(phases, [&](const FusedLaunch& phase) {
    return std::ranges::any_of(touches(plan, phase), [buffer](const Touch& touch) {
      return touch.write && touch.access.buffer == buffer;
    });
  });
}

}  // namespace

std::vector<PhaseShape> shapes_of(const Plan& plan, std::span<const FusedLaunch> phases,
                                  std::span<const size_t> sides) {
  std::vector<PhaseShape> shapes;
  const std::vector<int64_t> segments = phase_segments(plan, phases);
  std::set<std::tuple<BufferId, int64_t, int64_t, int64_t>> lefts;
  for (const FusedLaunch& launch : phases) {
    const Kernel& kernel = plan.kernels[launch.kernel];
    PhaseShape& phase = shapes.emplace_back();
    phase.length = kernel.length;
    for (size_t i = 0; i < kernel.arguments.size(); ++i) {
      const Kernel::Argument& argument = kernel.arguments[i];
      if (argument.written || argument.product) continue;
      const BufferId buffer = launch.accesses[i].buffer;
      const bool is_fixed = plan.buffers[buffer].extent == Extent::Invariant;
      if (is_gathered(plan, phases, shapes.size() - 1, i)) {
        ++phase.gathered;
      } else if (is_fixed) {
        ++phase.fixed;
      } else if (is_written(plan, phases, buffer)) {
        // Of what an earlier phase writes, the step before it is another value.
        const bool before = launch.accesses[i].delay > 0 &&
                            is_written(plan, phases.first(shapes.size() - 1), buffer);
        phase.kept += before ? 2 : 1;
      } else {
        ++phase.loaded;
      }
    }
    phase.reductions =
        std::ranges::count(kernel.body, Instruction::Kind::Reduce, &Instruction::kind);
    for (const int level : reduction_levels(kernel)) {
      phase.levels = std::max<int64_t>(phase.levels, level);
    }
    for (const Instruction& instruction : kernel.body) {
      if (instruction.kind == Instruction::Kind::Scalar) {
        phase.specials += info(instruction.op).specials;
      }
    }
    if (phase.fixed > kMostInvariants) phase.fixed = 0;
    phase.segments = segments[shapes.size() - 1];
    const std::vector<size_t> common = common_sums(launch);
    for (const FusedLaunch::Product& product : launch.products) {
      const size_t index = phase.products.size();
      const auto [begin, end] = side_at(sides, side_of(sides, shapes.size() - 1), phases.size());
      const bool exchanged = is_written(plan, phases, product.left.buffer);
      const bool own = is_written(plan, phases.subspan(begin, end - begin), product.left.buffer);
      const Access& left = product.left;
      phase.products.push_back(
          {.members = product.members,
           .k_bytes = product.k * static_cast<int64_t>(size_of(plan.dtype)),
           .blocks = product.blocks,
           .exchanged = exchanged,
           .early = exchanged && !own,
           .stays = exchanged && stays_in_block(plan, phases, sides, shapes.size() - 1, product),
           .first = lefts.emplace(left.buffer, left.column, product.k, product.blocks).second,
           .added = common[index] != index});
    }
  }
  return shapes;
}

std::vector<bool> unlike_sides(std::span<const PhaseShape> phases, std::span<const size_t> sides) {
  const auto of = [&](size_t side) {
    const auto [begin, end] = side_at(sides, side, phases.size());
    return phases.subspan(begin, end - begin);
  };
  std::vector<bool> result;
  for (size_t i = 0; i < sides.size(); ++i) {
    bool unlike = true;
    for (size_t j = 0; j < i; ++j) unlike = unlike && !std::ranges::equal(of(i), of(j));
    result.insert(result.end(), of(i).size(), unlike);
  }
  return result;
}

}  // namespace rnnc
