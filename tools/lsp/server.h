/// The protocol: JSON-RPC messages in, messages out (Language Server Protocol 3.17).
///
///     Server server({.send = [&](const Json& message) { … }, .interrupted = [&] { … }});
///     server.receive(body);  // each message of the client
///     server.idle();         // whenever nothing is there to be read
#pragma once

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>

#include "tools/lsp/document.h"

namespace rnnc::lsp {

using Json = nlohmann::ordered_json;

class Server {
 public:
  struct Client {
    std::function<void(const Json& message)> send;
    /// Whether the client has sent more: then a check that goes on gives way.
    std::function<bool()> interrupted = [] { return false; };
    /// The texts of files that are not open, if they are not those on disk.
    Shadow elsewhere = {};
  };
  explicit Server(Client client) : client_(std::move(client)) {}

  /// Answers one message, whatever it says.
  void receive(std::string_view body);
  /// Tells the client of a message that could not be read.
  void refuse(std::string_view why);
  /// Checks texts that changed and publishes what is wrong with them, until all are done or the
  /// client sends more.
  void idle();
  /// Of `exit`: 0 after `shutdown`, else 1. Nothing before it.
  std::optional<int> exit_code() const { return exit_code_; }

 private:
  using Request = Json (Server::*)(const Json& parameters);
  struct Refusal {
    int code;
    std::string message;
  };
  struct Open {
    Document document;
    int64_t version = 0;
    bool dirty = true;
  };

  static const std::map<std::string_view, Request>& requests();
  void request(const Json& id, const std::string& method, const Json& parameters);
  void notification(const std::string& method, const Json& parameters);
  Json answer(const std::string& method, const Json& parameters);

  void open(const Json& parameters);
  void change(const Json& parameters);
  void close(const Json& parameters);
  void changed(const std::string& which);
  void publish(const std::string& uri, Open& open);
  /// What counts in place of the file on disk.
  Result<std::optional<std::string>> text_of(const std::filesystem::path& file) const;

  // server_requests.cpp, named as the methods are.
  Json hover(const Json& parameters);
  Json definition(const Json& parameters);
  Json references(const Json& parameters);
  Json highlights(const Json& parameters);
  Json prepare_rename(const Json& parameters);
  Json rename(const Json& parameters);
  Json completion(const Json& parameters);
  Json signature_help(const Json& parameters);
  Json symbols(const Json& parameters);
  Json formatting(const Json& parameters);
  Json semantic_tokens(const Json& parameters);
  Json inlay_hints(const Json& parameters);
  Json folding(const Json& parameters);
  Json code_actions(const Json& parameters);

  struct Place {
    Open& open;
    const Analysis& analysis;
    uint32_t offset;
    const Occurrence* name;  // null if there is none
  };
  Open& document(const Json& parameters);
  Place place(const Json& parameters);
  /// Everywhere in open documents and what they import, by URI.
  std::map<std::string, std::vector<Json>> uses_of(const Place& place);

  Client client_;
  std::map<std::string, Open> open_;  // by URI
  std::string changed_;               // the one that changed last
  bool initialized_ = false;
  bool shut_down_ = false;
  std::optional<int> exit_code_;
};

}  // namespace rnnc::lsp
