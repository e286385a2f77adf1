/// How a recurrence's blocks share its work, in words.
#pragma once

#include "ir/plan/plan_scanner.h"

namespace rnnc {

/// "4 sides of 2 x 16 blocks of 8 warps, 8 rows at once"
std::string shape_text(const RecurrenceTile& tile);
/// ", weights in 128 registers, in clusters": all else but `units` and what the model holds.
std::string properties_text(const RecurrenceTile& tile);

/// How many sides there are.
int64_t parse_shape(PlanScanner& in, RecurrenceTile& tile);
/// One of those of `properties_text`, which stand behind a comma each, if one comes next.
bool parse_property(PlanScanner& in, RecurrenceTile& tile);

}  // namespace rnnc
