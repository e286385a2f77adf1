/// What tests of planning share: graph text in, the plan's stages as text out, and the same
/// numbers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace rnnc::test {

/// The graph's stages when planned with `passes` (passes/options/pass_set.h), without those that
/// run once, with names for buffers and without the indentation that all lines have. Expects plans
/// in f64, f32 and bf16 to compute what the interpreter does.
std::string stages_of(const std::string& graph, std::string_view passes = "all", int64_t batch = 2);

/// The lines of a raw string as `stages_of` gives them: from the first on, without what all of them
/// are indented by.
std::string lines(const std::string& text);

/// Expects these stages of a graph of these nodes and results. It has declarations, and %0 to %10:
/// input x: [4]; params W, V, R, S: [4, 4], D, E: [2, 2, 2], F: [2, 3, 2], a: [4]; what states h
/// and c: [4] were a step ago, which begin as %11, zero.
void expect_stages(const std::string& nodes, std::string_view passes, const std::string& expected,
                   int64_t batch = 2);

/// For `expect_stages`: the next h is tanh(W x + R h), the next c is x, the output what c was.
inline constexpr char kElman[] = R"(
    %12 = matmul %1, %0 : [4]
    %13 = matmul %3, %9 : [4]
    %14 = add %12, %13 : [4]
    %15 = tanh %14 : [4]
    next h = %15
    next c = %0
    output y = %10
)";

}  // namespace rnnc::test
