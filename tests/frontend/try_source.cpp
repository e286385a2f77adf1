#include "tests/frontend/try_source.h"

#include <algorithm>
#include <optional>
#include <sstream>

#include "frontend/syntax/format.h"
#include "frontend/syntax/parser.h"
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

/// The tree, as far as it has a meaning: without docs. Nothing if there are syntax errors.
std::optional<std::string> tree_of(const SourceFile& file) {
  Diagnostics diagnostics;
  const ast::Module module = parse(file, 0, diagnostics);
  if (diagnostics.has_errors()) return std::nullopt;
  std::istringstream printed(ast::print(module));
  std::string tree;
  for (std::string line; std::getline(printed, line);) {
    if (!line.starts_with("///")) tree += line + "\n";
  }
  return tree;
}

/// All that is no blank: tokens and comments.
std::string without_blanks(std::string text) {
  if (text.starts_with("\xEF\xBB\xBF")) text.erase(0, 3);
  std::erase_if(text, [](char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; });
  return text;
}

}  // namespace

std::string try_format(const std::string& text) {
  const SourceFile file("fuzz.rnn", text);
  const std::optional<std::string> tree = tree_of(file);
  if (!tree) return "";
  const std::string formatted = format_source(file);
  if (formatted.size() > kLargestSource) return "";
  const SourceFile again("formatted.rnn", formatted);
  if (tree_of(again) != tree) return "formatting changed the tree:\n" + formatted;
  if (without_blanks(formatted) != without_blanks(text)) {
    return "formatting changed tokens or comments:\n" + formatted;
  }
  if (const std::string twice = format_source(again); twice != formatted) {
    return "formatting again changed\n" + formatted + "to\n" + twice;
  }
  return "";
}

std::string try_source(std::string text) {
  if (std::string wrong = try_format(text); !wrong.empty()) return wrong;
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
