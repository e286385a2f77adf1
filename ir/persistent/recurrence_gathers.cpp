#include "ir/persistent/recurrence_gathers.h"

#include <algorithm>

#include "ir/plan/recurrence_sides.h"

namespace rnnc {
namespace {

/// Elements of a row that an argument is.
int64_t count_of(const Kernel& kernel, const Kernel::Argument& argument) {
  return argument.vector ? kernel.length : 1;
}

}  // namespace

bool is_gathered(const Plan& plan, std::span<const FusedLaunch> phases, size_t phase,
                 size_t argument) {
  const Kernel& kernel = plan.kernels[phases[phase].kernel];
  const Kernel::Argument& loaded = kernel.arguments[argument];
  if (loaded.written || loaded.product) return false;
  const Access& access = phases[phase].accesses[argument];
  const RecurrenceGather all = {
      .buffer = access.buffer, .column = access.column, .width = count_of(kernel, loaded)};
  for (const FusedLaunch& other : phases) {
    const Kernel& of = plan.kernels[other.kernel];
    for (size_t i = 0; i < of.arguments.size(); ++i) {
      const Kernel::Argument& stored = of.arguments[i];
      if (!stored.written || !all.holds(other.accesses[i], count_of(of, stored))) continue;
      // Of one value per row, a thread keeps the last two.
      const bool own = stored.vector == loaded.vector &&
                       other.accesses[i].column == access.column && of.length == kernel.length &&
                       (loaded.vector || access.delay <= 1);
      if (!own) return true;
    }
  }
  return false;
}

std::vector<RecurrenceGather> gathers_of(const Plan& plan, std::span<const FusedLaunch> phases,
                                         std::span<const size_t> sides) {
  std::vector<RecurrenceGather> gathers;
  for (size_t p = 0; p < phases.size(); ++p) {
    const Kernel& kernel = plan.kernels[phases[p].kernel];
    for (size_t i = 0; i < kernel.arguments.size(); ++i) {
      if (!is_gathered(plan, phases, p, i)) continue;
      const Access& access = phases[p].accesses[i];
      const int64_t end = access.column + count_of(kernel, kernel.arguments[i]);
      const auto known = std::ranges::find(gathers, access.buffer, &RecurrenceGather::buffer);
      if (known == gathers.end()) {
        gathers.push_back({.buffer = access.buffer,
                           .column = access.column,
                           .width = end - access.column,
                           .side = side_of(sides, p)});
        continue;
      }
      const int64_t column = std::min(known->column, access.column);
      known->width = std::max(known->column + known->width, end) - column;
      known->column = column;
    }
  }
  return gathers;
}

}  // namespace rnnc
