/// What the server answers, and what it says of wrong messages.
#include "tests/lsp/session.h"

#include "tests/runtime/temporary_directory.h"
#include "tools/lsp/convert.h"

namespace rnnc::test {
namespace {

const std::string kCell =
    "/// Gated.\n"                         // 0
    "cell Unit[I, H](x: [I]) -> h {\n"     // 1
    "  state h: [H]\n"                     // 2
    "  param W: [H, I]\n"                  // 3
    "  k = sigmoid(W @ x[t])\n"            // 4
    "  h[t] = k * h[t-1] + swish(k, 2)\n"  // 5
    "}\n";                                 // 6

std::string hover(Session& session, uint32_t line, uint32_t character) {
  const Json result = session.ask("hover", line, character)["result"];
  return result.is_null() ? "" : result["contents"]["value"].get<std::string>();
}

TEST(Lsp, DiagnosticsComeWithFixes) {
  Session session;
  EXPECT_EQ(session.open(kCell), Json::array());
  const Json wrong = session.change(
      {{{"range",
         {{"start", {{"line", 4}, {"character", 6}}}, {"end", {{"line", 4}, {"character", 13}}}}},
        {"text", "sigmiod"}}});
  ASSERT_EQ(wrong.size(), 1U) << wrong;
  EXPECT_EQ(wrong[0]["range"]["start"], (Json{{"line", 4}, {"character", 6}}));
  EXPECT_NE(wrong[0]["message"].get<std::string>().find("hint: did you mean `sigmoid`?"),
            std::string::npos);
  const Json actions = session.ask("codeAction", 4, 8)["result"];
  ASSERT_EQ(actions.size(), 1U);
  EXPECT_EQ(actions[0]["edit"]["changes"][session.uri][0]["newText"], "sigmoid");
  EXPECT_EQ(actions[0]["diagnostics"], wrong);
  EXPECT_EQ(session.ask("codeAction", 1, 0)["result"], Json::array());
  // The fix, as a client applies it.
  const Json edit = actions[0]["edit"]["changes"][session.uri][0];
  EXPECT_EQ(session.change({{{"range", edit["range"]}, {"text", edit["newText"]}}}), Json::array());
}

TEST(Lsp, HoverSaysWhatANameIs) {
  Session session;
  session.open(kCell);
  EXPECT_EQ(hover(session, 4, 2), "```rnn\nk: [H]\n```\na local value of `Unit`");
  EXPECT_EQ(hover(session, 4, 16), "```rnn\nW @ x[t]\n```\nis [H]");
  EXPECT_NE(hover(session, 2, 8).find("linear recurrence of `h`: "), std::string::npos)
      << hover(session, 2, 8);
  EXPECT_NE(hover(session, 1, 6).find("\n\nGated.\n\n"), std::string::npos) << hover(session, 1, 6);
  EXPECT_NE(hover(session, 5, 24).find("v * sigmoid(beta * v)"), std::string::npos);
  EXPECT_EQ(hover(session, 0, 2), "");
}

TEST(Lsp, ParamsHaveTheirPlaceInTorch) {
  Session session;
  session.open(TemporaryDirectory::read(RNNC_SOURCE_DIR "/examples/cells/lstm.rnn"));
  const Json found = session.ask("documentSymbol", 0, 0)["result"][0]["children"];
  const auto param = std::ranges::find(found, Json("W_g"), [](const Json& s) { return s["name"]; });
  ASSERT_NE(param, found.end());
  const Json at = (*param)["selectionRange"]["start"];
  EXPECT_NE(hover(session, at["line"], at["character"]).find("in PyTorch: `weight_ih_l0[2 of 4]`"),
            std::string::npos);
}

TEST(Lsp, NamesAreFoundAndRenamed) {
  Session session;
  session.open(kCell);
  EXPECT_EQ(session.ask("definition", 5, 9)["result"]["range"]["start"],
            (Json{{"line", 4}, {"character", 2}}));
  EXPECT_EQ(session.ask("definition", 5, 24)["result"], Json());  // the prelude is no file
  EXPECT_EQ(session.ask("references", 5, 9)["result"].size(), 3U);
  EXPECT_EQ(
      session.ask("references", 5, 9, {{"context", {{"includeDeclaration", false}}}})["result"]
          .size(),
      2U);
  EXPECT_EQ(session.ask("documentHighlight", 2, 8)["result"].size(), 4U);
  const auto rename = [&](uint32_t line, uint32_t character, const std::string& name) {
    return session.ask("rename", line, character, {{"newName", name}});
  };
  EXPECT_EQ(rename(5, 9, "gate")["result"]["changes"][session.uri].size(), 3U);
  const auto refusal = [&](uint32_t line, uint32_t character, const std::string& name) {
    return rename(line, character, name)["error"]["message"].get<std::string>();
  };
  EXPECT_EQ(refusal(5, 9, "h"), "`h` would stand for something else somewhere");
  EXPECT_EQ(refusal(5, 9, "t"), "`t` names the step");
  EXPECT_EQ(refusal(5, 9, "a b"), "this is not a name of the language");
  EXPECT_EQ(refusal(5, 9, "tanh"), "this is a built-in function's name");
  EXPECT_EQ(refusal(4, 8, "k"), "a built-in function has no other name");
  EXPECT_EQ(refusal(5, 24, "k"), "the prelude's names stay");
  EXPECT_EQ(refusal(6, 0, "k"), "there is no name here");
}

TEST(Lsp, ImportsAreTheOpenTextsFirst) {
  TemporaryDirectory folder;
  folder.write("a.rnn", "import \"b.rnn\"\nnetwork N[H](x: [H]) -> y {\n  y = Twice(x)\n}\n");
  folder.write("b.rnn", "cell Twice[H](x: [H]) -> y {\n  y = 2 * x[t]\n}\n");
  Session session;
  session.uri = lsp::uri_of((folder / "a.rnn").string());
  EXPECT_EQ(session.open(TemporaryDirectory::read(folder / "a.rnn")), Json::array());
  const std::string imported = lsp::uri_of((folder / "b.rnn").string());
  EXPECT_EQ(session.ask("definition", 2, 7)["result"]["uri"], imported);
  EXPECT_EQ(session.ask("definition", 0, 9)["result"]["uri"], imported);
  const Json changes = session.ask("rename", 2, 7, {{"newName", "Double"}})["result"]["changes"];
  EXPECT_EQ(changes[session.uri].size(), 1U);
  EXPECT_EQ(changes[imported].size(), 1U);
  session.notify("textDocument/didOpen",
                 {{"textDocument", {{"uri", imported}, {"text", "cell Other() -> y { y = z }"}}}});
  const Json wrong = session.diagnostics();
  ASSERT_FALSE(wrong.empty());
  EXPECT_NE(wrong.dump().find("in `b.rnn`: "), std::string::npos) << wrong;
  session.notify("textDocument/didClose", {{"textDocument", {{"uri", imported}}}});
  EXPECT_EQ(session.diagnostics(), Json::array());
}

/// A file that is being written: wrong while it is half there, right with the next key.
TEST(Lsp, HalfWrittenImportsAreReadAgain) {
  TemporaryDirectory folder;
  const std::string whole = "cell Twice[H](x: [H]) -> y {\n  y = 2 * x[t]\n}\n";
  folder.write("b.rnn", whole.substr(0, 35));
  Session session;
  session.uri = lsp::uri_of((folder / "a.rnn").string());
  const Json wrong =
      session.open("import \"b.rnn\"\nnetwork N[H](x: [H]) -> y {\n  y = Twice(x)\n}\n");
  ASSERT_FALSE(wrong.empty());
  EXPECT_NE(wrong.dump().find("b.rnn"), std::string::npos) << wrong;
  folder.write("b.rnn", whole);
  const Json range = {{"start", {{"line", 3}, {"character", 1}}},
                      {"end", {{"line", 3}, {"character", 1}}}};
  EXPECT_EQ(session.change({{{"range", range}, {"text", " "}}}), Json::array());
}

TEST(Lsp, CompletionAndSignaturesKnowBrokenTexts) {
  Session session;
  std::string broken = kCell;
  broken.insert(broken.find("swish(k, 2)") + 9, "leaky_relu(k, ");
  EXPECT_FALSE(session.open(broken).empty());
  const Json list = session.ask("completion", 5, 10)["result"];
  for (const char* name : {"k", "W", "H", "swish", "tanh", "state", "Unit"}) {
    EXPECT_TRUE(std::ranges::any_of(list, [&](const Json& e) { return e["label"] == name; }))
        << name;
  }
  const Json help = session.ask("signatureHelp", 5, 45)["result"];
  EXPECT_EQ(help["signatures"][0]["label"], "fn leaky_relu(v, slope)");
  EXPECT_EQ(help["activeParameter"], 1);
  EXPECT_EQ(help["signatures"][0]["parameters"][1]["label"], "slope");
  EXPECT_EQ(session.ask("signatureHelp", 2, 3)["result"], Json());
}

TEST(Lsp, TheTextIsShownInItsParts) {
  Session session;
  std::string loose = kCell;
  loose.replace(loose.find("k * h"), 5, "k*h");
  session.open("// One\n// two.\n" + loose);
  const Json symbols = session.ask("documentSymbol", 0, 0)["result"];
  ASSERT_EQ(symbols.size(), 1U);
  EXPECT_EQ(symbols[0]["name"], "Unit");
  EXPECT_EQ(symbols[0]["range"]["end"], (Json{{"line", 8}, {"character", 1}}));
  EXPECT_EQ(symbols[0]["children"].size(), 6U);
  const Json folds = session.ask("foldingRange", 0, 0)["result"];
  EXPECT_EQ(folds, (Json{{{"startLine", 3}, {"endLine", 7}},
                         {{"startLine", 0}, {"endLine", 2}, {"kind", "comment"}}}));
  const Json tokens = session.ask("semanticTokens/full", 0, 0)["result"]["data"];
  EXPECT_EQ(tokens.size() % 5, 0U);
  EXPECT_EQ(Json(tokens.begin(), tokens.begin() + 5), (Json{3, 5, 4, 0, 1}));
  const Json range = {{"start", {{"line", 0}, {"character", 0}}},
                      {"end", {{"line", 99}, {"character", 0}}}};
  const Json hints = session.ask("inlayHint", 0, 0, {{"range", range}})["result"];
  ASSERT_EQ(hints.size(), 1U);
  EXPECT_EQ(hints[0]["label"], ": [H]");
  EXPECT_EQ(hints[0]["position"], (Json{{"line", 6}, {"character", 3}}));
  const Json edits = session.ask("formatting", 0, 0)["result"];
  ASSERT_EQ(edits.size(), 1U);
  session.open(edits[0]["newText"]);
  EXPECT_EQ(session.ask("formatting", 0, 0)["result"], Json::array());
  session.open("cell {");
  EXPECT_EQ(session.ask("formatting", 0, 0)["result"], Json::array());
}

TEST(Lsp, WrongMessagesAreErrorsAndNothingElse) {
  std::vector<Json> sent;
  lsp::Server server({.send = [&](const Json& message) { sent.push_back(message); }});
  const auto error_of = [&](const std::string& body) {
    server.receive(body);
    const Json error = sent.empty() ? Json::object() : sent.back().value("error", Json::object());
    sent.clear();
    return error.value("code", 0);
  };
  EXPECT_EQ(error_of("{"), -32700);
  EXPECT_EQ(error_of("\xff"), -32700);
  EXPECT_EQ(error_of("[]"), -32600);
  EXPECT_EQ(error_of(R"({"id": 1, "method": 2})"), -32600);
  EXPECT_EQ(error_of(R"({"id": 1, "method": "textDocument/hover"})"), -32002);
  EXPECT_EQ(error_of(R"({"method": "textDocument/didOpen"})"), 0);
  EXPECT_EQ(error_of(R"({"id": 1, "method": "initialize"})"), 0);
  EXPECT_EQ(error_of(R"({"id": 1, "method": "initialize"})"), -32600);
  EXPECT_EQ(error_of(R"({"id": 1, "method": "textDocument/nothing"})"), -32601);
  EXPECT_EQ(error_of(R"({"id": 1, "method": "textDocument/hover"})"), -32602);
  EXPECT_EQ(
      error_of(
          R"({"id": 1, "method": "textDocument/hover", "params": {"textDocument": {"uri": "file:///none"}}})"),
      -32602);
  server.receive(
      R"({"method": "textDocument/didChange", "params": {"textDocument": {"uri": "x"}}})");
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0]["params"]["message"], "textDocument/didChange: `x` is not open");
  sent.clear();
  EXPECT_EQ(error_of(R"({"id": 1, "method": "shutdown"})"), 0);
  EXPECT_EQ(error_of(R"({"id": 1, "method": "textDocument/hover"})"), -32600);
  EXPECT_FALSE(server.exit_code());
  EXPECT_EQ(error_of(R"({"method": "exit"})"), 0);
  EXPECT_EQ(server.exit_code(), 0);
}

TEST(Lsp, TheTextThatChangedIsPublishedFirst) {
  Session session;
  for (const char* uri : {"file:///a.rnn", "file:///b.rnn", "file:///c.rnn"}) {
    session.uri = uri;
    session.open(kCell);
  }
  session.uri = "file:///b.rnn";
  session.notify("textDocument/didChange",
                 {{"textDocument", {{"uri", session.uri}}}, {"contentChanges", {{{"text", ""}}}}});
  session.server().idle();
  std::vector<std::string> published;
  for (const Json& message : session.sent()) published.push_back(message["params"]["uri"]);
  EXPECT_EQ(published,
            std::vector<std::string>({"file:///b.rnn", "file:///a.rnn", "file:///c.rnn"}));
}

TEST(Lsp, ACheckGivesWayToTheNextKey) {
  bool more = false;
  std::vector<Json> sent;
  lsp::Server server({.send = [&](const Json& message) { sent.push_back(message); },
                      .interrupted = [&] { return std::exchange(more, true); }});
  server.receive(R"({"id": 1, "method": "initialize"})");
  const Json open = {{"method", "textDocument/didOpen"},
                     {"params", {{"textDocument", {{"uri", "file:///a.rnn"}, {"text", kCell}}}}}};
  server.receive(open.dump());
  sent.clear();
  server.idle();  // begins, and is stopped by the second question
  EXPECT_TRUE(sent.empty());
  server.receive(R"({"id": 2, "method": "textDocument/hover", "params": {"textDocument": {"uri":
      "file:///a.rnn"}, "position": {"line": 4, "character": 2}}})");
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0]["result"]["contents"]["value"], "```rnn\nk: [H]\n```\na local value of `Unit`");
}

}  // namespace
}  // namespace rnnc::test
