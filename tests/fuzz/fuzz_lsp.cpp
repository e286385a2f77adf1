/// Whatever a client sends, the language server answers or says what is wrong with it.
#include <cstdint>
#include <string_view>

#include "tools/lsp/framing.h"
#include "tools/lsp/server.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  rnnc::lsp::Server server({.send = [](const rnnc::lsp::Json& message) {
    message.dump(-1, ' ', false, rnnc::lsp::Json::error_handler_t::replace);
  }});
  rnnc::lsp::MessageReader reader;
  reader.add({reinterpret_cast<const char*>(data), size});
  while (const auto message = reader.next()) {
    if (message->error.empty()) {
      server.receive(message->body);
    } else {
      server.refuse(message->error);
    }
    server.idle();
  }
  return 0;
}
