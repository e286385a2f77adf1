/// Makes loops of kernels' instructions again of what a loop over arrays of states, params or
/// inputs was unrolled to, so that code is as long as its body.
///
///     a0: in f32 vector                    a0: in f32 vector times 64
///     a1: in f32 vector                    a1: in f32 scalar times 64
///     …                                    loop 64:
///     %0 = load a0                           %1 = carried %0, %4
///     …                                      %2 = load a0
///     %128 = mul %0, %64            →        %3 = load a1
///     %129 = add %300, %128                  %4 = mul %2, %3
///     %130 = mul %1, %65                     %5 = add %1, %4
///     …                                    end
///                                          %6 = last %1
#pragma once

#include <string>

#include "ir/plan/plan.h"
#include "passes/options/machine.h"

namespace rnnc {

/// Of kernels that only elementwise launches and loops of stages run, on a CPU fused ones too.
/// `plan` has no offsets yet. True if it has changed.
bool run_reroll(Plan& plan, const Machine& machine);

/// For people: why the launch's kernel, if it is of many instructions, has no loops. Else nothing.
std::string why_written_out(const Plan& plan, const Launch& launch, Machine::Kind machine);

}  // namespace rnnc
