#include "tools/serve/server.h"

#include <sys/socket.h>

#include <array>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <list>
#include <memory>
#include <optional>
#include <utility>

#include "frontend/syntax/source.h"
#include "tools/command.h"
#include "tools/serve/answer.h"
#include "tools/serve/child.h"
#include "tools/serve/guard.h"
#include "tools/serve/page.h"

namespace rnnc::serve {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;
using std::chrono::seconds;

constexpr seconds kMostTransferTime{10};  // of a header, of a body, of an answer
constexpr seconds kLingerTime{1};
constexpr size_t kMostSessions = 128;
constexpr int kMostChildren = 8;
constexpr uint32_t kLargestHeader = 16 << 10;
// A character of a text may take several bytes in JSON.
constexpr uint64_t kLargestBody = 4 * kLargestSource;

constexpr const char* kText = "text/plain; charset=utf-8";
constexpr const char* kHtml = "text/html; charset=utf-8";
constexpr const char* kJson = "application/json";

// Pages load nothing, send to this program alone, and stand in no other page.
constexpr const char* kPolicy =
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

struct Reply {
  http::status status = http::status::ok;
  const char* type = kText;
  std::string body;
};

/// What Beast found wrong with a request; nothing where the connection has ended.
std::optional<Reply> reply_to(const error_code& error) {
  if (error == http::error::header_limit || error == http::error::buffer_overflow) {
    return Reply{http::status::request_header_fields_too_large, kText, "the header is too long\n"};
  }
  if (error == http::error::body_limit) {
    return Reply{http::status::payload_too_large, kText, "the body is too long\n"};
  }
  const bool is_syntax = error.category() == make_error_code(http::error::bad_method).category() &&
                         error != http::error::end_of_stream;
  if (!is_syntax) return std::nullopt;
  return Reply{http::status::bad_request, kText, "this is not HTTP/1.1\n"};
}

Reply reply_to(std::string_view question, Outcome outcome) {
  switch (outcome.kind) {
    case Outcome::Kind::too_long:
      return {http::status::service_unavailable, kText, "it took longer than 10 s\n"};
    case Outcome::Kind::too_much:
      return {http::status::internal_server_error, kText, "its answer is longer than 64 MiB\n"};
    case Outcome::Kind::died:
      return {http::status::internal_server_error, kText,
              "the compiler ended without an answer: it needs more than 2 GiB, or has a bug\n"};
    case Outcome::Kind::exited:
      break;
  }
  if (outcome.exit_code == tools::kOk) {
    return {http::status::ok, question == "explain" ? kHtml : kJson, std::move(outcome.output)};
  }
  return {outcome.exit_code == tools::kUsage ? http::status::bad_request
                                             : http::status::unprocessable_entity,
          kText, std::move(outcome.errors)};
}

class Session;

/// What all sessions share.
class Site {
 public:
  Site(const Texts& texts, std::string token) : texts_(texts), token_(std::move(token)) {}

  Status listen(uint16_t port);
  std::string address() const { return fmt::format("http://127.0.0.1:{}/{}/", port_, token_); }
  void run();

 private:
  friend class Session;
  void accept();
  void add(tcp::socket socket);

  const Texts& texts_;
  std::string token_;
  uint16_t port_ = 0;
  int children_ = 0;
  std::list<std::weak_ptr<Session>> sessions_;  // the oldest first
  asio::io_context io_{1};
  tcp::acceptor acceptor_{io_};
  asio::steady_timer pause_{io_};
};

/// One connection, for one request.
class Session : public std::enable_shared_from_this<Session> {
 public:
  Session(Site& site, tcp::socket socket) : site_(site), stream_(std::move(socket)) {}

  void read_header();
  /// Whether the client has nothing coming to it.
  bool is_idle() const { return is_idle_; }
  void close() { stream_.close(); }

 private:
  using Header = http::request_parser<http::string_body>::value_type;
  static std::string_view text(beast::string_view text) { return {text.data(), text.size()}; }

  void take_header(error_code error);
  void take_body(error_code error, const std::string& question);
  /// Why a request gets no answer, by its header alone; nothing if it does.
  std::optional<Reply> refusal(const Header& header) const;
  void ask(const std::string& question);
  void watch(const std::shared_ptr<Child>& child);
  void send(Reply reply);
  void linger();

  Site& site_;
  beast::tcp_stream stream_;
  beast::flat_buffer buffer_{kLargestHeader + (1 << 16)};
  http::request_parser<http::string_body> parser_;
  http::response<http::string_body> response_;
  std::array<char, 4096> ignored_{};
  bool is_idle_ = true;
};

void Session::read_header() {
  parser_.header_limit(kLargestHeader);
  parser_.body_limit(kLargestBody);
  stream_.expires_after(kMostTransferTime);
  http::async_read_header(
      stream_, buffer_, parser_,
      [self = shared_from_this()](error_code error, size_t) { self->take_header(error); });
}

std::optional<Reply> Session::refusal(const Header& header) const {
  if (header.count(http::field::host) != 1 ||
      !is_own_host(text(header[http::field::host]), site_.port_)) {
    return Reply{http::status::misdirected_request, kText, "this is another host's\n"};
  }
  const auto origin = header.find(http::field::origin);
  if (origin != header.end() && !is_own_origin(text(origin->value()), site_.port_)) {
    return Reply{http::status::forbidden, kText, "other pages may not ask\n"};
  }
  const auto path = path_below(text(header.target()), site_.token_);
  if (!path || !(path->empty() || is_question(*path))) {
    return Reply{http::status::not_found, kText, "there is nothing here\n"};
  }
  if (header.method() != (path->empty() ? http::verb::get : http::verb::post)) {
    return Reply{http::status::method_not_allowed, kText, "this takes another method\n"};
  }
  if (!path->empty() && !text(header[http::field::content_type]).starts_with(kJson)) {
    return Reply{http::status::unsupported_media_type, kText, "questions are JSON\n"};
  }
  return std::nullopt;
}

void Session::take_header(error_code error) {
  if (error) {
    std::optional<Reply> reply = reply_to(error);
    if (reply) send(std::move(*reply));
    return;
  }
  if (auto reply = refusal(parser_.get())) return send(std::move(*reply));
  const std::string path(*path_below(text(parser_.get().target()), site_.token_));
  if (path.empty()) return send({http::status::ok, kHtml, std::string(kPage)});
  stream_.expires_after(kMostTransferTime);
  http::async_read(stream_, buffer_, parser_,
                   [self = shared_from_this(), path](error_code wrong, size_t) {
                     self->take_body(wrong, path);
                   });
}

void Session::take_body(error_code error, const std::string& question) {
  if (!error) return ask(question);
  std::optional<Reply> reply = reply_to(error);
  if (reply) send(std::move(*reply));
}

void Session::ask(const std::string& question) {
  is_idle_ = false;
  if (site_.children_ >= kMostChildren) {
    return send({http::status::service_unavailable, kText, "too many questions at once\n"});
  }
  stream_.expires_never();
  const auto run = [&] { return answer(question, site_.texts_, parser_.get().body()); };
  const auto done = [self = shared_from_this(), question](Outcome outcome) {
    --self->site_.children_;
    self->stream_.cancel();  // `watch`
    self->send(reply_to(question, std::move(outcome)));
  };
  const Result<std::shared_ptr<Child>> child = Child::start(site_.io_, Limits{}, run, done);
  if (!child) {
    return send({http::status::service_unavailable, kText, child.error().message + "\n"});
  }
  ++site_.children_;
  watch(*child);
}

/// A client that goes needs no answer.
void Session::watch(const std::shared_ptr<Child>& child) {
  stream_.socket().async_wait(
      tcp::socket::wait_read,
      [self = shared_from_this(), weak = std::weak_ptr(child)](error_code error) {
        const auto there = weak.lock();
        if (error || !there) return;
        char byte = 0;
        const int socket = self->stream_.socket().native_handle();
        if (::recv(socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT) <= 0) there->kill();
      });
}

void Session::send(Reply reply) {
  is_idle_ = false;
  response_ = http::response<http::string_body>(reply.status, 11, std::move(reply.body));
  response_.set(http::field::content_type, reply.type);
  response_.set(http::field::cache_control, "no-store");
  response_.set("Content-Security-Policy", kPolicy);
  response_.set("Cross-Origin-Resource-Policy", "same-origin");
  response_.set("Referrer-Policy", "no-referrer");
  response_.set("X-Content-Type-Options", "nosniff");
  response_.keep_alive(false);
  response_.prepare_payload();
  stream_.expires_after(kMostTransferTime);
  http::async_write(stream_, response_, [self = shared_from_this()](error_code error, size_t) {
    if (error) return;
    error_code ignored;
    self->stream_.socket().shutdown(tcp::socket::shutdown_send, ignored);
    self->is_idle_ = true;
    self->stream_.expires_after(kLingerTime);
    self->linger();
  });
}

/// What still comes is read: to close before would take the answer away from the client.
void Session::linger() {
  stream_.async_read_some(asio::buffer(ignored_),
                          [self = shared_from_this()](error_code error, size_t) {
                            if (!error) self->linger();
                          });
}

Status Site::listen(uint16_t port) {
  const tcp::endpoint local(asio::ip::address_v4::loopback(), port);
  error_code error;
  acceptor_.open(local.protocol(), error);
  if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor_.bind(local, error);
  if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
  if (error) {
    return fail("cannot serve on port {}: {}\n  hint: without --port, one that is free is taken",
                port, error.message());
  }
  port_ = acceptor_.local_endpoint(error).port();
  return {};
}

void Site::accept() {
  acceptor_.async_accept([this](error_code error, tcp::socket socket) {
    if (!error) {
      add(std::move(socket));
      return accept();
    }
    // Such as too many open files, which passes.
    pause_.expires_after(std::chrono::milliseconds(100));
    pause_.async_wait([this](error_code stopped) {
      if (!stopped) accept();
    });
  });
}

/// Where there are too many, the oldest that waits for its client gives way.
void Site::add(tcp::socket socket) {
  std::erase_if(sessions_, [](const auto& session) { return session.expired(); });
  if (sessions_.size() >= kMostSessions) {
    for (const std::weak_ptr<Session>& weak : sessions_) {
      const auto session = weak.lock();
      if (!session || !session->is_idle()) continue;
      session->close();
      break;
    }
  }
  const auto session = std::make_shared<Session>(*this, std::move(socket));
  sessions_.push_back(session);
  session->read_header();
}

void Site::run() {
  asio::signal_set signals(io_, SIGINT, SIGTERM, SIGHUP);
  signals.async_wait([this](error_code, int) { io_.stop(); });
  accept();
  io_.run();
}

}  // namespace

Status serve(const Texts& texts, uint16_t port,
             const std::function<Status(const std::string& address)>& started) {
  Result<std::string> token = make_token();
  if (!token) return tl::unexpected(token.error());
  Site site(texts, std::move(*token));
  if (Status status = site.listen(port); !status) return status;
  if (Status status = started(site.address()); !status) return status;
  site.run();
  return {};
}

}  // namespace rnnc::serve
