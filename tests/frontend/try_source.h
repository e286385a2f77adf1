/// What must hold for any bytes given as an .rnn file; shared by the fuzzer and the test that
/// replays its corpus.
#pragma once

#include <string>

namespace rnnc {

/// Parses, checks and lowers everything in `text`. Gives what was wrong with the result, or "".
std::string try_source(std::string text);

}  // namespace rnnc
