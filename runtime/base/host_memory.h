/// How much memory this machine has. Linux promises more than there is and ends whoever touches too
/// much of it, so that what clearly cannot fit has to be refused beforehand.
#pragma once

#include <cstdint>
#include <string_view>

#include "ir/base/status.h"

namespace rnnc {

/// Bytes that this process may use at most: the machine's, or its control group's if that is less.
int64_t host_memory();

/// An error if `bytes`, which may be beyond what an integer holds, are more than that. `what` is
/// "the params of `LSTM` take" and the like.
Status check_host_memory(std::string_view what, double bytes);

}  // namespace rnnc
