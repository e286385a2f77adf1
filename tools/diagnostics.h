/// What is wrong with .rnn files: as text on standard error, as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "frontend/unit.h"

namespace rnnc::tools {

/// Whether standard error is written with colours: on a terminal, unless $NO_COLOR is set, and
/// wherever $CLICOLOR_FORCE is (and not 0).
bool errors_have_colour();

/// On standard error; if so wished, errors alone.
void print_diagnostics(const Unit& unit, bool warnings = true);

/// Adds what is wrong with the unit to an array (docs/diagnostics.md).
void add_diagnostics(const Unit& unit, nlohmann::ordered_json& diagnostics);
/// Adds an error about a whole file, which could not be read.
void add_diagnostic(std::string_view file, std::string_view message,
                    nlohmann::ordered_json& diagnostics);

}  // namespace rnnc::tools
