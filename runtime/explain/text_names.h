/// A plan in the words of the text that its graph was made of.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "ir/graph/graph.h"
#include "ir/plan/plan.h"
#include "runtime/explain/graph_picture.h"

namespace rnnc::explain {

/// What a half of a derivative saves or reads again, by the array's name: "c[t-1]" for "saved@20".
using SavedNames = std::map<std::string, std::string, std::less<>>;

/// Opens the name of what a left operand gives in products with several weights.
inline constexpr std::string_view kProducts = "products of ";

/// Buffers that hold the value of a line get the name that it has there: "i" in place of
/// "sigmoid.17", and of several parts "i|f". A part of a line keeps its number: "i.16". What is saved
/// is "saved c[t-1]". `graph` is the one that the plan is made of.
void name_as_text(const Graph& graph, const SavedNames& saved, Plan& plan);
/// The same of what a picture shows of the graph.
void name_as_text(const SavedNames& saved, GraphPicture& picture);

}  // namespace rnnc::explain
