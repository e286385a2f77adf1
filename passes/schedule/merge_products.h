/// Does products with one left operand as one product.
///
///     product p = R h                            product p|q = (R|S) h
///     product q = S h                     →      kernel { … }
///     kernel { … }
///
/// Block-diagonal ones merge if they have the same blocks.
#pragma once

#include "passes/schedule/schedule.h"

namespace rnnc {

/// Products of weights stay apart: in Once and Last stages each result is an array of its own.
void merge_products(ScheduledStage& stage);

}  // namespace rnnc
