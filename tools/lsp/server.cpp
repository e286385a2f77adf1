#include "tools/lsp/server.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "tools/lsp/convert.h"
#include "tools/lsp/semantic_tokens.h"

namespace rnnc::lsp {
namespace {

// Of JSON-RPC, and of the protocol.
constexpr int kParseError = -32700;
constexpr int kInvalidRequest = -32600;
constexpr int kMethodNotFound = -32601;
constexpr int kInvalidParams = -32602;
constexpr int kServerNotInitialized = -32002;

constexpr int kIncremental = 2;

Json response(const Json& id, const char* key, Json value) {
  return {{"jsonrpc", "2.0"}, {"id", id}, {key, std::move(value)}};
}

Json capabilities() {
  return {{"positionEncoding", "utf-16"},
          {"textDocumentSync", {{"openClose", true}, {"change", kIncremental}}},
          {"hoverProvider", true},
          {"definitionProvider", true},
          {"referencesProvider", true},
          {"documentHighlightProvider", true},
          {"documentSymbolProvider", true},
          {"documentFormattingProvider", true},
          {"foldingRangeProvider", true},
          {"inlayHintProvider", true},
          {"renameProvider", {{"prepareProvider", true}}},
          {"codeActionProvider", {{"codeActionKinds", {"quickfix"}}}},
          {"completionProvider", Json::object()},
          {"signatureHelpProvider", {{"triggerCharacters", {"(", ","}}}},
          {"semanticTokensProvider", {{"legend", token_legend()}, {"full", true}}}};
}

}  // namespace

const std::map<std::string_view, Server::Request>& Server::requests() {
  static const std::map<std::string_view, Request> table = {
      {"textDocument/hover", &Server::hover},
      {"textDocument/definition", &Server::definition},
      {"textDocument/references", &Server::references},
      {"textDocument/documentHighlight", &Server::highlights},
      {"textDocument/prepareRename", &Server::prepare_rename},
      {"textDocument/rename", &Server::rename},
      {"textDocument/completion", &Server::completion},
      {"textDocument/signatureHelp", &Server::signature_help},
      {"textDocument/documentSymbol", &Server::symbols},
      {"textDocument/formatting", &Server::formatting},
      {"textDocument/semanticTokens/full", &Server::semantic_tokens},
      {"textDocument/inlayHint", &Server::inlay_hints},
      {"textDocument/foldingRange", &Server::folding},
      {"textDocument/codeAction", &Server::code_actions},
  };
  return table;
}

void Server::receive(std::string_view body) {
  const Json message = Json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (message.is_discarded()) return refuse("this is not JSON");
  const bool valid =
      message.is_object() && message.contains("method") && message["method"].is_string();
  if (message.is_object() && !message.contains("method") && message.contains("id")) return;
  const Json id = message.is_object() ? message.value("id", Json()) : Json();
  if (!valid) {
    return client_.send(response(
        id, "error", {{"code", kInvalidRequest}, {"message", "a message has a `method`"}}));
  }
  const Json parameters = message.value("params", Json());
  const std::string method = message["method"];
  if (message.contains("id")) {
    request(id, method, parameters);
  } else {
    notification(method, parameters);
  }
}

void Server::refuse(std::string_view why) {
  client_.send(response(Json(), "error", {{"code", kParseError}, {"message", why}}));
}

void Server::request(const Json& id, const std::string& method, const Json& parameters) {
  try {
    client_.send(response(id, "result", answer(method, parameters)));
  } catch (const Refusal& refusal) {
    client_.send(response(id, "error", {{"code", refusal.code}, {"message", refusal.message}}));
  } catch (const nlohmann::json::exception& wrong) {
    client_.send(response(id, "error", {{"code", kInvalidParams}, {"message", wrong.what()}}));
  }
}

Json Server::answer(const std::string& method, const Json& parameters) {
  if (method == "initialize") {
    if (initialized_) throw Refusal{kInvalidRequest, "`initialize` comes once"};
    initialized_ = true;
    return {{"capabilities", capabilities()},
            {"serverInfo", {{"name", "rnnc"}, {"version", RNNC_VERSION}}}};
  }
  if (!initialized_) throw Refusal{kServerNotInitialized, "`initialize` comes first"};
  if (shut_down_) throw Refusal{kInvalidRequest, "after `shutdown` comes `exit`"};
  if (method == "shutdown") {
    shut_down_ = true;
    return nullptr;
  }
  const auto found = requests().find(method);
  if (found == requests().end()) {
    throw Refusal{kMethodNotFound, "there is no method `" + method + "`"};
  }
  return (this->*found->second)(parameters);
}

void Server::notification(const std::string& method, const Json& parameters) {
  if (method == "exit") {
    exit_code_ = shut_down_ ? 0 : 1;
    return;
  }
  if (!initialized_ || shut_down_) return;
  try {
    if (method == "textDocument/didOpen") open(parameters);
    if (method == "textDocument/didChange") change(parameters);
    if (method == "textDocument/didClose") close(parameters);
  } catch (const Refusal& refusal) {
    // Notifications have no answer: people see it.
    client_.send({{"jsonrpc", "2.0"},
                  {"method", "window/logMessage"},
                  {"params", {{"type", 1}, {"message", method + ": " + refusal.message}}}});
  } catch (const nlohmann::json::exception& wrong) {
    client_.send({{"jsonrpc", "2.0"},
                  {"method", "window/logMessage"},
                  {"params", {{"type", 1}, {"message", method + ": " + wrong.what()}}}});
  }
}

void Server::open(const Json& parameters) {
  const Json& item = parameters.at("textDocument");
  const std::string uri = item.at("uri");
  const Shadow shadow = [this](const std::filesystem::path& file) { return text_of(file); };
  Open fresh{Document(path_of(uri), item.at("text"), shadow), item.value("version", int64_t{0})};
  open_.insert_or_assign(uri, std::move(fresh));
  changed(uri);
}

void Server::change(const Json& parameters) {
  Open& open = document(parameters);
  for (const Json& change : parameters.at("contentChanges")) {
    const std::string text = change.at("text");
    if (!change.contains("range")) {
      open.document.replace_all(text);
      continue;
    }
    const Json& range = change["range"];
    open.document.replace(position_in(range.at("start")), position_in(range.at("end")), text);
  }
  open.version = parameters.at("textDocument").value("version", open.version + 1);
  changed(parameters.at("textDocument").at("uri"));
}

void Server::close(const Json& parameters) {
  document(parameters);
  const std::string uri = parameters.at("textDocument").at("uri");
  open_.erase(uri);
  client_.send({{"jsonrpc", "2.0"},
                {"method", "textDocument/publishDiagnostics"},
                {"params", {{"uri", uri}, {"diagnostics", Json::array()}}}});
  changed(uri);
}

/// Any text may be imported by any other.
void Server::changed(const std::string& which) {
  changed_ = which;
  for (auto& [uri, open] : open_) {
    open.document.forget();
    open.dirty = true;
  }
}

void Server::idle() {
  // The text that is looked at comes first.
  if (const auto at = open_.find(changed_); at != open_.end() && at->second.dirty) {
    if (client_.interrupted()) return;
    publish(at->first, at->second);
  }
  for (auto& [uri, open] : open_) {
    if (client_.interrupted()) return;
    if (open.dirty) publish(uri, open);
  }
}

void Server::publish(const std::string& uri, Open& open) {
  const Analysis& analysis = open.document.diagnosed(client_.interrupted);
  if (!analysis.diagnosed) return;
  open.dirty = false;
  client_.send({{"jsonrpc", "2.0"},
                {"method", "textDocument/publishDiagnostics"},
                {"params",
                 {{"uri", uri},
                  {"version", open.version},
                  {"diagnostics", diagnostics(analysis, open.document.text())}}}});
}

Result<std::optional<std::string>> Server::text_of(const std::filesystem::path& file) const {
  const auto found = open_.find(uri_of(file.string()));
  if (found != open_.end()) return found->second.document.text().string();
  if (client_.elsewhere) return client_.elsewhere(file);
  return std::nullopt;
}

Server::Open& Server::document(const Json& parameters) {
  const std::string uri = parameters.at("textDocument").at("uri");
  const auto found = open_.find(uri);
  if (found == open_.end()) throw Refusal{kInvalidParams, "`" + uri + "` is not open"};
  return found->second;
}

}  // namespace rnnc::lsp
