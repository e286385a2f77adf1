/// The Graph as text. `parse_graph(to_string(g))` gives back the same Graph but for its source
/// locations, so passes are tested text in, text out.
///
///     graph Elman(I, H = 64) {
///       input x: [I]
///       param W: [H, I]
///       param R: [H, H]
///       state h: [H]
///       %0 = param W : [H, I]
///       %1 = input x : [I]
///       %2 = matmul %0, %1 : [H]
///       %3 = param R : [H, H]
///       %4 = state h @ 1 : [H]
///       %5 = matmul %3, %4 : [H]
///       %6 = add %2, %5 : [H]
///       %7 = tanh %6 : [H]
///       %8 = const 0 : []
///       init h = %8
///       next h = %7
///       output h = %7
///     }
///
/// An input of integers is `input token: [] int`. A fixed dim is `L is 3`. Attributes of other ops and of states:
///
///       state h@2: [H] reversed delay of h
///       %1 = slice %0 from 0 to H / 2 : [H / 2]
///       %2 = index %0 at 2 : []
///       %3 = vector 1, 2.5 : [2]
///       %4 = range : [H]
///       %5 = eye : [H, H]
///       %6 = valid : []
///       %7 = reset reversed : []
///
/// A Graph whose steps run from the last to the first, with what it leaves after them:
///
///     graph Backward(H = 64) descending {
///       …
///       %8 = total %6, %7 : [H, H]
///       %9 = final h : [H]
///       result R = %8
///       result h = %9
///     }
#pragma once

#include <string>
#include <string_view>

#include "ir/graph/graph.h"

namespace rnnc {

std::string to_string(const Graph& graph);

/// Reads any bytes without crashing; errors are "line 3: expected …". What comes back is
/// well-formed text, not yet a verified Graph. `#` starts a comment.
Result<Graph> parse_graph(std::string_view text);

/// Graphviz: the step as a picture, states and their time edges drawn.
std::string to_dot(const Graph& graph);

/// A node in a picture: "matmul", "W_i", "h[t-1]".
std::string node_label(const Graph& graph, const Node& node);

}  // namespace rnnc
