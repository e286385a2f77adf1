/// The front end as the rest of rnnc sees it: text in, step Graphs or diagnostics out.
///
///     Unit unit("lstm.rnn", text);
///     std::optional<Graph> graph = unit.lower("LSTM", {{"H", 512}});
///     if (!graph) fputs(unit.render().c_str(), stderr);
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "frontend/diagnostics.h"
#include "frontend/source.h"
#include "ir/graph.h"

namespace rnnc {

namespace ast {
struct Module;
}

/// One .rnn file. Not thread-safe; separate units are independent.
class Unit {
 public:
  /// Parses at once; syntax errors are in `diagnostics()`.
  Unit(std::string file_name, std::string text);
  ~Unit();
  Unit(Unit&&) noexcept;
  Unit& operator=(Unit&&) noexcept;

  /// Checks every definition, with symbolic dims. Returns true if there is no error.
  bool check();

  /// The step Graph of a cell or network, or nothing with the reason in `diagnostics()`. Symbols
  /// in `dims` (and, failing that, their defaults) decide loop bounds and array lengths; shapes in
  /// the Graph stay symbolic, so call `Graph::bind` to get numbers.
  std::optional<Graph> lower(std::string_view name, const DimBindings& dims);

  /// Names of the cells and networks, in source order.
  std::vector<std::string> definitions() const;

  const Diagnostics& diagnostics() const { return diagnostics_; }
  /// All diagnostics as text for a terminal.
  std::string render() const { return diagnostics_.render(files_); }
  /// The syntax tree as indented text, whole or of one definition.
  std::string print_ast(std::optional<std::string_view> name = std::nullopt) const;

 private:
  std::vector<SourceFile> files_;
  Diagnostics diagnostics_;
  std::unique_ptr<ast::Module> module_;
  bool parsed_ = false;  // without syntax errors
};

}  // namespace rnnc
