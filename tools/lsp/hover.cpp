#include <fmt/format.h>

#include <algorithm>

#include "frontend/elaborate/shape_rules.h"
#include "ir/plan/plan_text.h"
#include "passes/graph/delays.h"
#include "passes/graph/dependence.h"
#include "runtime/weights/shipped_maps.h"
#include "tools/lsp/document.h"

namespace rnnc::lsp {
namespace {

using Kind = Symbol::Kind;

const Graph* graph_of(const Analysis& analysis, const Symbol& symbol) {
  const ast::Identifier* owner = symbol.item ? ast::name_of(*symbol.item) : nullptr;
  if (!owner) return nullptr;
  const auto found = std::ranges::find(analysis.watch.graphs, owner->text, &Graph::name);
  return found == analysis.watch.graphs.end() ? nullptr : &*found;
}

/// "linear recurrence: …" of a state, or of all that a cell or network has.
std::string recurrences(const Graph& checked, std::optional<std::string_view> state) {
  Graph graph = checked;
  run_delays(graph);
  std::string text;
  for (const Recurrence& recurrence : analyse_dependence(graph).recurrences) {
    std::vector<std::string> states;
    for (const uint32_t at : recurrence.states) states.push_back(graph.states[at].name);
    if (state && std::ranges::find(states, *state) == states.end()) continue;
    text += fmt::format("\n\n{} recurrence of `{}`: {}", spelling(recurrence.recurrence_class),
                        fmt::join(states, "`, `"), recurrence.reason);
  }
  return text;
}

/// Where PyTorch has the param, if one of the shipped maps makes the cell's or network's params.
std::string torch_place(const Graph& graph, const std::string& param) {
  const std::optional<WeightMap> map = find_shipped_map(graph);
  if (!map) return "";
  std::vector<std::string> names;
  for (const ParamDecl& decl : graph.params) names.push_back(decl.name);
  const auto sources = map->resolve(graph.name, names);
  if (!sources) return "";
  for (const WeightSource& source : *sources) {
    if (source.param != param) continue;
    std::vector<std::string> terms;
    for (const WeightTerm& term : source.sum) terms.push_back(to_string(term));
    return fmt::format("\n\nin PyTorch: `{}`{}", fmt::join(terms, " + "),
                       source.or_zeros ? ", or zeros" : "");
  }
  return "";
}

std::string owner_of(const Symbol& symbol) {
  const ast::Identifier* owner = symbol.item ? ast::name_of(*symbol.item) : nullptr;
  return owner && !is_item(symbol.kind) ? fmt::format(" of `{}`", owner->text) : "";
}

std::string text_of(const Analysis& analysis, const Symbol& symbol) {
  std::string code = signature(symbol, analysis.unit.files());
  const Type* type = type_of(analysis, symbol);
  if (type && !symbol.declaration && !symbol.input) code += ": " + describe(*type);
  std::string text =
      fmt::format("```rnn\n{}\n```\n{}{}", code, describe(symbol.kind), owner_of(symbol));
  if (type && symbol.declaration && symbol.declaration->blocks) {
    text += ", stored as " + describe(*type);
  }
  if (const std::string_view said = doc(symbol); !said.empty()) text += fmt::format("\n\n{}", said);
  const Graph* graph = graph_of(analysis, symbol);
  if (!graph) return text;
  if (symbol.kind == Kind::State) text += recurrences(*graph, symbol.name);
  if (symbol.kind == Kind::Cell || symbol.kind == Kind::Network) text += recurrences(*graph, {});
  if (symbol.kind == Kind::Param) text += torch_place(*graph, symbol.name);
  return text;
}

/// The smallest expression around the byte.
std::optional<Hover> expression_at(const Analysis& analysis, uint32_t offset) {
  std::optional<Hover> found;
  uint32_t smallest = UINT32_MAX;
  for (const auto& [place, type] : analysis.watch.types) {
    const auto [file, begin, end] = place;
    if (file != 0 || offset < begin || offset >= end || end - begin >= smallest) continue;
    smallest = end - begin;
    const SourceLocation location{0, begin, end};
    found = Hover{fmt::format("```rnn\n{}\n```\nis {}",
                              analysis.unit.files().front().slice(location), describe(type)),
                  location};
  }
  return found;
}

}  // namespace

std::optional<Hover> hover(const Analysis& analysis, uint32_t offset) {
  if (const Occurrence* name = analysis.index.at(0, offset)) {
    return Hover{text_of(analysis, analysis.index.symbols[name->symbol]), name->location};
  }
  return expression_at(analysis, offset);
}

}  // namespace rnnc::lsp
