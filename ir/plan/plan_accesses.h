/// Visiting the places in memory of a launch, to change them. (Who reasons about what is read and
/// written asks ir/plan/plan_touches.h.)
#pragma once

#include <algorithm>

#include "ir/plan/plan.h"

namespace rnnc {

/// Calls `visit(Access&)` for each that has a buffer.
template <typename Visit>
void for_each_access(Launch& launch, const Visit& visit) {
  const auto visit_one = [&](auto& l) {
    if constexpr (requires { l.accesses; }) {
      for (Access& access : l.accesses) {
        if (access.buffer != kNoBuffer) visit(access);
      }
    }
    if constexpr (requires { l.products; }) {
      for (FusedLaunch::Product& product : l.products) {
        visit(product.left);
        visit(product.weight);
      }
    }
    if constexpr (requires { l.table; }) visit(l.table);
    if constexpr (requires { l.index; }) visit(l.index);
    if constexpr (requires { l.value; }) visit(l.value);
    if constexpr (requires { l.left; }) visit(l.left);
    if constexpr (requires { l.weight.buffer; }) visit(l.weight);
    if constexpr (requires { l.right; }) {
      if (l.right.buffer != kNoBuffer) visit(l.right);
    }
    if constexpr (requires { l.out; }) visit(l.out);
    if constexpr (requires { l.source; }) visit(l.source);
    if constexpr (requires { l.target; }) visit(l.target);
  };
  const auto visit_launch = [&](auto& l) {
    visit_one(l);
    if constexpr (requires { l.phases; }) std::ranges::for_each(l.phases, visit_one);
  };
  std::visit(visit_launch, launch);
}

/// Likewise, of all launches of a plan, and of what stages say of others' work whole rows.
template <typename Visit>
void for_each_access(Plan& plan, const Visit& visit) {
  const auto visit_row = [&visit](BufferId& id) {
    Access access{.buffer = id};
    visit(access);
    id = access.buffer;
  };
  for (Stage& stage : plan.stages) {
    for (Launch& launch : stage.launches) for_each_access(launch, visit);
    std::ranges::for_each(stage.products, visit_row);
    std::ranges::for_each(stage.stack.ahead, visit_row);
  }
  for (StatePlan& state : plan.states) {
    for (const auto launch : kStateLaunches) {
      std::ranges::for_each((state.*launch).accesses, visit);
    }
  }
}

}  // namespace rnnc
