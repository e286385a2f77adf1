/// Buffers that a pass over plans leaves without a use.
#pragma once

#include "ir/plan/plan.h"

namespace rnnc {

/// Temporaries that no launch touches any more; ids of the others change.
void remove_unused_temporaries(Plan& plan);

}  // namespace rnnc
