/// The text of prelude.rnn, embedded by the build.
#pragma once

#include <string_view>

namespace rnnc {

extern const std::string_view kPrelude;

}  // namespace rnnc
