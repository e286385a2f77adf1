#include "codegen/cpu/cpu_loops.h"

#include <algorithm>
#include <set>

namespace rnnc {
namespace {

/// Whether each element of a row can go through all steps by itself.
bool has_own_ways(const CpuLoop& loop) {
  if (loop.kernel->length == 1) return true;
  const auto& arguments = loop.kernel->arguments;
  return std::ranges::all_of(arguments,
                             [](const Kernel::Argument& argument) {
                               return argument.vector || !argument.written;
                             }) &&
         std::ranges::all_of(*loop.carries,
                             [&](const LoopCarry& carry) { return arguments[carry.load].vector; });
}

CpuLoop loop_of(const Plan& plan, size_t stage) {
  CpuLoop loop = {.stage = stage, .moves = {}};
  const Stage& one = plan.stages[stage];
  if (one.launches.size() != 1) return loop;
  const auto take = [&](const auto& launch) {
    if constexpr (requires { launch.carries; }) {
      loop.kernel = &plan.kernels[launch.kernel];
      loop.accesses = &launch.accesses;
      loop.carries = &launch.carries;
    }
    if constexpr (requires { launch.rounds; }) {
      loop.rounds = &launch.rounds;
      loop.totals = &launch.totals;
    }
  };
  std::visit(take, one.launches[0]);
  if (loop.kernel == nullptr) return loop;
  for (const Access& access : *loop.accesses) {
    const Extent extent = plan.buffers[access.buffer].extent;
    loop.moves.push_back(extent == Extent::Steps || extent == Extent::Chunk);
  }
  for (const LoopCarry& carry : *loop.carries) {
    loop.moves[carry.load] = loop.moves[carry.store] = false;
  }
  return loop;
}

}  // namespace

std::vector<CpuLoop> cpu_loops(const Plan& plan) {
  std::vector<CpuLoop> loops;
  for (size_t stage = 0; stage < plan.stages.size(); ++stage) {
    CpuLoop loop = loop_of(plan, stage);
    if (loop.kernel != nullptr && has_own_ways(loop)) loops.push_back(std::move(loop));
  }
  return loops;
}

std::vector<bool> plain_kernels(const Plan& plan) {
  std::vector<bool> in_loops(plan.kernels.size(), false);
  std::vector<bool> plain(plan.kernels.size(), false);
  std::set<size_t> stages;
  for (const CpuLoop& loop : cpu_loops(plan)) {
    stages.insert(loop.stage);
    in_loops[static_cast<size_t>(loop.kernel - plan.kernels.data())] = true;
  }
  const auto add = [&](const auto& launch) {
    if constexpr (requires { launch.kernel; }) plain[launch.kernel] = true;
  };
  const auto add_state = [&](const ElementwiseLaunch& launch) {
    if (!launch.accesses.empty()) add(launch);
  };
  for (size_t i = 0; i < plan.stages.size(); ++i) {
    if (stages.contains(i)) continue;
    for (const Launch& launch : plan.stages[i].launches) std::visit(add, launch);
  }
  for (const StatePlan& state : plan.states) {
    for (const auto launch : kStateLaunches) add_state(state.*launch);
  }
  for (size_t i = 0; i < plain.size(); ++i) plain[i] = plain[i] || !in_loops[i];
  return plain;
}

std::string loop_name(size_t stage) {
  return fmt::format("loop_{}", stage);
}

std::string round_map_name(size_t stage, size_t round) {
  return fmt::format("loop_{}_map_{}", stage, round);
}

std::string round_states_name(size_t stage, size_t round) {
  return fmt::format("loop_{}_states_{}", stage, round);
}

}  // namespace rnnc
