/// Affine forms for people.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "passes/affine/affine_forms.h"

namespace rnnc {

/// What people call an instruction; empty: nothing, and it is spelled by its operands.
using NameOf = std::function<std::string(uint32_t instruction)>;

/// "h = (1 - z) * h[t-1] + z * n", of each state of the round, ", " between them. `states`: their
/// names. Long formulas are cut, and so is what is of many terms or states.
std::string form_text(const std::vector<Instruction>& instructions, const ScanRound& round,
                      const std::vector<std::string>& states, const NameOf& name);

}  // namespace rnnc
