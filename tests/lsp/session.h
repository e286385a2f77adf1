/// A client of a Server in the same process.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tools/lsp/server.h"

namespace rnnc::test {

using lsp::Json;

class Session {
 public:
  Session() : server_({.send = [this](const Json& message) { sent_.push_back(message); }}) {
    request("initialize", {{"capabilities", Json::object()}});
  }

  /// The whole answer.
  Json request(const std::string& method, const Json& parameters) {
    const Json message = {
        {"jsonrpc", "2.0"}, {"id", ++requests_}, {"method", method}, {"params", parameters}};
    server_.receive(message.dump());
    const Json answer = sent_.back();
    sent_.pop_back();
    EXPECT_EQ(answer["id"], requests_);
    return answer;
  }
  /// Of the open document, at a place of it.
  Json ask(const std::string& method, uint32_t line, uint32_t character, Json more = {}) {
    Json parameters = {{"textDocument", {{"uri", uri}}},
                       {"position", {{"line", line}, {"character", character}}},
                       {"range",
                        {{"start", {{"line", line}, {"character", character}}},
                         {"end", {{"line", line}, {"character", character}}}}}};
    if (!more.is_null()) parameters.update(more);
    return request("textDocument/" + method, parameters);
  }
  void notify(const std::string& method, const Json& parameters) {
    server_.receive(Json{{"jsonrpc", "2.0"}, {"method", method}, {"params", parameters}}.dump());
  }
  /// What is wrong with the text, which counts as typed just now.
  Json open(const std::string& text) {
    notify("textDocument/didOpen", {{"textDocument", {{"uri", uri}, {"text", text}}}});
    return diagnostics();
  }
  Json change(Json changes) {
    notify("textDocument/didChange",
           {{"textDocument", {{"uri", uri}}}, {"contentChanges", std::move(changes)}});
    return diagnostics();
  }
  /// Those published last for the document.
  Json diagnostics() {
    server_.idle();
    Json found;
    for (const Json& message : sent_) {
      if (message["method"] == "textDocument/publishDiagnostics" &&
          message["params"]["uri"] == uri) {
        found = message["params"]["diagnostics"];
      }
    }
    sent_.clear();
    return found;
  }
  lsp::Server& server() { return server_; }
  std::vector<Json>& sent() { return sent_; }

  std::string uri = "file:///folder/a.rnn";

 private:
  int requests_ = 0;
  std::vector<Json> sent_;
  lsp::Server server_;
};

}  // namespace rnnc::test
