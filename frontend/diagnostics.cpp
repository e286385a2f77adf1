#include "frontend/diagnostics.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "frontend/utf8.h"

namespace rnnc {
namespace {

constexpr size_t kMostErrors = 20;
constexpr size_t kMostWarnings = 20;
constexpr size_t kWidestLine = 160;  // characters of a source line that are shown

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

/// The source line and the caret line below it, both two blanks in. Tabs stay tabs in both, so
/// that the caret stands where the terminal puts the text; what a terminal might obey (control
/// characters, broken UTF-8) is shown as `?`.
std::string excerpt(const SourceFile& file, SourceLocation location) {
  const std::string_view line = file.line_at(location.begin);
  const size_t caret = location.begin - static_cast<size_t>(line.data() - file.text().data());
  const size_t caret_end = std::max<size_t>(caret + location.end - location.begin, caret + 1);
  const size_t start = std::min(line.find_first_not_of(" \t"), caret);
  const bool cut = caret - start > kWidestLine * 3 / 4;

  std::string text = cut ? "..." : "";
  std::string carets = cut ? "   " : "";
  size_t width = 0;
  for (size_t at = cut ? caret - kWidestLine / 2 : start; at < line.size(); ++width) {
    if (width == kWidestLine) {
      text += "...";
      break;
    }
    const utf8::Character character = utf8::decode(line.substr(at));
    const bool tab = character.code_point == '\t';
    const bool shown = tab || (character.length > 0 && utf8::is_printable(character.code_point));
    const size_t length = std::max<size_t>(character.length, 1);
    text += shown ? line.substr(at, length) : "?";
    carets += at == caret ? '^' : at > caret && at < caret_end ? '~' : tab ? '\t' : ' ';
    at += length;
  }
  if (caret >= line.size()) carets += '^';  // something is missing after the line
  carets.erase(carets.find_last_not_of(" \t") + 1);
  return fmt::format("  {}\n  {}\n", text, carets);
}

void render_at(std::string& out, const std::vector<SourceFile>& files, SourceLocation location,
               std::string_view kind, std::string_view message) {
  if (location.file >= files.size()) {
    out += fmt::format("{}: {}\n", kind, message);
    return;
  }
  const SourceFile& file = files[location.file];
  if (!has_place(location)) {
    out += fmt::format("{}: {}: {}\n", file.name(), kind, message);
    return;
  }
  const LineColumn at = file.position(location.begin);
  out += fmt::format("{}:{}:{}: {}: {}\n", file.name(), at.line, at.column, kind, message);
  out += excerpt(file, location);
}

char lower_case(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
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

void Diagnostics::error(SourceLocation location, std::string message, std::string hint) {
  report({Severity::Error, location, std::move(message), std::move(hint), {}});
}

void Diagnostics::warning(SourceLocation location, std::string message, std::string hint) {
  report({Severity::Warning, location, std::move(message), std::move(hint), {}});
}

std::string Diagnostics::render(const std::vector<SourceFile>& files, bool warnings) const {
  std::vector<const Diagnostic*> sorted;
  for (const Diagnostic& diagnostic : all_) {
    if (warnings || diagnostic.severity == Severity::Error) sorted.push_back(&diagnostic);
  }
  std::ranges::stable_sort(sorted, {}, [](const Diagnostic* d) { return place(*d); });
  std::string out;
  for (const Diagnostic* diagnostic : sorted) {
    const bool is_error = diagnostic->severity == Severity::Error;
    render_at(out, files, diagnostic->location, is_error ? "error" : "warning",
              diagnostic->message);
    for (const Diagnostic::Note& note : diagnostic->notes) {
      render_at(out, files, note.location, "note", note.message);
    }
    if (!diagnostic->hint.empty()) out += fmt::format("  hint: {}\n", diagnostic->hint);
  }
  if (error_count_ > kMostErrors) {
    out += fmt::format("these are the first {} errors; there are more\n", kMostErrors);
  }
  return out;
}

std::string nearest_name(std::string_view name, const std::vector<std::string>& candidates) {
  // Edit distance in halves: a change of case or an underscore more or less costs one half. Two
  // neighbours that changed places are one edit.
  const auto weight = [](char c) -> size_t { return c == '_' ? 1 : 2; };
  std::string nearest;
  size_t best = std::max<size_t>(name.size() / 3 * 2, 1) + 1;  // a third of the letters may be off
  std::vector<size_t> before, above, row;
  for (const std::string& candidate : candidates) {
    const size_t difference =
        std::max(name.size(), candidate.size()) - std::min(name.size(), candidate.size());
    if (candidate == name || difference >= best) continue;
    if (std::ranges::equal(candidate, name, {}, lower_case, lower_case)) return candidate;
    above.assign(1, 0);
    for (const char c : candidate) above.push_back(above.back() + weight(c));
    for (size_t i = 0; i < name.size(); ++i) {
      const char a = name[i];
      row.assign(1, above[0] + weight(a));
      for (size_t j = 0; j < candidate.size(); ++j) {
        const char b = candidate[j];
        const size_t change = a == b ? 0 : (a ^ b) == 0x20 ? 1 : 2;
        row.push_back(std::min({above[j + 1] + weight(a), row[j] + weight(b), above[j] + change}));
        const bool swapped = i > 0 && j > 0 && a == candidate[j - 1] && b == name[i - 1];
        if (swapped) row.back() = std::min(row.back(), before[j - 1] + 2);
      }
      std::swap(before, above);
      std::swap(above, row);
    }
    if (above.back() >= best) continue;
    best = above.back();
    nearest = candidate;
  }
  return nearest;
}

}  // namespace rnnc
