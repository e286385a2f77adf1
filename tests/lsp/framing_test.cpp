/// Bytes to messages, and places in UTF-16 to bytes.
#include "tools/lsp/framing.h"

#include <gtest/gtest.h>

#include "tools/lsp/convert.h"
#include "tools/lsp/text.h"

namespace rnnc::lsp {
namespace {

TEST(Framing, MessagesComeInAnyPieces) {
  const std::string bytes = framed("{\"a\": 1}") + "Content-Type: x\r\ncontent-length:2\r\n\r\n{}";
  for (size_t piece = 1; piece <= bytes.size(); ++piece) {
    MessageReader reader;
    std::vector<std::string> bodies;
    for (size_t at = 0; at < bytes.size(); at += piece) {
      reader.add(std::string_view(bytes).substr(at, piece));
      while (const auto message = reader.next()) {
        EXPECT_EQ(message->error, "");
        bodies.push_back(message->body);
      }
    }
    EXPECT_EQ(bodies, (std::vector<std::string>{"{\"a\": 1}", "{}"}));
  }
}

TEST(Framing, WrongHeadersAreSkipped) {
  const auto errors_of = [](const std::string& bytes) {
    MessageReader reader;
    reader.add(bytes + framed("good"));
    std::vector<std::string> errors;
    while (const auto message = reader.next()) {
      if (message->error.empty()) {
        EXPECT_EQ(message->body, "good");
        EXPECT_FALSE(reader.next());
        return errors;
      }
      errors.push_back(message->error);
    }
    ADD_FAILURE() << "the good message is lost behind " << bytes;
    return errors;
  };
  const std::string without = "a header has no length: `Content-Length: 123`";
  EXPECT_EQ(errors_of("Content-Length: x\r\n\r\n{}"), std::vector{without});
  EXPECT_EQ(errors_of("Content-Length: -1\r\n\r\n{}"), std::vector{without});
  EXPECT_EQ(errors_of("Something: 1\r\n\r\n{}"), std::vector{without});
  EXPECT_EQ(errors_of("Content-Length: 99999999999999999999\r\n\r\n"), std::vector{without});
  EXPECT_EQ(errors_of("Content-Length: 999999999\r\n\r\n{}"),
            std::vector<std::string>{"a message of 999999999 bytes is longer than 16 MiB"});
  MessageReader reader;
  reader.add(std::string(5000, 'x'));
  EXPECT_EQ(reader.next()->error, "a header does not end");
}

TEST(Text, PlacesAreUtf16) {
  const Text text("a𝒙b\r\nñ\n");  // a letter of two units and four bytes; one of two bytes
  EXPECT_EQ(text.offset({0, 1}), 1U);
  EXPECT_EQ(text.offset({0, 2}), 1U);  // within the letter
  EXPECT_EQ(text.offset({0, 3}), 5U);
  EXPECT_EQ(text.offset({0, 99}), 6U);
  EXPECT_EQ(text.offset({1, 1}), 10U);
  EXPECT_EQ(text.offset({9, 0}), text.string().size());
  EXPECT_EQ(text.position(5), (Position{0, 3}));
  EXPECT_EQ(text.position(10), (Position{1, 1}));
  EXPECT_EQ(text.position(99), (Position{2, 0}));
}

TEST(Convert, UrisAreFiles) {
  EXPECT_EQ(path_of("file:///a%20b/%C3%B1.rnn"), "/a b/ñ.rnn");
  EXPECT_EQ(path_of("file://host/a%2"), "/a%2");
  EXPECT_EQ(uri_of("/a b/ñ.rnn"), "file:///a%20b/%C3%B1.rnn");
  EXPECT_EQ(path_of("untitled:1"), "untitled:1");
}

}  // namespace
}  // namespace rnnc::lsp
