/// What tests of planning share: graph text in, the plan's stages as text out, and the same
/// numbers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "passes/options/machine.h"

namespace rnnc::test {

/// The graph's stages when planned with `passes` (passes/options/pass_set.h), without those that
/// run once, with names for buffers and without the indentation that all lines have. Expects plans
/// in f64, f32 and bf16 to compute what the interpreter does. With `after`, a step of the way to the
/// plan (passes/build_plan.cpp), they are as that leaves them.
std::string stages_of(const std::string& graph, std::string_view passes = "all", int64_t batch = 2,
                      const Machine& machine = {}, std::string_view after = "");

/// The lines of a raw string as `stages_of` gives them: from the first on, without what all of them
/// are indented by.
std::string lines(const std::string& text);

}  // namespace rnnc::test
