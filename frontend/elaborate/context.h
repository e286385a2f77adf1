/// What definitions know of each other, across files, and what limits them together.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "frontend/elaborate/check_memory.h"
#include "frontend/elaborate/check_watch.h"
#include "frontend/syntax/ast.h"
#include "frontend/syntax/diagnostics.h"
#include "frontend/syntax/source.h"
#include "ir/graph/dim.h"

namespace rnnc {

/// Lives for one `Unit::check` or `Unit::lower`; the trees and the files outlive it.
///
/// Names are looked up as the text of one file sees them, the user's at first: it sees its own
/// items and those of each file that it imports, directly or not. Every file sees the prelude's fns
/// unless it sees another definition of that name; the prelude sees its own fns alone.
class Context {
 public:
  /// The budget. Stacks of many layers stay far below; a loop to a million does not.
  static constexpr int kMostExpressions = 1 << 16;
  /// Elements of an array of states, params or locals.
  static constexpr int64_t kLongestArray = 1 << 16;

  /// Takes a module for each file, the prelude's last. Reports names that are defined twice and
  /// names of built-in functions defined anew.
  Context(const std::vector<ast::Module>& modules, const std::vector<SourceFile>& files,
          Diagnostics& diagnostics, CheckWatch* watch = nullptr);

  /// While it lives, names are looked up as `file` sees them.
  class View {
   public:
    View(Context& context, uint32_t file)
        : context_(context), outer_(std::exchange(context.file_, file)) {}
    ~View() { context_.file_ = outer_; }
    View(const View&) = delete;
    View& operator=(const View&) = delete;

   private:
    Context& context_;
    uint32_t outer_;
  };

  const ast::Definition* definition(std::string_view name) const;
  const ast::Function* function(std::string_view name) const;
  const ast::Constant* constant(std::string_view name) const;
  std::vector<std::string> names_of_definitions() const;
  std::vector<std::string> names_of_functions() const;  // built-in ones too
  std::vector<std::string> names_of_constants() const;
  bool in_prelude(SourceLocation location) const { return location.file == files_.size() - 1; }

  void report(Diagnostic diagnostic);
  void error(SourceLocation location, std::string message, Hint hint = {},
             std::vector<Diagnostic::Note> notes = {});
  size_t errors() const { return errors_; }

  /// The user's text at a place, on one line, in backquotes, shortened if long.
  std::string quote(SourceLocation location) const;
  /// "line 7".
  std::string line_of(SourceLocation location) const;

  /// The values of dims with which `definition` is checked by itself; its defaults stand for
  /// others.
  void give_dims(const ast::Definition& definition, DimBindings dims) {
    dims_[&definition] = std::move(dims);
  }
  DimBindings dims_for(const ast::Definition& definition) const {
    const auto found = dims_.find(&definition);
    return found == dims_.end() ? DimBindings() : found->second;
  }

  /// Every evaluated expression costs one; loops unroll, so their number must be bounded. False,
  /// after one error, when the budget is spent or recursion is too deep. Pair it with `leave`.
  bool enter(SourceLocation location);
  void leave() { --depth_; }
  /// Whether the walk is over before its end: the budget is spent, nobody would see another error,
  /// or who watches wants no more.
  bool exhausted() const { return exhausted_; }
  /// Of a check that somebody watches; else null.
  CheckWatch* watch() { return watch_; }

  enum class Progress : uint8_t { None, Running, Good, Bad };
  /// How far the symbolic check of a cell, network, fn or const is.
  Progress& progress(const void* item) { return progress_[item]; }
  /// Lets checks pass over what `memory` knows to be clean, and tell it of more. It outlives this.
  void remember(CheckMemory& memory, std::map<const void*, CheckMemory::Id> ids) {
    memory_ = &memory;
    ids_ = std::move(ids);
  }
  /// Whether an item's check is known to find nothing; then its cost is paid.
  bool pass_over(const void* item);
  /// While it lives, what is reported and paid counts as the item's, but for the checks of others
  /// that go on within it. Tells the memory of an item that was `finish`ed with nothing reported.
  class ItemCheck;
  /// What was paid of the budget.
  int spent() const { return kMostExpressions - budget_; }
  /// A loop that is being written out.
  struct RunningLoop {
    SourceLocation place;
    SourceLocation range;
    int64_t turns = 0;
    int64_t done = 0;
    int spent_before = 0;
  };
  /// From the outermost to the innermost.
  std::vector<RunningLoop>& running_loops() { return running_loops_; }
  /// Names of the items that are being checked, each called by the one before it.
  std::vector<const ast::Identifier*>& running() { return running_; }
  /// ": A → B → A" if the running `name` is called again by another; "" if it calls itself.
  std::string circle(const ast::Identifier& name) const;
  /// Values of the consts checked so far.
  std::map<const ast::Constant*, double>& constant_values() { return constant_values_; }
  /// What `fixed_dims` found so far.
  std::map<const ast::Definition*, std::set<std::string>>& fixed_dims() { return fixed_dims_; }

 private:
  template <typename Item>
  using Table = std::map<std::string_view, const Item*>;

  void find_visible(const std::vector<ast::Module>& modules, uint32_t from, uint32_t file,
                    std::vector<uint32_t>& seen);
  void add_items(const ast::Module& module, Table<ast::Identifier>& callables);
  bool add_callable(const ast::Identifier& name, Table<ast::Identifier>& callables);
  template <typename Item>
  const Item* find(const Table<Item>& table, std::string_view name) const;
  template <typename Item>
  std::vector<std::string> names_in(const Table<Item>& table) const;
  void report_exhausted(SourceLocation place);
  void report_clash(const ast::Identifier& name, const ast::Identifier& first);

  const std::vector<SourceFile>& files_;
  Diagnostics& diagnostics_;
  CheckWatch* watch_;
  Table<ast::Definition> definitions_;
  Table<ast::Function> functions_;
  Table<ast::Constant> constants_;
  Table<ast::Function> prelude_;
  std::vector<std::vector<bool>> visible_;  // by seeing file, then by file
  uint32_t file_ = 0;
  size_t errors_ = 0;
  size_t reports_ = 0;  // warnings too
  int depth_ = 0;
  int budget_;
  bool exhausted_ = false;
  std::map<const ast::Definition*, DimBindings> dims_;
  CheckMemory* memory_ = nullptr;
  std::map<const void*, CheckMemory::Id> ids_;
  int spent_within_ = 0;  // by checks that went on within the running one
  std::map<const void*, Progress> progress_;
  std::vector<const ast::Identifier*> running_;
  std::vector<RunningLoop> running_loops_;
  std::map<const ast::Constant*, double> constant_values_;
  std::map<const ast::Definition*, std::set<std::string>> fixed_dims_;
};

class Context::ItemCheck {
 public:
  ItemCheck(Context& context, const void* item)
      : context_(context),
        item_(item),
        reports_(context.reports_),
        spent_(context.spent()),
        spent_outside_(std::exchange(context.spent_within_, 0)) {}
  ~ItemCheck() { context_.spent_within_ = spent_outside_ + context_.spent() - spent_; }
  ItemCheck(const ItemCheck&) = delete;
  ItemCheck& operator=(const ItemCheck&) = delete;

  void finish() const;

 private:
  Context& context_;
  const void* item_;
  size_t reports_;
  int spent_;
  int spent_outside_;
};

}  // namespace rnnc
