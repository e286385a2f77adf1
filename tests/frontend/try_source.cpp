#include "tests/frontend/try_source.h"

#include "frontend/unit.h"
#include "ir/graph/text.h"
#include "ir/graph/verify.h"

namespace rnnc {
namespace {

std::string try_graph(Graph graph) {
  if (const Status valid = verify(graph); !valid) return "verify: " + valid.error().message;
  const std::string text = to_string(graph);
  const Result<Graph> parsed = parse_graph(text);
  if (!parsed) return "parse_graph: " + parsed.error().message + "\n" + text;
  if (to_string(*parsed) != text) return "the graph's text is not that of its parse:\n" + text;
  DimBindings dims;
  for (const DimDecl& dim : graph.dims) dims[dim.name] = dim.default_value.value_or(2);
  if (complete_bindings(graph, dims)) graph.bind(dims);
  const Status bound = verify(graph);
  return bound ? "" : "verify, bound: " + bound.error().message;
}

}  // namespace

std::string try_source(std::string text) {
  Unit unit("fuzz.rnn", std::move(text));
  const bool parsed = !unit.diagnostics().has_errors();
  const std::string printed = unit.print_ast();
  const bool good = unit.check();
  if (good == unit.diagnostics().has_errors()) return "check and its diagnostics disagree";
  if (unit.render().empty() && !good) return "an error without a word";
  if (!parsed) return "";
  std::vector<std::string> names = unit.definitions();
  // Each of many definitions may unroll to the bound on operations; a few show what all would.
  if (!good && names.size() > 4) names.resize(4);
  for (const std::string& name : names) {
    const auto graph = unit.lower(name, {});
    if (graph) {
      if (std::string wrong = try_graph(*graph); !wrong.empty()) return wrong;
    } else if (!unit.diagnostics().has_errors()) {
      return "no graph and no error for " + name;
    }
  }
  // Printing again gives the same; parentheses may bring it beyond the bound on nesting.
  const Unit again("printed.rnn", printed);
  if (!again.diagnostics().has_errors() && again.print_ast() != printed) {
    return "the printed tree parses to another:\n" + printed;
  }
  return "";
}

}  // namespace rnnc
