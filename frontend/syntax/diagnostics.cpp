#include "frontend/syntax/diagnostics.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "frontend/syntax/utf8.h"

namespace rnnc {
namespace {

constexpr size_t kMostErrors = 20;
constexpr size_t kMostWarnings = 20;
constexpr size_t kWidestLine = 160;    // characters of a source line that are shown
constexpr size_t kMostHalfEdits = 10;  // between a misspelt name and the one that was meant

auto place(const Diagnostic& diagnostic) {
  return std::tuple(diagnostic.location.file, diagnostic.location.begin);
}

bool same(const Diagnostic& a, const Diagnostic& b) {
  return a.severity == b.severity && place(a) == place(b) && a.location.end == b.location.end &&
         a.message == b.message;
}

bool has_place(SourceLocation location) {
  return location.file != 0 || location.begin != 0 || location.end != 0;
}

/// ANSI escape sequences, or nothing.
struct Colours {
  std::string_view error = "\x1b[1;31m";
  std::string_view warning = "\x1b[1;35m";
  std::string_view note = "\x1b[1;36m";
  std::string_view caret = "\x1b[1;32m";
  std::string_view place = "\x1b[1m";
  std::string_view off = "\x1b[0m";

  static Colours none() { return {"", "", "", "", "", ""}; }
};

/// The source line and the caret line below it, as wide as a terminal makes each character. Tabs
/// stay tabs in both; what a terminal might obey (control characters, broken UTF-8) is shown as
/// `?`.
class Excerpt {
 public:
  Excerpt(const SourceFile& file, SourceLocation location) {
    const std::string_view line = file.line_at(location.begin);
    const size_t caret = location.begin - static_cast<size_t>(line.data() - file.text().data());
    const size_t caret_end = std::max<size_t>(caret + location.end - location.begin, caret + 1);
    const size_t start = std::min(line.find_first_not_of(" \t"), caret);
    const bool cut = caret - start > kWidestLine * 3 / 4;
    if (cut) add("...", 3, ' ');
    size_t at = start;
    if (cut) at = character_at(line, caret - kWidestLine / 2);
    for (size_t count = 0; at < line.size(); ++count) {
      if (count == kWidestLine) {
        text_ += "...";
        break;
      }
      const utf8::Character character = utf8::decode(line.substr(at));
      const size_t length = std::max<size_t>(character.length, 1);
      const bool marked = at < caret_end && at + length > caret;
      const bool first = marked && carets_.find('^') == std::string::npos;
      if (character.code_point == '\t') {
        add("\t", 1, marked ? first ? '^' : '~' : '\t');
      } else if (character.length == 0 || !utf8::is_printable(character.code_point)) {
        add("?", 1, first ? '^' : marked ? '~' : ' ');
      } else {
        add(line.substr(at, length), utf8::columns(character.code_point), marked ? '~' : ' ');
        if (first && carets_.ends_with('~')) {
          carets_[carets_.size() - utf8::columns(character.code_point)] = '^';
        }
      }
      at += length;
    }
    if (carets_.find('^') == std::string::npos) carets_ += '^';  // after the line
    carets_.erase(carets_.find_last_not_of(" \t") + 1);
  }

  std::string render(const Colours& colours) const {
    return fmt::format("  {}\n  {}{}{}\n", text_, colours.caret, carets_, colours.off);
  }

 private:
  void add(std::string_view text, size_t columns, char below) {
    text_ += text;
    carets_.append(columns, below);
  }

  /// Where the character starts that `at` is in.
  static size_t character_at(std::string_view line, size_t at) {
    while (at > 0 && (line[at] & 0xC0) == 0x80) --at;
    return at;
  }

  std::string text_;
  std::string carets_;
};

void render_at(std::string& out, const std::vector<SourceFile>& files, SourceLocation location,
               std::string_view kind, std::string_view colour, std::string_view message,
               const Colours& colours) {
  const std::string what = fmt::format("{}{}:{} {}\n", colour, kind, colours.off, message);
  if (location.file >= files.size()) {
    out += what;
    return;
  }
  const SourceFile& file = files[location.file];
  const std::string name = utf8::printable(file.name());
  if (!has_place(location)) {
    out += fmt::format("{}{}:{} {}", colours.place, name, colours.off, what);
    return;
  }
  const LineColumn at = file.position(location.begin);
  out +=
      fmt::format("{}{}:{}:{}:{} {}", colours.place, name, at.line, at.column, colours.off, what);
  out += Excerpt(file, location).render(colours);
}

char lower_case(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

/// Edit distance in halves, or `limit` (at most kMostHalfEdits + 1) if it is not below that: a
/// change of case or an underscore more or less costs one half, two neighbours that changed places
/// are one edit.
size_t half_edits(std::string_view name, std::string_view candidate, size_t limit) {
  const auto weight = [](char c) -> size_t { return c == '_' ? 1 : 2; };
  const size_t size = candidate.size();
  if (std::max(name.size(), size) - std::min(name.size(), size) >= limit) return limit;
  std::vector<size_t> above = {0}, before(size + 1, limit), row(size + 1, limit);
  for (const char c : candidate) above.push_back(above.back() + weight(c));
  for (size_t i = 0; i < name.size(); ++i) {
    // Far from the diagonal, there are more letters to add or to leave out than edits.
    const size_t first = i > kMostHalfEdits ? i - kMostHalfEdits : 0;
    const size_t last = std::min(size, i + kMostHalfEdits);
    const char a = name[i];
    row[first] = first == 0 ? above[0] + weight(a) : limit;
    if (last < size) row[last + 1] = row[size] = limit;
    size_t least = row[first];
    for (size_t j = first; j < last; ++j) {
      const char b = candidate[j];
      const size_t change = a == b ? 0 : (a ^ b) == 0x20 ? 1 : 2;
      size_t& cell = row[j + 1];
      cell = std::min({above[j + 1] + weight(a), row[j] + weight(b), above[j] + change});
      const bool swapped = i > 0 && j > 0 && a == candidate[j - 1] && b == name[i - 1];
      if (swapped) cell = std::min(cell, before[j - 1] + 2);
      least = std::min(least, cell);
    }
    if (least >= limit) return limit;
    std::swap(before, above);
    std::swap(above, row);
  }
  return std::min(above.back(), limit);
}

}  // namespace

void Diagnostics::report(Diagnostic diagnostic) {
  if (std::ranges::any_of(all_, [&](const Diagnostic& old) { return same(old, diagnostic); })) {
    return;
  }
  size_t& count = diagnostic.severity == Severity::Error ? error_count_ : warning_count_;
  ++count;
  if (count > (diagnostic.severity == Severity::Error ? kMostErrors : kMostWarnings)) return;
  all_.push_back(std::move(diagnostic));
}

void Diagnostics::error(SourceLocation location, std::string message, Hint hint) {
  report({Severity::Error, location, std::move(message), std::move(hint), {}});
}

void Diagnostics::warning(SourceLocation location, std::string message, Hint hint) {
  report({Severity::Warning, location, std::move(message), std::move(hint), {}});
}

bool Diagnostics::is_full() const {
  return error_count_ > kMostErrors;
}

std::vector<Diagnostic> Diagnostics::sorted() const {
  std::vector<Diagnostic> sorted = all_;
  std::ranges::stable_sort(sorted, {}, place);
  return sorted;
}

std::string Diagnostics::render(const std::vector<SourceFile>& files, Style style) const {
  const Colours colours = style.colour ? Colours{} : Colours::none();
  std::string out;
  for (const Diagnostic& diagnostic : sorted()) {
    const bool error = diagnostic.severity == Severity::Error;
    if (!error && !style.warnings) continue;
    render_at(out, files, diagnostic.location, error ? "error" : "warning",
              error ? colours.error : colours.warning, diagnostic.message, colours);
    for (const Diagnostic::Note& note : diagnostic.notes) {
      render_at(out, files, note.location, "note", colours.note, note.message, colours);
    }
    if (!diagnostic.hint.empty()) {
      out += fmt::format("  {}hint:{} {}\n", colours.note, colours.off, diagnostic.hint.text);
    }
  }
  if (is_full()) {
    out += fmt::format("these are the first {} errors; there are more\n", kMostErrors);
  }
  return out;
}

std::string nearest_name(std::string_view name, const std::vector<std::string>& candidates) {
  std::string nearest;
  // A third of the letters may be off, but no more than a few: a typo is not another name.
  size_t best = std::clamp<size_t>(name.size() / 3 * 2, 1, kMostHalfEdits) + 1;
  for (const std::string& candidate : candidates) {
    if (candidate == name) continue;
    if (std::ranges::equal(candidate, name, {}, lower_case, lower_case)) return candidate;
    const size_t distance = half_edits(name, candidate, best);
    if (distance >= best) continue;
    best = distance;
    nearest = candidate;
  }
  return nearest;
}

}  // namespace rnnc
