/// What the definitions of one file know of each other, and what limits them together.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "frontend/ast.h"
#include "frontend/diagnostics.h"
#include "frontend/source.h"

namespace rnnc {

/// Lives for one `Unit::check` or `Unit::lower`; the tree and the files outlive it.
class Context {
 public:
  /// Reports imports, names that are defined twice, and names of built-in functions defined anew.
  Context(const ast::Module& module, const std::vector<SourceFile>& files,
          Diagnostics& diagnostics);

  const ast::Definition* definition(std::string_view name) const;
  const ast::Function* function(std::string_view name) const;
  const ast::Constant* constant(std::string_view name) const;
  std::vector<std::string> names_of_definitions() const;
  std::vector<std::string> names_of_functions() const;  // built-in ones too
  std::vector<std::string> names_of_constants() const;
  /// Names that are not found may come from there, so they are no errors of their own.
  bool has_imports() const { return has_imports_; }

  void report(Diagnostic diagnostic);
  void error(SourceLocation location, std::string message, std::string hint = {},
             std::vector<Diagnostic::Note> notes = {});
  size_t errors() const { return errors_; }

  /// The user's text at a place, on one line, in backquotes, shortened if long.
  std::string quote(SourceLocation location) const;
  /// "line 7".
  std::string line_of(SourceLocation location) const;

  /// Every evaluated expression costs one; loops unroll, so their number must be bounded. False,
  /// after one error, when the budget is spent or recursion is too deep. Pair it with `leave`.
  bool enter(SourceLocation location);
  void leave() { --depth_; }
  bool exhausted() const { return exhausted_; }

  enum class Progress : uint8_t { None, Running, Good, Bad };
  /// How far the symbolic check of a cell, network, fn or const is.
  Progress& progress(const void* item) { return progress_[item]; }
  /// Values of the consts checked so far.
  std::map<const ast::Constant*, double>& constant_values() { return constant_values_; }

 private:
  template <typename Item>
  using Table = std::map<std::string_view, const Item*>;

  void report_clash(const ast::Identifier& name, const ast::Identifier& first);

  const std::vector<SourceFile>& files_;
  Diagnostics& diagnostics_;
  Table<ast::Definition> definitions_;
  Table<ast::Function> functions_;
  Table<ast::Constant> constants_;
  bool has_imports_ = false;
  size_t errors_ = 0;
  int depth_ = 0;
  int budget_;
  bool exhausted_ = false;
  std::map<const void*, Progress> progress_;
  std::map<const ast::Constant*, double> constant_values_;
};

}  // namespace rnnc
