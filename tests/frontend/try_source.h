/// What must hold for any bytes given as an .rnn file; shared by the fuzzer and the test that
/// replays its corpus.
#pragma once

#include <string>

namespace rnnc {

/// Parses, checks and lowers everything in `text`. Gives what was wrong with the result, or "".
std::string try_source(std::string text);

/// Formats `text`, if it parses: its tree, tokens and comments stay, and formatting it again changes
/// nothing. Gives what was wrong, or "".
std::string try_format(const std::string& text);

}  // namespace rnnc
