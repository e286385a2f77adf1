/// The character model of examples/char_model on its excerpt.
#pragma once

#include "runtime/program/program.h"

namespace rnnc::test {

/// Bits per character that rnnc gets.
Result<double> char_model_bits(const CompileOptions& options);

/// What PyTorch got with the same weights in float64.
double char_model_torch_bits();

}  // namespace rnnc::test
