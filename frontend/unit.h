/// The front end as the rest of rnnc sees it: text in, step Graphs or diagnostics out.
///
///     Unit unit("lstm.rnn", text);
///     std::optional<Graph> graph = unit.lower("LSTM", {{"H", 512}});
///     if (!graph) fputs(unit.render().c_str(), stderr);
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "frontend/elaborate/check_memory.h"
#include "frontend/elaborate/check_watch.h"
#include "frontend/modules.h"
#include "frontend/syntax/diagnostics.h"
#include "frontend/syntax/source.h"
#include "ir/graph/graph.h"

namespace rnnc {
namespace ast {
struct Definition;
}
class Context;
struct Token;

/// One .rnn file and what it imports. Not thread-safe; separate units are independent. One that was
/// moved from defines nothing.
class Unit {
 public:
  /// Parses at once, imported files too; syntax errors are in `diagnostics()`. Without an importer
  /// an import is an error.
  Unit(std::string file_name, std::string text, const Importer& importer = {});
  ~Unit();
  Unit(Unit&&) noexcept;
  Unit& operator=(Unit&&) noexcept;

  /// Checks every definition, with symbolic dims; where numbers matter, as in loops, with the
  /// defaults, or with `dims`: for the cell or network `name`, whose dims they must be, or without
  /// a name for each of the file's own that has them. Returns true if there is no error.
  /// What `watch` wants to know comes while the check goes on; one that it stopped says false.
  bool check(std::string_view name = {}, const DimBindings& dims = {}, CheckWatch* watch = nullptr);

  /// The same without a name and dims, where other checks of nearly the same text have been: finds
  /// what a check finds, but passes over definitions and fns that `memory` knows to be clean.
  /// `tokens` are those of the first file. False if `stop`, which is asked now and then, ended it
  /// before its time.
  bool check_again(CheckMemory& memory, const std::vector<Token>& tokens,
                   const std::function<bool()>& stop = {});

  /// The step Graph of a cell or network, or nothing with the reason in `diagnostics()`. Symbols
  /// in `dims` (and, failing that, their defaults) decide loop bounds and array lengths; shapes in
  /// the Graph stay symbolic, so call `Graph::bind` to get numbers. The Graph keeps the texts.
  std::optional<Graph> lower(std::string_view name, const DimBindings& dims);

  /// Names of the file's own cells and networks, in source order; imported ones are not listed,
  /// but `lower` finds them, too.
  std::vector<std::string> definitions() const;
  /// Whether the file's own definition of this name is a network.
  bool is_network(std::string_view name) const;
  /// Those of its inputs that are of integers.
  std::vector<std::string> integer_inputs(std::string_view name) const;

  const Diagnostics& diagnostics() const { return diagnostics_; }
  /// The files that diagnostics speak of, by their number.
  const std::vector<SourceFile>& files() const { return files_; }
  /// The syntax trees of these files, as far as they could be read.
  const std::vector<ast::Module>& modules() const { return modules_; }
  /// All diagnostics as text for a terminal.
  std::string render(Diagnostics::Style style = {.warnings = true, .colour = false}) const {
    return diagnostics_.render(files_, style);
  }
  /// The syntax tree as .rnn text: of the file, or of one definition, const or fn wherever it is.
  std::string print_ast(std::optional<std::string_view> name = std::nullopt) const;

 private:
  /// The file's own; null if there is none.
  const ast::Definition* find_definition(std::string_view name) const;
  bool is_parsed() const { return parsed_ && !modules_.empty(); }
  /// Each item by itself, then what is not used.
  bool check_items(Context& context);

  std::vector<SourceFile> files_;
  Diagnostics diagnostics_;
  std::vector<ast::Module> modules_;  // one for each file; none if it was moved from
  bool parsed_ = false;               // without syntax errors
};

}  // namespace rnnc
