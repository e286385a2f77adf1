/// Checks of options' values; an error says what was expected.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

namespace rnnc::tools {

/// Help shows the choices as {a,b}, where completion finds them.
CLI::Validator one_of(std::vector<std::string> choices);
/// Decimal digits only: CLI11's own conversions take 0x10, and -1 as 2^64 - 1.
CLI::Validator whole_number(int64_t least, int64_t most);
CLI::Validator number(double least, double most);
/// Of random arrays.
CLI::Validator seed_value();
/// cpu, cuda or cuda:1.
CLI::Validator device_name();

}  // namespace rnnc::tools
