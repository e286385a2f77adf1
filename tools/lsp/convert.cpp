#include "tools/lsp/convert.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

namespace rnnc::lsp {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFileScheme = "file://";

int digit(char byte) {
  if (byte >= '0' && byte <= '9') return byte - '0';
  if (byte >= 'a' && byte <= 'f') return byte - 'a' + 10;
  if (byte >= 'A' && byte <= 'F') return byte - 'A' + 10;
  return -1;
}

bool stays(char byte) {
  return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
         (byte >= '0' && byte <= '9') || std::string_view("/-._~").find(byte) != std::string::npos;
}

/// Where the document imports the file, directly or not.
SourceLocation import_of(const Unit& unit, uint32_t file) {
  for (const ast::Item& item : unit.modules().front().items) {
    const auto* import = std::get_if<ast::Import>(&item);
    if (!import || import->file == 0) continue;
    const std::vector<uint32_t> seen = seen_files(unit, import->file);
    if (std::ranges::find(seen, file) != seen.end()) return import->location;
  }
  return {};
}

}  // namespace

std::string path_of(std::string_view uri) {
  if (!uri.starts_with(kFileScheme)) return std::string(uri);
  uri.remove_prefix(kFileScheme.size());
  uri.remove_prefix(std::min(uri.find('/'), uri.size()));  // a host
  std::string path;
  for (size_t at = 0; at < uri.size(); ++at) {
    const bool escaped =
        uri[at] == '%' && at + 2 < uri.size() && digit(uri[at + 1]) >= 0 && digit(uri[at + 2]) >= 0;
    if (escaped) {
      path += static_cast<char>(digit(uri[at + 1]) * 16 + digit(uri[at + 2]));
      at += 2;
    } else {
      path += uri[at];
    }
  }
  return path;
}

std::string uri_of(const std::string& path) {
  if (!path.starts_with('/')) return path;
  std::string uri(kFileScheme);
  for (const char byte : path) {
    if (stays(byte)) {
      uri += byte;
    } else {
      uri += fmt::format("%{:02X}", static_cast<unsigned char>(byte));
    }
  }
  return uri;
}

Position position_in(const Json& json) {
  return {json.at("line").get<uint32_t>(), json.at("character").get<uint32_t>()};
}

Json to_json(Position position) {
  return {{"line", position.line}, {"character", position.character}};
}

Json range(const Text& text, uint32_t begin, uint32_t end) {
  return {{"start", to_json(text.position(begin))}, {"end", to_json(text.position(end))}};
}

Json location(const std::vector<SourceFile>& files, SourceLocation place) {
  const SourceFile& file = files[place.file];
  const Text text{std::string(file.text())};
  return {{"uri", uri_of(file.name())}, {"range", range(text, place.begin, place.end)}};
}

Json diagnostic(const Analysis& analysis, const Text& text, const Diagnostic& diagnostic) {
  const std::vector<SourceFile>& files = analysis.unit.files();
  SourceLocation place = diagnostic.location;
  std::string message = diagnostic.message;
  Json related = Json::array();
  if (place.file != 0) {
    const std::string name = fs::path(files[place.file].name()).filename().string();
    message = fmt::format("in `{}`: {}", name, message);
    related.push_back({{"location", location(files, place)}, {"message", diagnostic.message}});
    place = import_of(analysis.unit, place.file);
  }
  if (!diagnostic.hint.empty()) message += "\nhint: " + diagnostic.hint.text;
  const auto prelude = static_cast<uint32_t>(files.size() - 1);
  for (const Diagnostic::Note& note : diagnostic.notes) {
    if (note.location.file == prelude) continue;  // a text that no editor can open
    related.push_back({{"location", location(files, note.location)}, {"message", note.message}});
  }
  return {{"range", range(text, place.begin, place.end)},
          {"severity", diagnostic.severity == Severity::Error ? 1 : 2},
          {"source", "rnnc"},
          {"message", message},
          {"relatedInformation", related}};
}

Json diagnostics(const Analysis& analysis, const Text& text) {
  Json list = Json::array();
  for (const Diagnostic& each : analysis.unit.diagnostics().sorted()) {
    list.push_back(diagnostic(analysis, text, each));
  }
  return list;
}

Json edits(const std::vector<SourceFile>& files, const std::vector<Edit>& edits) {
  Json changes = Json::object();
  for (const Edit& edit : edits) {
    const Json place = location(files, edit.location);
    changes[place["uri"].get<std::string>()].push_back(
        {{"range", place["range"]}, {"newText", edit.text}});
  }
  return {{"changes", changes}};
}

}  // namespace rnnc::lsp
