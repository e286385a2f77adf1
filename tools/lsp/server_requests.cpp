#include <algorithm>
#include <set>

#include "frontend/elaborate/shape_rules.h"
#include "frontend/syntax/format.h"
#include "frontend/syntax/parser.h"
#include "tools/lsp/convert.h"
#include "tools/lsp/semantic_tokens.h"
#include "tools/lsp/server.h"

namespace rnnc::lsp {
namespace {

using Kind = Symbol::Kind;

// Numbers of the protocol.
constexpr int kRequestFailed = -32803;
constexpr int kTypeHint = 1;
constexpr int kRead = 2;
constexpr int kWrite = 3;

/// What the protocol calls a name, as a completion (CompletionItemKind) and in an outline (SymbolKind).
struct ProtocolKinds {
  int completion = 6, symbol = 13;  // a variable
};

ProtocolKinds protocol_kinds(Kind kind) {
  switch (kind) {
    case Kind::Cell:
    case Kind::Network:
      return {.completion = 7, .symbol = 5};  // a class
    case Kind::Fn:
    case Kind::Builtin:
      return {.completion = 3, .symbol = 12};  // a function
    case Kind::Const:
      return {.completion = 21, .symbol = 14};  // a constant
    case Kind::Dim:
      return {.completion = 25, .symbol = 26};  // a type parameter
    case Kind::Param:
      return {.completion = 5, .symbol = 7};  // a field, a property
    case Kind::State:
      return {.completion = 6, .symbol = 8};  // a variable, a field
    default:
      return {};
  }
}

/// Whether both speak of the same text: file and place.
bool is_same(const Analysis& one, const Symbol& left, const Analysis& other, const Symbol& right) {
  return left.kind == right.kind && left.location.begin == right.location.begin &&
         left.name == right.name &&
         one.unit.files()[left.location.file].name() ==
             other.unit.files()[right.location.file].name();
}

uint32_t prelude_of(const Analysis& analysis) {
  return static_cast<uint32_t>(analysis.unit.files().size() - 1);
}

/// A place in the prelude, which is no file, has no location.
bool has_file(const Analysis& analysis, const Symbol& symbol) {
  return symbol.kind != Kind::Builtin && symbol.location.file != prelude_of(analysis);
}

Json markdown(std::string text) {
  return {{"kind", "markdown"}, {"value", std::move(text)}};
}

}  // namespace

Server::Place Server::place(const Json& parameters) {
  Open& open = document(parameters);
  const Analysis& analysis = open.document.parsed();
  const uint32_t offset = open.document.text().offset(position_in(parameters.at("position")));
  return {open, analysis, offset, analysis.index.at(0, offset)};
}

Json Server::hover(const Json& parameters) {
  Open& open = document(parameters);
  const Analysis& analysis = open.document.checked();
  const Text& text = open.document.text();
  const auto found = lsp::hover(analysis, text.offset(position_in(parameters.at("position"))));
  if (!found) return nullptr;
  return {{"contents", markdown(found->text)},
          {"range", range(text, found->place.begin, found->place.end)}};
}

Json Server::definition(const Json& parameters) {
  const Place at = place(parameters);
  if (at.name) {
    const Symbol& symbol = at.analysis.index.symbols[at.name->symbol];
    if (!has_file(at.analysis, symbol)) return nullptr;
    return location(at.analysis.unit.files(), symbol.location);
  }
  for (const ast::Item& item : at.analysis.unit.modules().front().items) {
    const auto* import = std::get_if<ast::Import>(&item);
    const bool there = import && import->file != 0 && import->location.begin <= at.offset &&
                       at.offset <= import->location.end;
    if (there) return location(at.analysis.unit.files(), {import->file, 0, 0});
  }
  return nullptr;
}

std::map<std::string, std::vector<Json>> Server::uses_of(const Place& at) {
  std::map<std::string, std::vector<Json>> uses;
  const Symbol& symbol = at.analysis.index.symbols[at.name->symbol];
  for (auto& [uri, open] : open_) {
    const Analysis& analysis = open.document.parsed();
    for (uint32_t id = 0; id < analysis.index.symbols.size(); ++id) {
      const Symbol& other = analysis.index.symbols[id];
      const bool same = symbol.kind == Kind::Builtin
                            ? other.kind == Kind::Builtin && other.name == symbol.name
                            : is_same(at.analysis, symbol, analysis, other);
      if (!same) continue;
      for (const Occurrence& occurrence : occurrences_of(analysis, id)) {
        if (occurrence.location.file == prelude_of(analysis)) continue;
        const Json found = location(analysis.unit.files(), occurrence.location);
        std::vector<Json>& ranges = uses[found["uri"]];
        if (std::ranges::find(ranges, found["range"]) == ranges.end()) {
          ranges.push_back(found["range"]);
        }
      }
    }
  }
  return uses;
}

Json Server::references(const Json& parameters) {
  const Place at = place(parameters);
  Json list = Json::array();
  if (!at.name) return list;
  const Symbol& symbol = at.analysis.index.symbols[at.name->symbol];
  const bool declaration =
      parameters.value("context", Json::object()).value("includeDeclaration", true);
  Json own;
  if (has_file(at.analysis, symbol)) own = location(at.analysis.unit.files(), symbol.location);
  for (const auto& [uri, ranges] : uses_of(at)) {
    for (const Json& range : ranges) {
      Json use = {{"uri", uri}, {"range", range}};
      if (declaration || use != own) list.push_back(std::move(use));
    }
  }
  return list;
}

Json Server::highlights(const Json& parameters) {
  const Place at = place(parameters);
  Json list = Json::array();
  if (!at.name) return list;
  for (const Occurrence& use : occurrences_of(at.analysis, at.name->symbol)) {
    if (use.location.file != 0) continue;
    list.push_back({{"range", range(at.open.document.text(), use.location.begin, use.location.end)},
                    {"kind", use.gives ? kWrite : kRead}});
  }
  return list;
}

Json Server::prepare_rename(const Json& parameters) {
  const Place at = place(parameters);
  if (!at.name) return nullptr;
  const Symbol& symbol = at.analysis.index.symbols[at.name->symbol];
  const std::string refusal = why_not_renamed(symbol, prelude_of(at.analysis));
  if (!refusal.empty()) throw Refusal{kRequestFailed, refusal};
  return range(at.open.document.text(), at.name->location.begin, at.name->location.end);
}

Json Server::rename(const Json& parameters) {
  const std::string name = parameters.at("newName");
  const Place at = place(parameters);
  if (!at.name) throw Refusal{kRequestFailed, "there is no name here"};
  const Symbol& symbol = at.analysis.index.symbols[at.name->symbol];
  std::string refusal = why_not_renamed(symbol, prelude_of(at.analysis));
  if (refusal.empty()) refusal = why_not_a_name(name);
  if (!refusal.empty()) throw Refusal{kRequestFailed, refusal};
  Json changes = Json::object();
  for (const auto& [uri, ranges] : uses_of(at)) {
    for (const Json& range : ranges) {
      changes[uri].push_back({{"range", range}, {"newText", name}});
    }
  }
  // The name is another's where, after the change, some name stands for something else.
  std::map<std::string, std::string> renamed;
  for (auto& [uri, open] : open_) {
    if (!changes.contains(uri)) continue;
    std::vector<std::pair<uint32_t, uint32_t>> places;
    Text text = open.document.text();
    for (const Json& change : changes[uri]) {
      places.emplace_back(text.offset(position_in(change["range"]["start"])),
                          text.offset(position_in(change["range"]["end"])));
    }
    std::ranges::sort(places, std::ranges::greater());
    std::string changed = text.string();
    for (const auto& [begin, end] : places) changed.replace(begin, end - begin, name);
    renamed[uri] = std::move(changed);
  }
  const Shadow shadow = [&](const std::filesystem::path& file) {
    const auto found = renamed.find(uri_of(file.string()));
    return found == renamed.end() ? text_of(file) : found->second;
  };
  for (const auto& [uri, text] : renamed) {
    Open& open = open_.at(uri);
    Document after(open.document.path(), text, shadow);
    // What is imported from disk keeps the old name until the client has written the new one.
    const auto from_disk = std::ranges::any_of(
        changes.items(), [&](const auto& change) { return !renamed.contains(change.key()); });
    if (!from_disk && !same_meaning(open.document.parsed(), after.parsed())) {
      throw Refusal{kRequestFailed, "`" + name + "` would stand for something else somewhere"};
    }
  }
  return {{"changes", changes}};
}

Json Server::completion(const Json& parameters) {
  const Place at = place(parameters);
  const ast::Item* item = item_at(at.analysis, at.offset);
  Json list = Json::array();
  std::set<std::string_view> seen;
  const auto visible = at.analysis.index.visible(at.analysis.unit, item);
  for (const uint32_t id : visible) {
    const Symbol& symbol = at.analysis.index.symbols[id];
    if (!seen.insert(symbol.name).second) continue;
    Json entry = {{"label", symbol.name},
                  {"kind", protocol_kinds(symbol.kind).completion},
                  {"detail", signature(symbol, at.analysis.unit.files())}};
    if (!doc(symbol).empty()) entry["documentation"] = markdown(std::string(doc(symbol)));
    list.push_back(std::move(entry));
  }
  constexpr int kKeyword = 14;
  for (auto kind = static_cast<int>(TokenKind::Cell); kind <= static_cast<int>(TokenKind::As);
       ++kind) {
    std::string word = spelling(static_cast<TokenKind>(kind));
    std::erase(word, '`');
    list.push_back({{"label", word}, {"kind", kKeyword}});
  }
  return list;
}

Json Server::signature_help(const Json& parameters) {
  const Place at = place(parameters);
  const std::optional<CallAt> call = call_at(at.analysis, at.offset);
  if (!call) return nullptr;
  const std::string label = signature(*call->callee, at.analysis.unit.files());
  Json signature = {{"label", label}, {"parameters", Json::array()}};
  const size_t begin = label.find('(') + 1;
  const size_t end = std::min(label.find(')', begin), label.size());
  for (size_t from = begin; from < end;) {
    // Commas in shapes part nothing.
    size_t to = from;
    for (int depth = 0; to < end && (depth > 0 || label[to] != ','); ++to) {
      depth += label[to] == '[' ? 1 : label[to] == ']' ? -1 : 0;
    }
    signature["parameters"].push_back({{"label", label.substr(from, to - from)}});
    from = to + 2;
  }
  if (!doc(*call->callee).empty()) {
    signature["documentation"] = markdown(std::string(doc(*call->callee)));
  }
  return {{"signatures", {signature}}, {"activeSignature", 0}, {"activeParameter", call->argument}};
}

Json Server::symbols(const Json& parameters) {
  Open& open = document(parameters);
  const Analysis& analysis = open.document.parsed();
  const Text& text = open.document.text();
  Json list = Json::array();
  for (const Blocks::Item& item : blocks_of(analysis).items) {
    Json entry;
    Json children = Json::array();
    for (const Symbol& symbol : analysis.index.symbols) {
      if (symbol.item != item.item) continue;
      const Json place = range(text, symbol.location.begin, symbol.location.end);
      const bool whole = is_item(symbol.kind);
      Json described = {{"name", symbol.name},
                        {"detail", signature(symbol, analysis.unit.files())},
                        {"kind", protocol_kinds(symbol.kind).symbol},
                        {"range", whole ? range(text, item.range.begin, item.range.end) : place},
                        {"selectionRange", place}};
      if (whole) {
        entry = std::move(described);
      } else {
        children.push_back(std::move(described));
      }
    }
    if (entry.is_null()) continue;  // a second item of this name
    entry["children"] = std::move(children);
    list.push_back(std::move(entry));
  }
  return list;
}

Json Server::formatting(const Json& parameters) {
  const Text& text = document(parameters).document.text();
  const SourceFile file("", text.string());
  Diagnostics errors;
  parse(file, 0, errors);
  Json list = Json::array();
  if (errors.has_errors()) return list;  // as `rnnc fmt` leaves such a file
  const std::string formatted = format_source(file);
  if (formatted == text.string() || formatted.size() > kLargestSource) return list;
  list.push_back({{"range", range(text, 0, static_cast<uint32_t>(text.string().size()))},
                  {"newText", formatted}});
  return list;
}

Json Server::semantic_tokens(const Json& parameters) {
  Open& open = document(parameters);
  return {{"data", pack_tokens(open.document.parsed(), open.document.text())}};
}

Json Server::inlay_hints(const Json& parameters) {
  Open& open = document(parameters);
  const Text& text = open.document.text();
  const Json& asked = parameters.at("range");
  const uint32_t begin = text.offset(position_in(asked.at("start")));
  const uint32_t end = text.offset(position_in(asked.at("end")));
  const Analysis& analysis = open.document.checked();
  Json list = Json::array();
  for (const Symbol& symbol : analysis.index.symbols) {
    const SourceLocation place = symbol.location;
    const bool wanted =
        symbol.kind == Kind::Local && place.file == 0 && place.end >= begin && place.end <= end;
    const Type* type = wanted ? type_of(analysis, symbol) : nullptr;
    if (!type) continue;
    list.push_back({{"position", to_json(text.position(place.end))},
                    {"label", ": " + describe(*type)},
                    {"kind", kTypeHint}});
  }
  return list;
}

Json Server::folding(const Json& parameters) {
  Open& open = document(parameters);
  const Text& text = open.document.text();
  Json list = Json::array();
  for (const Range& braces : blocks_of(open.document.parsed()).braces) {
    const uint32_t first = text.position(braces.begin).line;
    const uint32_t last = text.position(braces.end).line;
    // The closing brace stays in sight.
    if (last > first + 1) list.push_back({{"startLine", first}, {"endLine", last - 1}});
  }
  std::optional<uint32_t> comment;  // the first line of those that are nothing else
  const std::string& all = text.string();
  uint32_t line = 0;
  for (size_t begin = 0; begin <= all.size(); ++line) {
    const size_t end = std::min(all.find('\n', begin), all.size());
    const size_t word = std::min(all.find_first_not_of(" \t", begin), end);
    const bool is_comment = std::string_view(all).substr(word, end - word).starts_with("//");
    if (is_comment && !comment) comment = line;
    const bool last = end == all.size();
    if (comment && (!is_comment || last)) {
      const uint32_t to = is_comment ? line : line - 1;
      if (to > *comment) {
        list.push_back({{"startLine", *comment}, {"endLine", to}, {"kind", "comment"}});
      }
      comment.reset();
    }
    begin = end + 1;
  }
  return list;
}

Json Server::code_actions(const Json& parameters) {
  Open& open = document(parameters);
  const Text& text = open.document.text();
  const Json& asked = parameters.at("range");
  const uint32_t begin = text.offset(position_in(asked.at("start")));
  const uint32_t end = text.offset(position_in(asked.at("end")));
  const Analysis& analysis = open.document.diagnosed();
  Json list = Json::array();
  for (const Diagnostic& each : analysis.unit.diagnostics().sorted()) {
    const SourceLocation place = each.location;
    const bool touches = place.file == 0 && place.begin <= end && begin <= place.end;
    if (!touches || each.hint.edits.empty()) continue;
    list.push_back({{"title", each.hint.text},
                    {"kind", "quickfix"},
                    {"isPreferred", true},
                    {"diagnostics", {diagnostic(analysis, text, each)}},
                    {"edit", edits(analysis.unit.files(), each.hint.edits)}});
  }
  return list;
}

}  // namespace rnnc::lsp
