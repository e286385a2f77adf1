/// Words of a plan's text form.
#pragma once

#include <string_view>

#include "ir/plan/plan.h"

namespace rnnc {

std::string_view spelling(Domain domain);               // "once", "sequence", "step"
std::string_view spelling(RecurrenceClass recurrence);  // "none", "linear", …

}  // namespace rnnc
