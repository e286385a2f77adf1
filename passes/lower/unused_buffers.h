/// What a pass over plans leaves without a use.
#pragma once

#include "ir/plan/plan.h"

namespace rnnc {

/// Temporaries that no launch touches any more; ids of the others change.
void remove_unused_temporaries(Plan& plan);

/// Copies of earlier steps that nothing reads any more, with their buffers, and stages without
/// launches.
void remove_unread_earlier_steps(Plan& plan);

}  // namespace rnnc
