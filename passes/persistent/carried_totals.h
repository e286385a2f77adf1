/// Totals over the steps of what a recurrence stores, such as the gradients of biases: its threads
/// add up what they make, for each sequence, and the sequences' sums are added up after all steps.
///
///     resident … k3(…, b17)                         resident …, totals in b40 k9(…, b17, b40, b40)
///     total b20 += b17[0:4096]               →
///                                                   last: total b20 = b40
///
/// What is stored for products need not be read again for its sum. One H100, forward and backward in
/// bf16, us a step, before and after (with narrow inputs, passes/lower/layout.h): LSTM 16x1024 4.21
/// and 4.00, 64x1024 9.76 and 9.18, GRU 64x512 3.89 and 3.71.
#pragma once

#include <vector>

#include "ir/plan/buffer_uses.h"
#include "ir/plan/plan.h"

namespace rnnc {

/// Sums of rows, of what the phases store and nothing else.
std::vector<LaunchPlace> totals_to_carry(const Plan& plan, const std::vector<FusedLaunch>& phases);

/// Lets the phases add up what these totals do. Returns the buffers in which they do so, which are
/// new, one for each.
std::vector<BufferId> carry_totals(Plan& plan, std::vector<FusedLaunch>& phases,
                                   const std::vector<LaunchPlace>& totals);

/// The totals become those of `sums`, after all steps. Stages may go and come.
void move_carried_totals(Plan& plan, const std::vector<LaunchPlace>& totals,
                         const std::vector<BufferId>& sums);

}  // namespace rnnc
