#include "tools/diagnostics.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

namespace rnnc::tools {
namespace {

using Json = nlohmann::ordered_json;

bool is_set(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0';
}

Json position(const SourceFile& file, uint32_t offset) {
  const LineColumn at = file.position(offset);
  return {{"line", at.line}, {"column", at.column}, {"offset", offset}};
}

/// {"file", "range"}; the range is null for a file as a whole.
Json place(const std::vector<SourceFile>& files, SourceLocation location) {
  const SourceFile& file = files[location.file];
  const bool whole = location.file == 0 && location.begin == 0 && location.end == 0;
  if (whole) return {{"file", file.name()}, {"range", nullptr}};
  return {{"file", file.name()},
          {"range",
           {{"start", position(file, location.begin)}, {"end", position(file, location.end)}}}};
}

}  // namespace

bool errors_have_colour() {
  if (is_set("NO_COLOR")) return false;
  if (is_set("CLICOLOR_FORCE")) return std::string_view(std::getenv("CLICOLOR_FORCE")) != "0";
  const char* terminal = std::getenv("TERM");
  const bool dumb = terminal == nullptr || std::string_view(terminal) == "dumb";
  return ::isatty(STDERR_FILENO) != 0 && !dumb;
}

void print_diagnostics(const Unit& unit, bool warnings) {
  fmt::print(stderr, "{}", unit.render({.warnings = warnings, .colour = errors_have_colour()}));
}

void add_diagnostics(const Unit& unit, Json& diagnostics) {
  const std::vector<SourceFile>& files = unit.files();
  for (const Diagnostic& diagnostic : unit.diagnostics().sorted()) {
    Json json = place(files, diagnostic.location);
    json["severity"] = diagnostic.severity == Severity::Error ? "error" : "warning";
    json["message"] = diagnostic.message;
    json["hint"] = diagnostic.hint.empty() ? Json() : Json(diagnostic.hint.text);
    json["fixes"] = Json::array();
    for (const Edit& edit : diagnostic.hint.edits) {
      json["fixes"].push_back(place(files, edit.location));
      json["fixes"].back()["replacement"] = edit.text;
    }
    json["notes"] = Json::array();
    for (const Diagnostic::Note& note : diagnostic.notes) {
      json["notes"].push_back(place(files, note.location));
      json["notes"].back()["message"] = note.message;
    }
    diagnostics.push_back(std::move(json));
  }
}

void add_diagnostic(std::string_view file, std::string_view message, Json& diagnostics) {
  diagnostics.push_back({{"file", file},
                         {"range", nullptr},
                         {"severity", "error"},
                         {"message", message},
                         {"hint", nullptr},
                         {"fixes", Json::array()},
                         {"notes", Json::array()}});
}

}  // namespace rnnc::tools
