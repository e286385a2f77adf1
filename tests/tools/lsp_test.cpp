/// `rnnc lsp`: the loop over standard input and output, and how it ends. What it answers:
/// tests/lsp.
#include "tests/tools/tools_test.h"
#include "tools/lsp/framing.h"

namespace rnnc::test {
namespace {

class LspTool : public Tools {
 protected:
  CommandResult session(const std::vector<std::string>& messages) const {
    std::string input;
    for (const std::string& message : messages) input += lsp::framed(message);
    return run_command(directory_.path(), {"lsp"}, input);
  }
};

const std::string kInitialize = R"({"jsonrpc": "2.0", "id": 1, "method": "initialize"})";
const std::string kShutdown = R"({"jsonrpc": "2.0", "id": 9, "method": "shutdown"})";
const std::string kExit = R"({"jsonrpc": "2.0", "method": "exit"})";

TEST_F(LspTool, ServesUntilExit) {
  const CommandResult result = session({kInitialize, kShutdown, kExit});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.errors, "");
  const std::string first = "Content-Length: ";
  EXPECT_EQ(result.output.substr(0, first.size()), first);
  EXPECT_NE(result.output.find(R"("id":1,"result":{"capabilities":)"), std::string::npos);
  EXPECT_TRUE(result.output.ends_with(lsp::framed(R"({"jsonrpc":"2.0","id":9,"result":null})")))
      << result.output;
}

TEST_F(LspTool, SaysWhyItEndsOtherwise) {
  const CommandResult cut = session({kInitialize});
  EXPECT_EQ(cut.exit_code, 1);
  EXPECT_EQ(cut.errors, "rnnc: error: the client ended without `exit`\n");
  const CommandResult sudden = session({kInitialize, kExit});
  EXPECT_EQ(sudden.exit_code, 1);
  EXPECT_EQ(sudden.errors, "rnnc: error: the client sent `exit` before `shutdown`\n");
}

TEST_F(LspTool, GoesOnBehindBytesThatAreNoMessage) {
  const std::string input = "Content-Length: no\r\n\r\n{}" + lsp::framed(kInitialize) +
                            lsp::framed("\xff") + lsp::framed(kShutdown) + lsp::framed(kExit);
  const CommandResult result = run_command(directory_.path(), {"lsp"}, input);
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  for (const char* part :
       {"a header has no length", "this is not JSON", R"("id":9,"result":null)"}) {
    EXPECT_NE(result.output.find(part), std::string::npos) << part;
  }
}

}  // namespace
}  // namespace rnnc::test
