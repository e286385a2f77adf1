/// `rnnc serve`: what it answers, what it refuses, and that it goes on.
#include <signal.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "tests/tools/serve_support.h"
#include "tests/tools/tools_test.h"

namespace rnnc::test {
namespace {

using Json = nlohmann::json;
using Response = RunningServer::Response;

constexpr const char* kCell = "cell A[H](x: [H]) -> y {\n  y = 2 * x[t]\n}\n";

class Serve : public Tools {
 protected:
  Serve() {
    directory_.write("import.rnn", "import \"toy.rnn\"\n");
    std::filesystem::create_directories(directory_ / "served");
    for (const char* name : {"served/own.rnn", "served/.hidden.rnn", "served/notes.txt"}) {
      directory_.write(name, kCell);
    }
    directory_.write("served/uses.rnn",
                     "import \"own.rnn\"\ncell B[H](x: [H]) -> y {\n  y = A[H = H](x)\n}\n");
    std::filesystem::create_symlink(directory_ / "toy.rnn", directory_ / "served" / "link.rnn");
  }

  static Json question(const std::string& name, const std::string& text) {
    return {{"name", name}, {"text", text}};
  }
  static void expect(const Response& response, int status, const std::string& body) {
    EXPECT_EQ(response.status, status);
    EXPECT_EQ(response.body, body);
  }
  /// A language server's messages about a text.
  static Json messages(const std::string& name, const std::string& text) {
    const Json item = {{"uri", "file:///" + name}, {"text", text}};
    return {{{"jsonrpc", "2.0"}, {"id", 0}, {"method", "initialize"}},
            {{"jsonrpc", "2.0"},
             {"method", "textDocument/didOpen"},
             {"params", {{"textDocument", item}}}}};
  }
  static bool soon(const std::function<bool()>& happens) {
    for (int tries = 0; tries < 400 && !happens(); ++tries) {
      std::this_thread::sleep_for(std::chrono::milliseconds(25));
    }
    return happens();
  }
  /// To explain a text that takes far longer than may be.
  static std::string slow() {
    Json asked = question("a.rnn", R"(cell A[H, N](x: [H]) -> y {
  state h: [H]
  param W: [N, H, H]
  y = x[t]
  for i in 0..N { y = tanh(W[i] @ y + h[t-1]) }
  h[t] = y
}
)");
    asked["dims"] = {{"H", "4"}, {"N", "6000"}};
    asked["backward"] = true;
    return asked.dump();
  }
};

TEST_F(Serve, SaysWhatIsWrongWithItsCommandLine) {
  EXPECT_EQ(bad(1, {"serve", "nowhere"}),
            "rnnc: error: cannot serve `nowhere`: No such file or directory\n"
            "  hint: name a folder of .rnn files, or none: rnnc's own cells are there\n");
  EXPECT_EQ(bad(1, {"serve", "toy.rnn"}),
            "rnnc: error: cannot serve `toy.rnn`: Not a directory\n"
            "  hint: name a folder of .rnn files, or none: rnnc's own cells are there\n");
  for (const std::string port : {"-1", "65536", "x"}) {
    EXPECT_EQ(bad(2, {"serve", "--port", port}),
              usage_error("rnnc serve",
                          "--port: expected a whole number from 0 to 65535, got `" + port + "`"));
  }
  const RunningServer server(directory_.path());
  const std::string port = std::to_string(server.port());
  EXPECT_EQ(bad(1, {"serve", "--port", port}),
            fmt::format("rnnc: error: cannot serve on port {}: Address already in use\n"
                        "  hint: without --port, one that is free is taken\n",
                        port));
}

TEST_F(Serve, HasAnotherSecretEachTime) {
  const RunningServer one(directory_.path());
  const RunningServer other(directory_.path());
  EXPECT_EQ(one.token().size(), 32U);
  EXPECT_EQ(one.token().find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_NE(one.token(), other.token());
}

TEST_F(Serve, GivesAPageThatLoadsNothing) {
  const RunningServer server(directory_.path());
  const Response page = server.send(server.request("GET", "", ""));
  EXPECT_EQ(page.status, 200);
  EXPECT_TRUE(page.body.starts_with("<!doctype html>"));
  EXPECT_EQ(page.body.find("src="), std::string::npos);
  for (const char* header :
       {"Content-Security-Policy: default-src 'none';", "X-Content-Type-Options: nosniff",
        "Referrer-Policy: no-referrer", "Cache-Control: no-store",
        "Cross-Origin-Resource-Policy: same-origin", "frame-ancestors 'none'"}) {
    EXPECT_NE(page.header.find(header), std::string::npos) << header;
  }
}

TEST_F(Serve, ListsAndOpensFiles) {
  const RunningServer server(directory_.path(), {"served"});
  const Json list = Json::parse(server.ask("list", "{}").body);
  // Neither what is hidden, nor of another kind, nor a link that leads elsewhere.
  EXPECT_EQ(list["files"], Json({"own.rnn", "uses.rnn"}));
  EXPECT_EQ(std::ranges::count(list["examples"], "cells/lstm.rnn"), 1);
  EXPECT_EQ(std::ranges::count(list["words"], "cell"), 1);
  EXPECT_EQ(std::ranges::count(list["functions"], "tanh"), 1);
}

TEST_F(Serve, ReadsItsTextsAlone) {
  const RunningServer server(directory_.path(), {"served"});
  const auto open = [&](const std::string& name) {
    return server.ask("open", Json({{"name", name}}).dump());
  };
  EXPECT_EQ(Json::parse(open("own.rnn").body)["text"], kCell);
  EXPECT_EQ(Json::parse(open("./x/../own.rnn").body)["text"], kCell);
  EXPECT_TRUE(
      Json::parse(open("networks/stacked_lstm.rnn").body)["text"].get<std::string>().starts_with(
          "import \"../cells/lstm.rnn\""));
  for (const std::string& name :
       {std::string("../toy.rnn"), (directory_ / "toy.rnn").string(), std::string("link.rnn"),
        std::string("notes.txt"), std::string("none.rnn"), std::string(), std::string("."),
        std::string("x/../../toy.rnn"), std::string("/etc/passwd")}) {
    expect(open(name), 422,
           fmt::format("rnnc: error: cannot read `{}`: it is neither in the folder that is served "
                       "nor one of rnnc's own files\n",
                       name));
  }
  // Imports go the same way, from texts that are typed.
  for (const std::string path : {"../toy.rnn", "link.rnn", "../import.rnn"}) {
    const std::string text = fmt::format("import \"{}\"\n{}", path, kCell);
    const Response refused = server.ask("explain", question("a.rnn", text).dump());
    EXPECT_EQ(refused.status, 422);
    EXPECT_NE(refused.body.find("it is neither in the folder"), std::string::npos) << refused.body;
    const Response told = server.ask("lsp", messages("a.rnn", text).dump());
    EXPECT_EQ(told.status, 200);
    EXPECT_NE(told.body.find("it is neither in the folder"), std::string::npos) << told.body;
  }
  for (const std::string path : {"own.rnn", "cells/lstm.rnn"}) {
    const std::string text =
        fmt::format("import \"{}\"\ncell B[H](x: [H]) -> y {{\n  y = x[t]\n}}\n", path);
    Json asked = question("a.rnn", text);
    asked["dims"] = {{"H", "8"}};
    EXPECT_EQ(server.ask("explain", asked.dump()).status, 200) << path;
    const Response told = server.ask("lsp", messages("a.rnn", text).dump());
    EXPECT_NE(told.body.find("publishDiagnostics"), std::string::npos);
    EXPECT_EQ(told.body.find("cannot"), std::string::npos) << told.body;
  }
}

TEST_F(Serve, GivesNothingToAShell) {
  const RunningServer server(directory_.path(), {"served"});
  const auto files = [&] {
    return std::distance(begin(std::filesystem::recursive_directory_iterator(directory_.path())),
                         std::filesystem::recursive_directory_iterator());
  };
  const auto before = files();
  for (const std::string word :
       {"$(touch made)", "`touch made`", "; touch made", "| touch made", "&& touch made #",
        "\n touch made\n", "' ; touch made ; '", "\" ; touch made ; \"", "> made"}) {
    const Json text = question(word, kCell);
    server.ask("open", Json({{"name", word}}).dump());
    server.ask("open", Json({{"name", "own.rnn" + word}}).dump());
    for (const char* field : {"name", "text", "cell", "device", "dtype", "batch", "steps"}) {
      Json asked = question("a.rnn", kCell);
      asked["dims"] = {{"H", "8"}};
      asked[field] = word;
      server.ask("explain", asked.dump());
      server.ask("describe", asked.dump());
    }
    Json asked = question("a.rnn", kCell);
    asked["dims"] = {{"H", word}};
    EXPECT_NE(server.ask("explain", asked.dump()).status, 200);
    asked["dims"] = {{word, "8"}};
    EXPECT_NE(server.ask("explain", asked.dump()).status, 200);
    server.ask("lsp", messages(word, kCell).dump());
    server.ask("lsp", messages("a.rnn", "import \"" + word + "\"\n").dump());
    server.ask(word, "{}");
  }
  EXPECT_EQ(files(), before);
}

TEST_F(Serve, DescribesCells) {
  const RunningServer server(directory_.path());
  const Response described = server.ask(
      "describe", question("a.rnn", "cell A[H, K = 2 * 3](x: [H]) -> y {\n  y = x[t]\n}\n").dump());
  EXPECT_EQ(Json::parse(described.body),
            Json::parse(R"({"definitions": [{"name": "A", "dims": [{"name": "H", "default": null},
                            {"name": "K", "default": "2 * 3"}]}]})"));
  EXPECT_EQ(
      Json::parse(server.ask("describe", question("a.rnn", "cell").dump()).body)["definitions"],
      Json::array());
}

TEST_F(Serve, ExplainsAsTheCommandDoes) {
  const RunningServer server(directory_.path());
  Json asked = question("cells/lstm.rnn", R"(import "gru.rnn"
cell A[H](x: [H]) -> h {
  state h: [H]
  param W: [H, H]
  h[t] = tanh(W @ h[t-1]) + x[t]
}
)");
  asked.update({{"cell", "A"},
                {"dims", {{"H", "8"}}},
                {"device", "cuda"},
                {"dtype", "bf16"},
                {"batch", "4"},
                {"steps", "10"}});
  const Response page = server.ask("explain", asked.dump());
  EXPECT_EQ(page.status, 200);
  EXPECT_TRUE(page.body.starts_with("<!doctype html>"));
  EXPECT_NE(page.body.find("\"dtype\": \"bf16\""), std::string::npos);
  EXPECT_NE(page.body.find("H200"), std::string::npos);
  asked["backward"] = true;
  EXPECT_NE(server.ask("explain", asked.dump()).body.find("\"residuals\": {"), std::string::npos);
  // Values are values, whatever they are like.
  asked["dims"] = {{"H", "8 --output=x"}};
  EXPECT_EQ(server.ask("explain", asked.dump()).body.substr(0, 63),
            "rnnc: error: --dim: expected NAME=NUMBER, such as H=512, got `H");
  asked["dims"] = {{"-o", "x"}};
  EXPECT_EQ(server.ask("explain", asked.dump()).status, 422);
  asked["dims"] = Json::object();
  EXPECT_NE(server.ask("explain", asked.dump()).body.find("no value for dim `H`"),
            std::string::npos);
  asked.update({{"dims", {{"H", "8"}}}, {"device", "tpu"}});
  EXPECT_NE(server.ask("explain", asked.dump()).body.find("expected one of cpu, cuda"),
            std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(directory_ / "x"));
}

TEST_F(Serve, SpeaksToEditors) {
  const RunningServer server(directory_.path());
  const std::string text = "cell A[H](x: [H]) -> y {\n  y = x[t] + z\n}\n";
  Json asked = messages("a.rnn", text);
  asked.push_back({{"jsonrpc", "2.0"},
                   {"id", 1},
                   {"method", "textDocument/hover"},
                   {"params",
                    {{"textDocument", {{"uri", "file:///a.rnn"}}},
                     {"position", {{"line", 1}, {"character", 6}}}}}});
  const Json sent = Json::parse(server.ask("lsp", asked.dump()).body);
  ASSERT_EQ(sent.size(), 3U) << sent;
  EXPECT_NE(sent[1].dump().find("[H]"), std::string::npos) << sent;
  EXPECT_EQ(sent[2]["method"], "textDocument/publishDiagnostics");
  EXPECT_EQ(sent[2]["params"]["diagnostics"][0]["range"]["start"]["line"], 1);
}

TEST_F(Serve, RefusesWhoDoesNotKnowTheSecret) {
  const RunningServer server(directory_.path());
  const std::string host = fmt::format("Host: 127.0.0.1:{}\r\n\r\n", server.port());
  std::string nearly = server.token();
  nearly.back() = nearly.back() == '0' ? '1' : '0';
  for (const std::string& path :
       {std::string("/"), std::string("/favicon.ico"), "/" + nearly + "/", "/" + server.token(),
        "/" + server.token() + "/list/", "/" + server.token() + "/../",
        "/" + server.token() + "/none", "//" + server.token() + "/"}) {
    expect(server.send("GET " + path + " HTTP/1.1\r\n" + host), 404, "there is nothing here\n");
  }
}

TEST_F(Serve, RefusesOtherHostsAndPages) {
  const RunningServer server(directory_.path());
  const auto with = [&](const std::string& header) {
    return server.send(server.request("POST", "list", "{}", header));
  };
  const std::string port = std::to_string(server.port());
  for (const std::string& host : {std::string("evil.example"), std::string("evil.example:" + port),
                                  std::string("127.0.0.1"), std::string("127.0.0.1:1")}) {
    expect(with("Host: " + host + "\r\n"), 421, "this is another host's\n");
  }
  expect(with("Host: localhost:" + port + "\r\nHost: evil.example\r\n"), 421,
         "this is another host's\n");
  for (const std::string& origin :
       {std::string("null"), std::string("http://evil.example"), "https://127.0.0.1:" + port,
        std::string("http://127.0.0.1:1"), "http://127.0.0.1:" + port + ".evil.example"}) {
    expect(with("Origin: " + origin + "\r\n"), 403, "other pages may not ask\n");
  }
  EXPECT_EQ(
      with("Host: localhost:" + port + "\r\nOrigin: http://localhost:" + port + "\r\n").status,
      200);
}

TEST_F(Serve, RefusesWhatIsNoQuestion) {
  const RunningServer server(directory_.path());
  expect(server.send("nonsense\r\n\r\n"), 400, "this is not HTTP/1.1\n");
  expect(server.send(server.request("GET", "list", "")), 405, "this takes another method\n");
  expect(server.send(server.request("POST", "", "{}")), 405, "this takes another method\n");
  expect(server.send(server.request("DELETE", "", "")), 405, "this takes another method\n");
  expect(server.send(server.request("POST", "list", "{}", "Content-Type: text/plain\r\n")), 415,
         "questions are JSON\n");
  expect(server.ask("list", "{"), 400, "rnnc: error: this is no question: it is not JSON\n");
  expect(server.ask("list", "\xff"), 400, "rnnc: error: this is no question: it is not JSON\n");
  expect(server.ask("list", "3"), 400,
         "rnnc: error: this is no question: it is neither an object nor an array\n");
  for (const char* body : {"{}", R"({"name": 3, "text": ""})", R"({"name": "a.rnn"})", "[]"}) {
    EXPECT_EQ(server.ask("explain", body).status, 400) << body;
  }
  EXPECT_EQ(server.ask("explain", R"({"name": "a.rnn", "text": "", "dims": {"H": 3}})").status,
            400);
  // Of a depth that no stack has.
  EXPECT_EQ(server.ask("lsp", std::string(1 << 20, '[')).status, 400);
}

TEST_F(Serve, RefusesWhatIsTooLong) {
  const RunningServer server(directory_.path());
  expect(server.send(server.request("GET", "", "", "X: " + std::string(1 << 17, 'x') + "\r\n")),
         431, "the header is too long\n");
  expect(server.send(server.request("POST", "list", "", "Content-Length: 99999999\r\n")), 413,
         "the body is too long\n");
  const std::string chunk = "100000\r\n" + std::string(1 << 20, ' ') + "\r\n";
  std::string body;
  for (int i = 0; i < 6; ++i) body += chunk;
  std::string chunked = server.request("POST", "list", body, "Transfer-Encoding: chunked\r\n");
  chunked.replace(chunked.find("Content-Length"), 14, "X-No-Length");
  expect(server.send(chunked), 413, "the body is too long\n");
}

TEST_F(Serve, EndsWorkThatTakesTooLong) {
  const RunningServer server(directory_.path());
  const Connection connection(server.port());
  connection.send(server.request("POST", "explain", slow()));
  ASSERT_TRUE(soon([&] { return !server.children().empty(); }));
  // It may write no file, has limited memory, and has no connection, once it has begun.
  const std::string process = fmt::format("/proc/{}/", server.children().front());
  EXPECT_TRUE(soon([&] {
    const std::filesystem::directory_iterator files(process + "fd");
    return std::distance(begin(files), end(files)) == 3;
  }));
#if !defined(__SANITIZE_ADDRESS__)
  const auto limit = [&](const std::string& name) {
    const std::string limits = TemporaryDirectory::read(process + "limits");
    return std::atoll(limits.c_str() + limits.find(name) + name.size());
  };
  EXPECT_TRUE(soon([&] { return limit("Max address space") > 0; }));
  EXPECT_EQ(limit("Max file size"), 0);
  EXPECT_GE(limit("Max address space"), int64_t{2} << 30);
  EXPECT_LT(limit("Max address space"), int64_t{4} << 30);
#endif
  // Others are answered meanwhile.
  EXPECT_EQ(server.ask("list", "{}").status, 200);
  const std::string answer = connection.read();
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 503")) << answer.substr(0, 200);
  EXPECT_TRUE(answer.ends_with("it took longer than 10 s\n"));
  EXPECT_TRUE(server.children().empty());
}

TEST_F(Serve, EndsWorkThatNobodyWaitsFor) {
  const RunningServer server(directory_.path());
  {
    const Connection connection(server.port());
    connection.send(server.request("POST", "explain", slow()));
    ASSERT_TRUE(soon([&] { return !server.children().empty(); }));
  }
  EXPECT_TRUE(soon([&] { return server.children().empty(); }));
  EXPECT_EQ(server.ask("list", "{}").status, 200);
}

TEST_F(Serve, DoesAFewThingsAtOnce) {
  const RunningServer server(directory_.path());
  std::vector<std::unique_ptr<Connection>> connections;
  for (size_t i = 0; i < 8; ++i) {
    connections.push_back(std::make_unique<Connection>(server.port()));
    connections.back()->send(server.request("POST", "explain", slow()));
    ASSERT_TRUE(soon([&] { return server.children().size() > i; })) << i;
  }
  expect(server.ask("list", "{}"), 503, "too many questions at once\n");
  connections.clear();
  EXPECT_TRUE(soon([&] { return server.ask("list", "{}").status == 200; }));
}

TEST_F(Serve, IsNotHeldUpByClientsThatSayNothing) {
  const RunningServer server(directory_.path());
  std::vector<std::unique_ptr<Connection>> connections;
  for (int i = 0; i < 300; ++i) {
    connections.push_back(std::make_unique<Connection>(server.port()));
    const char* begun = i % 3 == 0   ? ""
                        : i % 3 == 1 ? "GET /"
                                     : "POST / HTTP/1.1\r\nContent-Length: 5\r\n";
    connections.back()->send(begun);
  }
  EXPECT_EQ(server.ask("list", "{}").status, 200);
  // The first gave way, and those that came last end after 10 s.
  const auto seconds_until_closed = [](const Connection& connection) {
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(connection.read(std::chrono::seconds(30)), "");
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  EXPECT_LT(seconds_until_closed(*connections.front()), 3);
  EXPECT_LT(seconds_until_closed(*connections.back()), 20);
}

TEST_F(Serve, EndsCleanly) {
  for (const int signal : {SIGINT, SIGTERM}) {
    RunningServer server(directory_.path());
    const Connection connection(server.port());
    connection.send(server.request("POST", "explain", slow()));
    ASSERT_TRUE(soon([&] { return !server.children().empty(); }));
    const std::vector<int> children = server.children();
    EXPECT_EQ(server.stop(signal), 0);
    EXPECT_EQ(TemporaryDirectory::read(directory_ / "serve.errors"),
              "rnnc: note: open this address in a browser; Ctrl-C ends it\n");
    for (const int child : children) EXPECT_NE(::kill(child, 0), 0);
  }
  // Killed, it takes them with it.
  RunningServer server(directory_.path());
  const Connection connection(server.port());
  connection.send(server.request("POST", "explain", slow()));
  ASSERT_TRUE(soon([&] { return !server.children().empty(); }));
  const std::vector<int> children = server.children();
  server.stop(SIGKILL);
  for (const int child : children) {
    EXPECT_TRUE(soon([&] {
      std::string state = TemporaryDirectory::read(fmt::format("/proc/{}/stat", child));
      return state.empty() || state.find(") Z ") != state.npos;
    }));
  }
}

/// Requests with bytes changed, cut, doubled or put in: whatever comes, the server goes on.
TEST_F(Serve, LivesThroughBrokenRequests) {
  const RunningServer server(directory_.path());
  std::mt19937 random(1);
  const auto below = [&](size_t count) {
    return std::uniform_int_distribution<size_t>(0, count - 1)(random);
  };
  const std::vector<std::string> whole = {
      server.request("GET", "", ""),
      server.request("POST", "list", "{}"),
      server.request("POST", "describe", question("a.rnn", kCell).dump()),
      server.request("POST", "lsp", messages("a.rnn", kCell).dump()),
      server.request("POST", "list", "2\r\n{}\r\n0\r\n\r\n", "Transfer-Encoding: chunked\r\n"),
  };
  const std::vector<std::string> parts = {"\r\n",
                                          "\n",
                                          "\0\0",
                                          "\xff\xfe",
                                          "..",
                                          "/../../etc/passwd",
                                          "%2e%2e/",
                                          " ",
                                          ":",
                                          "HTTP/9.9",
                                          "Content-Length: -1\r\n",
                                          "Content-Length: 18446744073709551616\r\n",
                                          "Content-Length: 5\r\n",
                                          "Transfer-Encoding: chunked\r\n",
                                          "ffffffffffffffff\r\n",
                                          "Expect: 100-continue\r\n",
                                          "Connection: upgrade\r\n",
                                          std::string(3000, 'a'),
                                          "GET",
                                          "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"};
  for (int i = 0; i < 400; ++i) {
    std::string bytes = whole[below(whole.size())];
    for (size_t changes = 1 + below(4); changes > 0; --changes) {
      const size_t at = below(bytes.size() + 1);
      switch (below(4)) {
        case 0:
          bytes.insert(at, parts[below(parts.size())]);
          break;
        case 1:
          bytes.resize(at);
          break;
        case 2:
          if (at < bytes.size()) bytes[at] = static_cast<char>(below(256));
          break;
        default:
          bytes.insert(at, bytes.substr(below(bytes.size() + 1), below(200)));
      }
    }
    const Connection connection(server.port());
    connection.send(bytes);
    const std::string answer = connection.read(std::chrono::milliseconds(20));
    const bool known =
        answer.empty() || answer.starts_with("HTTP/1.1 200") || answer.starts_with("HTTP/1.1 4");
    EXPECT_TRUE(known) << bytes << "\n" << answer.substr(0, 300);
    EXPECT_TRUE(i % 50 != 0 || server.ask("list", "{}").status == 200) << i;
  }
  EXPECT_TRUE(soon([&] { return server.ask("list", "{}").status == 200; }));
}

}  // namespace
}  // namespace rnnc::test
