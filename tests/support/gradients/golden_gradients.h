/// Gradients of the shipped cells against those that PyTorch's autograd computed in float64
/// (tests/goldens/gradients), for any device.
#pragma once

#include <string>

#include "passes/gradient/residuals.h"
#include "runtime/program/program.h"
#include "tests/support/cells/golden_cases.h"

namespace rnnc::test {

/// w of sum(w * value) for an output or final state ("final.c"), as make_goldens.py draws it.
std::vector<double> golden_weights(const std::string& name, int64_t count);

/// Whether there are goldens of the cell's gradients: of those that are ONNX's there are none.
bool has_golden_gradients(const std::string& cell);

/// All sizes of a cell through a Program. The error is that of golden_cases.h.
Result<GoldenReport> run_golden_gradients(const std::string& cell, const CompileOptions& options,
                                          ResidualChoice residuals = ResidualChoice::Auto);

}  // namespace rnnc::test
