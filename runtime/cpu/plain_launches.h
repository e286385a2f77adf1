/// Launches that need no preparation and no code of their own: they copy rows, or fill them.
#pragma once

#include "ir/plan/plan.h"
#include "ir/plan/waves.h"
#include "runtime/backend/backend.h"
#include "runtime/cpu/addresses.h"
#include "runtime/cpu/thread_pool.h"

namespace rnnc::cpu {

/// The call that is running, and where its buffers are.
struct PlainCall {
  const Plan& plan;
  const Addresses& addresses;
  const Call& call;
};

/// `rows` rows from (position.t, 0) on. The launch is no product, kernel or total.
void run_plain(const PlainCall& call, const Launch& launch, int64_t rows, Position position,
               const Crew& crew);

}  // namespace rnnc::cpu
