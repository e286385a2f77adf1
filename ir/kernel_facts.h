/// Facts about a kernel of a Plan that decide what may be done with it.
#pragma once

#include "ir/plan.h"

namespace rnnc {

/// Whether any value of a row depends on all its elements; if not, each element stands by itself.
bool has_reductions(const Kernel& kernel);

}  // namespace rnnc
