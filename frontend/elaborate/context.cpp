#include "frontend/elaborate/context.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "frontend/elaborate/builtins.h"

namespace rnnc {
namespace {

constexpr int kDeepestRecursion = 600;
constexpr size_t kLongestQuote = 48;
constexpr int kStepsBetweenQuestions = 64;  // of whether a check shall stop

}  // namespace

Context::Context(const std::vector<ast::Module>& modules, const std::vector<SourceFile>& files,
                 Diagnostics& diagnostics, CheckWatch* watch)
    : files_(files), diagnostics_(diagnostics), watch_(watch), budget_(kMostExpressions) {
  const auto count = static_cast<uint32_t>(modules.size());
  visible_.assign(count, std::vector<bool>(count));
  std::vector<uint32_t> seen;  // in the end, by the user's file: all but the prelude
  for (uint32_t file = count; file-- > 0;) {
    seen.clear();
    find_visible(modules, file, file, seen);
  }
  // Cells, networks and fns are called, so they share one set of names; consts have their own.
  Table<ast::Identifier> callables;
  for (const uint32_t file : seen) add_items(modules[file], callables);
  for (const ast::Item& item : modules.back().items) {
    const auto& function = std::get<ast::Function>(item);
    prelude_.emplace(function.name.text, &function);
  }
}

/// Marks `file` and what it imports as seen by `from`, and lists them, each after its imports.
void Context::find_visible(const std::vector<ast::Module>& modules, uint32_t from, uint32_t file,
                           std::vector<uint32_t>& seen) {
  if (visible_[from][file]) return;
  visible_[from][file] = true;
  for (const ast::Item& item : modules[file].items) {
    if (const auto* import = std::get_if<ast::Import>(&item)) {
      find_visible(modules, from, import->file, seen);
    }
  }
  seen.push_back(file);
}

void Context::add_items(const ast::Module& module, Table<ast::Identifier>& callables) {
  for (const ast::Item& item : module.items) {
    if (const auto* constant = std::get_if<ast::Constant>(&item)) {
      const auto [first, fresh] = constants_.emplace(constant->name.text, constant);
      if (!fresh) report_clash(constant->name, first->second->name);
    } else if (const auto* function = std::get_if<ast::Function>(&item)) {
      if (add_callable(function->name, callables)) {
        functions_.emplace(function->name.text, function);
      }
    } else if (const auto* definition = std::get_if<ast::Definition>(&item)) {
      if (add_callable(definition->name, callables)) {
        definitions_.emplace(definition->name.text, definition);
      }
    }
  }
}

bool Context::add_callable(const ast::Identifier& name, Table<ast::Identifier>& callables) {
  if (find_builtin(name.text)) {
    error(name.location, fmt::format("`{}` is a built-in function", name.text),
          "choose another name");
  }
  const auto [first, fresh] = callables.emplace(name.text, &name);
  if (!fresh) report_clash(name, *first->second);
  return fresh;
}

template <typename Item>
const Item* Context::find(const Table<Item>& table, std::string_view name) const {
  const auto found = table.find(name);
  if (found == table.end()) return nullptr;
  return visible_[file_][found->second->name.location.file] ? found->second : nullptr;
}

template <typename Item>
std::vector<std::string> Context::names_in(const Table<Item>& table) const {
  std::vector<std::string> names;
  for (const auto& [name, item] : table) {
    if (visible_[file_][item->name.location.file]) names.emplace_back(name);
  }
  return names;
}

const ast::Definition* Context::definition(std::string_view name) const {
  return find(definitions_, name);
}
const ast::Function* Context::function(std::string_view name) const {
  if (const ast::Function* own = find(functions_, name)) return own;
  const auto found = prelude_.find(name);
  return found == prelude_.end() || definition(name) ? nullptr : found->second;
}
const ast::Constant* Context::constant(std::string_view name) const {
  return find(constants_, name);
}

std::vector<std::string> Context::names_of_definitions() const {
  return names_in(definitions_);
}
std::vector<std::string> Context::names_of_constants() const {
  return names_in(constants_);
}
std::vector<std::string> Context::names_of_functions() const {
  std::vector<std::string> names = names_in(functions_);
  for (const auto& [name, function] : prelude_) names.emplace_back(name);
  for (const Builtin& builtin : builtins()) names.emplace_back(builtin.name);
  return names;
}

bool Context::pass_over(const void* item) {
  const auto id = ids_.find(item);
  const auto cost = id == ids_.end() ? std::nullopt : memory_->cost_of_clean(id->second);
  if (cost) budget_ -= *cost;
  return cost.has_value();
}

void Context::ItemCheck::finish() const {
  const auto id = context_.ids_.find(item_);
  if (id == context_.ids_.end() || context_.exhausted_ || context_.reports_ != reports_) return;
  context_.memory_->add_clean(id->second, context_.spent() - spent_ - context_.spent_within_);
}

void Context::report(Diagnostic diagnostic) {
  ++reports_;
  if (diagnostic.severity == Severity::Error) ++errors_;
  diagnostics_.report(std::move(diagnostic));
  if (diagnostics_.is_full()) exhausted_ = true;
}

void Context::error(SourceLocation location, std::string message, Hint hint,
                    std::vector<Diagnostic::Note> notes) {
  report({Severity::Error, location, std::move(message), std::move(hint), std::move(notes)});
}

void Context::report_clash(const ast::Identifier& name, const ast::Identifier& first) {
  error(name.location, fmt::format("`{}` is defined twice", name.text), "choose another name",
        {{first.location, "first here"}});
}

std::string Context::circle(const ast::Identifier& name) const {
  if (running_.back() == &name) return "";
  std::string text = ": ";
  for (auto at = std::ranges::find(running_, &name); at != running_.end(); ++at) {
    text += (*at)->text + " → ";
  }
  return text + name.text;
}

std::string Context::quote(SourceLocation location) const {
  const std::string_view source = files_[location.file].slice(location);
  std::string text;
  for (size_t i = 0; i < source.size(); ++i) {
    if (source.substr(i).starts_with("//")) i = std::min(source.find('\n', i), source.size() - 1);
    const char c = source[i];
    const bool blank = c == ' ' || c == '\t' || c == '\r' || c == '\n';
    if (!blank) {
      text += c;
    } else if (!text.empty() && text.back() != ' ') {
      text += ' ';
    }
  }
  if (text.size() > kLongestQuote) {
    size_t cut = kLongestQuote - 3;
    while (cut > 0 && (text[cut] & 0xC0) == 0x80) --cut;  // not inside a character
    text = text.substr(0, cut) + "...";
  }
  return "`" + text + "`";
}

std::string Context::line_of(SourceLocation location) const {
  return fmt::format("line {}", files_[location.file].position(location.begin).line);
}

bool Context::enter(SourceLocation location) {
  ++depth_;
  if (exhausted_) return false;
  if (watch_ && watch_->stop && budget_ % kStepsBetweenQuestions == 0 && watch_->stop()) {
    watch_->stopped = exhausted_ = true;
    return false;
  }
  const SourceLocation place = in_prelude(location) ? SourceLocation() : location;
  if (depth_ > kDeepestRecursion) {
    error(place, "calls and expressions are nested too deeply here",
          "give an inner part a name of its own");
    exhausted_ = true;
  } else if (--budget_ < 0) {
    report_exhausted(place);
    exhausted_ = true;
  }
  return !exhausted_;
}

/// Of the loops that are being written out the one with most turns left is to blame.
void Context::report_exhausted(SourceLocation place) {
  const std::string message =
      fmt::format("unrolled, this file has more than {} operations", kMostExpressions);
  const auto left = [](const RunningLoop& loop) { return loop.turns - loop.done; };
  const auto loop = std::ranges::max_element(running_loops_, {}, left);
  if (loop == running_loops_.end() || loop->done == 0 || in_prelude(loop->place)) {
    error(place, message, "loops and calls are written out one by one: is a range too long?");
    return;
  }
  const int64_t of_turn = std::max<int64_t>(1, (spent() - loop->spent_before) / loop->done);
  const int64_t fit = (kMostExpressions - loop->spent_before) / of_turn;
  const auto range = [this](const RunningLoop& running) {
    return fmt::format("`{}`", files_[running.range.file].slice(running.range));
  };
  std::string turns = fmt::format("this loop has {} turns of about {} each", loop->turns, of_turn);
  std::string ranges = range(*loop);
  if (const auto inner = std::next(loop); inner != running_loops_.end()) {
    turns += fmt::format(", with {} of a loop in it", inner->turns);
    ranges += " or " + range(*inner);
  } else if (loop != running_loops_.begin()) {
    const RunningLoop& outer = *std::prev(loop);
    turns += fmt::format(", in each of {} of the loop around it", outer.turns);
    ranges += " or " + range(outer);
  }
  error(
      loop->place, fmt::format("{}: {}", message, turns),
      fmt::format("loops are written out turn by turn, and at most {} turns of this one fit: make "
                  "{} shorter, or let fewer turns each do more, to longer vectors",
                  fit, ranges));
}

}  // namespace rnnc
