#include "ir/plan/kernel_facts.h"

#include <algorithm>

namespace rnnc {

bool has_reductions(const Kernel& kernel) {
  return std::ranges::any_of(kernel.body, [](const Instruction& instruction) {
    return instruction.kind == Instruction::Kind::Reduce;
  });
}

std::vector<uint32_t> loops_of(const Kernel& kernel) {
  std::vector<uint32_t> result(kernel.body.size(), kNoLoop);
  for (uint32_t loop = 0; loop < kernel.loops.size(); ++loop) {
    const auto [begin, end, count, descending] = kernel.loops[loop];
    std::fill(result.begin() + begin, result.begin() + end, loop);
  }
  return result;
}

std::vector<uint32_t> loops_around(const Kernel& kernel) {
  std::vector<uint32_t> result(kernel.loops.size(), kNoLoop);
  for (uint32_t outer = 0; outer < kernel.loops.size(); ++outer) {
    for (uint32_t inner = outer + 1; inner < kernel.loops.size(); ++inner) {
      if (kernel.loops[inner].begin >= kernel.loops[outer].end) break;
      result[inner] = outer;
    }
  }
  return result;
}

void visit_loop(const Kernel& kernel, uint32_t loop,
                const std::function<void(uint32_t)>& instruction,
                const std::function<void(uint32_t)>& inner) {
  const bool whole = loop == kNoLoop;
  uint32_t next = whole ? 0 : kernel.loops[loop].begin;
  const auto end = whole ? static_cast<uint32_t>(kernel.body.size()) : kernel.loops[loop].end;
  for (uint32_t i = whole ? 0 : loop + 1; i < kernel.loops.size(); ++i) {
    if (kernel.loops[i].begin >= end) break;
    if (kernel.loops[i].begin < next) continue;  // in the inner loop before
    for (; next < kernel.loops[i].begin; ++next) instruction(next);
    inner(i);
    next = kernel.loops[i].end;
  }
  for (; next < end; ++next) instruction(next);
}

std::vector<int64_t> runs_of(const Kernel& kernel) {
  std::vector<int64_t> result(kernel.body.size(), 1);
  for (const Kernel::Loop& loop : kernel.loops) {
    for (uint32_t i = loop.begin; i < loop.end; ++i) result[i] *= loop.count;
  }
  return result;
}

std::vector<int64_t> kept_for_later_loops(const Kernel& kernel) {
  std::vector<int64_t> result(kernel.body.size(), 0);
  const std::vector<uint32_t> loops = loops_of(kernel);
  const std::vector<uint32_t> around = loops_around(kernel);
  const auto parent = [&](uint32_t loop) { return loop == kNoLoop ? kNoLoop : around[loop]; };
  for (size_t i = 0; i < kernel.body.size(); ++i) {
    if (loops[i] == kNoLoop || kernel.body[i].kind == Instruction::Kind::Last) continue;
    for (const uint32_t operand : kernel.body[i].operands) {
      const uint32_t from = loops[operand];
      if (from == kNoLoop || from == loops[i] || from == parent(loops[i])) continue;
      const uint32_t outer = parent(from);
      int64_t count = kernel.loops[from].count;
      if (outer != kNoLoop && outer != parent(loops[i])) count *= kernel.loops[outer].count;
      result[operand] = std::max(result[operand], count);
    }
  }
  return result;
}

std::vector<int> reduction_levels(const Kernel& kernel) {
  std::vector<int> levels;
  for (const Instruction& instruction : kernel.body) {
    int level = 0;
    for (const uint32_t operand : instruction.operands) {
      if (operand >= levels.size()) continue;  // of the iteration before
      const bool reduced = kernel.body[operand].kind == Instruction::Kind::Reduce;
      level = std::max(level, levels[operand] + (reduced ? 1 : 0));
    }
    levels.push_back(level);
  }
  return levels;
}

std::vector<size_t> common_sums(const FusedLaunch& launch) {
  std::vector<size_t> result;
  for (size_t i = 0; i < launch.products.size(); ++i) {
    const FusedLaunch::Product& product = launch.products[i];
    size_t last = i;
    for (size_t j = i + 1; j < launch.products.size(); ++j) {
      const FusedLaunch::Product& other = launch.products[j];
      const bool has_all =
          other.first_argument == product.first_argument && other.members >= product.members;
      if (has_all) last = j;
    }
    result.push_back(last);
  }
  return result;
}

bool have_unequal_sums(const FusedLaunch& launch) {
  const std::vector<size_t> common = common_sums(launch);
  for (size_t i = 0; i < common.size(); ++i) {
    if (launch.products[common[i]].members != launch.products[i].members) return true;
  }
  return false;
}

int64_t count_reductions(const Plan& plan, std::span<const FusedLaunch> phases) {
  int64_t count = 0;
  for (const FusedLaunch& phase : phases) {
    count += std::ranges::count(plan.kernels[phase.kernel].body, Instruction::Kind::Reduce,
                                &Instruction::kind);
  }
  return count;
}

int64_t count_arrays(const Plan& plan, std::span<const FusedLaunch> phases, size_t sides) {
  auto count = static_cast<int64_t>(sides == 1 ? 2 : sides);
  for (const FusedLaunch& phase : phases) {
    const std::vector<Kernel::Argument>& arguments = plan.kernels[phase.kernel].arguments;
    count += std::ranges::count(arguments, false, &Kernel::Argument::product) +
             2 * std::ssize(phase.products);
  }
  return count;
}

}  // namespace rnnc
