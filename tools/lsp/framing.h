/// The base protocol: messages as bytes, each behind a header that says how long it is.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace rnnc::lsp {

/// Bytes of a message; more is an error of the client's.
constexpr size_t kLargestMessage = 16 << 20;

/// `body` behind its header.
std::string framed(std::string_view body);

/// Cuts bytes, which come in any pieces, into messages.
class MessageReader {
 public:
  struct Message {
    std::string body;
    std::string error;  // what is wrong with a header; then there is no body
  };

  void add(std::string_view bytes) { bytes_.append(bytes); }
  /// The next message that is there as a whole. What follows a header without a sound length is
  /// skipped up to the next header.
  std::optional<Message> next();
  /// Whether bytes are left that are no whole message.
  bool is_within_message() const { return !bytes_.empty(); }

 private:
  Message resynchronise(size_t from, std::string error);

  std::string bytes_;
};

}  // namespace rnnc::lsp
